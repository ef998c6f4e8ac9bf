//! Who we are to authorization servers, who is asked for consent, and within what bounds.

use std::sync::Arc;
use std::time::Duration;

use super::assertion::SigningKey;
use super::store::Store;
use super::{Coming, Url};

/// What an authorization needs. It cannot be printed: it holds secrets.
#[derive(Clone)]
pub struct OAuth {
    /// In whose name. Tokens are kept under it and the server's url.
    pub principal: String,
    /// What people who are asked for consent are told of us.
    pub name: String,
    /// How a token is asked for.
    pub flow: Flow,
    /// A client that somebody registered by hand. It is used before the other ways to be known.
    pub registered: Option<Registered>,
    /// Where a document about us is, for authorization servers that read such (client id metadata documents). It is used
    /// before registering.
    pub metadata_url: Option<Url>,
    /// Where tokens and registrations are kept.
    pub store: Arc<dyn Store>,
    /// Seconds since 1970.
    pub now: fn() -> u64,
    /// Whether authorization servers may be spoken to without TLS although they are on another machine.
    pub trusts_plain_http: bool,
    /// The bounds.
    pub limits: OAuthLimits,
}

/// How a token is asked for.
#[derive(Clone)]
pub enum Flow {
    /// A user consents in a browser, which is then sent back to us.
    Code {
        /// Where to.
        redirect: Url,
        /// Who asks the user.
        consent: Consent,
    },
    /// Nobody is asked: the client itself has the right.
    ClientCredentials,
}

/// Is given the url where a user consents, and says what the browser was sent back with: the query of the redirect.
/// Nothing if nobody consented. It is waited for no longer than [`OAuthLimits::consent`].
pub type Consent = Arc<dyn Fn(Url) -> Coming<'static, Option<String>> + Send + Sync>;

/// A client that somebody registered by hand.
#[derive(Clone)]
pub struct Registered {
    /// Where. If nobody said so, it belongs to the first authorization server that the resource named, and no other.
    pub issuer: Option<String>,
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<String>,
    /// The key it signs with, if it has one. It is used before the secret.
    pub key: Option<SigningKey>,
}

/// How long and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OAuthLimits {
    /// For one request.
    pub request: Duration,
    /// Of one document, in bytes.
    pub max_document: u64,
    /// How long a user has.
    pub consent: Duration,
    /// How long a call waits for that. The user may still consent afterwards.
    pub patience: Duration,
    /// After a failure nothing is tried for so long; whoever comes is told of that failure.
    pub rest: Duration,
    /// How many calls wait for one token.
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
