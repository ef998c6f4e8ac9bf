//! Settings of an authorization: client identity, consent callback, storage and limits.

use std::sync::Arc;
use std::time::Duration;

use super::client_assertion::ClientSigningKey;
use super::oauth_store::OAuthStore;
use super::{OAuthFuture, Url};

/// The settings of an authorization. They have no `Debug`, because they contain secrets.
#[derive(Clone)]
pub struct OAuthSettings {
    /// The principal for whom tokens are obtained. Tokens are stored under it and the server's URL.
    pub principal: String,
    /// The client name that users see when they are asked for consent.
    pub client_name: String,
    /// How a token is obtained.
    pub flow: OAuthFlow,
    /// A preregistered client, which takes precedence over all other kinds of registration.
    pub registered_client: Option<RegisteredClient>,
    /// The URL of the client id metadata document, for authorization servers that support it. It takes precedence over
    /// dynamic registration.
    pub client_metadata_url: Option<Url>,
    /// Where tokens and registrations are stored.
    pub store: Arc<dyn OAuthStore>,
    /// The clock, in seconds since 1970.
    pub now: fn() -> u64,
    /// Whether plain HTTP to authorization servers on other machines is allowed.
    pub trusts_plain_http: bool,
    pub limits: OAuthLimits,
}

/// How a token is obtained.
#[derive(Clone)]
pub enum OAuthFlow {
    /// A user consents in a browser, which is then redirected back.
    AuthorizationCode {
        /// The redirect URI.
        redirect: Url,
        /// The callback that asks the user.
        consent: ConsentCallback,
    },
    /// No user is involved: the client itself is authorized.
    ClientCredentials,
}

/// Receives the URL where a user consents, and returns the query with which the browser was redirected back; `None` if
/// the user did not consent. The wait is limited by [`OAuthLimits::consent_deadline`].
pub type ConsentCallback = Arc<dyn Fn(Url) -> OAuthFuture<'static, Option<String>> + Send + Sync>;

/// A preregistered client.
#[derive(Clone)]
pub struct RegisteredClient {
    /// The issuer where the client is registered. By default it is bound to the first authorization server of the
    /// resource.
    pub issuer: Option<String>,
    pub id: String,
    pub secret: Option<String>,
    /// The key for signed assertions, which takes precedence over the secret.
    pub key: Option<ClientSigningKey>,
}

/// Deadlines and size limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OAuthLimits {
    /// The deadline of one request.
    pub request_deadline: Duration,
    /// The size of one document, in bytes.
    pub max_document_bytes: u64,
    /// How long a user may take to consent.
    pub consent_deadline: Duration,
    /// How long a call waits for a consent. The user may still consent afterwards.
    pub max_wait: Duration,
    /// The cooldown after a failure, during which calls get that failure.
    pub failure_cooldown: Duration,
    /// How many calls may wait for one token.
    pub max_waiting: usize,
}

impl Default for OAuthLimits {
    fn default() -> Self {
        Self {
            request_deadline: Duration::from_secs(10),
            max_document_bytes: 256 * 1024,
            consent_deadline: Duration::from_secs(5 * 60),
            max_wait: Duration::from_secs(5 * 60),
            failure_cooldown: Duration::from_secs(5),
            max_waiting: 128,
        }
    }
}
