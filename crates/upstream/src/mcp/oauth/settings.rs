//! Settings of an authorization: client identity, consent callback, storage and limits.

use std::sync::Arc;
use std::time::Duration;

use super::assertion::SigningKey;
use super::store::Store;
use super::{Coming, Url};

/// The settings of an authorization. They have no `Debug`, because they contain secrets.
#[derive(Clone)]
pub struct OAuth {
    /// The principal for whom tokens are obtained. Tokens are stored under it and the server's URL.
    pub principal: String,
    /// The client name that users see when they are asked for consent.
    pub name: String,
    /// How a token is obtained.
    pub flow: Flow,
    /// A preregistered client, which takes precedence over all other kinds of registration.
    pub registered: Option<Registered>,
    /// The URL of the client id metadata document, for authorization servers that support it. It takes precedence over
    /// dynamic registration.
    pub metadata_url: Option<Url>,
    /// Where tokens and registrations are stored.
    pub store: Arc<dyn Store>,
    /// The clock, in seconds since 1970.
    pub now: fn() -> u64,
    /// Whether plain HTTP to authorization servers on other machines is allowed.
    pub trusts_plain_http: bool,
    pub limits: OAuthLimits,
}

/// How a token is obtained.
#[derive(Clone)]
pub enum Flow {
    /// A user consents in a browser, which is then redirected back.
    Code {
        /// The redirect URI.
        redirect: Url,
        /// The callback that asks the user.
        consent: Consent,
    },
    /// No user is involved: the client itself is authorized.
    ClientCredentials,
}

/// Receives the URL where a user consents, and returns the query with which the browser was redirected back; `None` if
/// the user did not consent. The wait is limited by [`OAuthLimits::consent`].
pub type Consent = Arc<dyn Fn(Url) -> Coming<'static, Option<String>> + Send + Sync>;

/// A preregistered client.
#[derive(Clone)]
pub struct Registered {
    /// The issuer where the client is registered. By default it is bound to the first authorization server of the
    /// resource.
    pub issuer: Option<String>,
    pub id: String,
    pub secret: Option<String>,
    /// The key for signed assertions, which takes precedence over the secret.
    pub key: Option<SigningKey>,
}

/// Deadlines and size limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OAuthLimits {
    /// The deadline of one request.
    pub request: Duration,
    /// The size of one document, in bytes.
    pub max_document: u64,
    /// How long a user may take to consent.
    pub consent: Duration,
    /// How long a call waits for a consent. The user may still consent afterwards.
    pub patience: Duration,
    /// The cooldown after a failure, during which calls get that failure.
    pub rest: Duration,
    /// How many calls may wait for one token.
    pub max_waiting: usize,
}

impl Default for OAuthLimits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            max_document: 256 * 1024,
            consent: Duration::from_secs(5 * 60),
            patience: Duration::from_secs(5 * 60),
            rest: Duration::from_secs(5),
            max_waiting: 128,
        }
    }
}
