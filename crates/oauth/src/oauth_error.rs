//! Why there is no token. Messages name at most an origin, because URLs and server responses are untrusted.

use std::sync::Arc;

use upstream::egress::EgressError;
use upstream::http::HttpError;

/// Why there is no token, by possible remedy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OAuthError {
    /// The request failed.
    #[error("{what} cannot be had from `{origin}`")]
    Http {
        /// The requested document or token.
        what: &'static str,
        origin: String,
        #[source]
        source: Arc<HttpError>,
    },
    /// The response is invalid.
    #[error("{what} of `{origin}` cannot be used: {why}; tell whoever runs it")]
    InvalidResponse {
        /// The requested document or token.
        what: &'static str,
        origin: String,
        why: &'static str,
    },
    /// The text given as a URL is not one.
    #[error("{what} is no url: tell whoever runs the server")]
    InvalidUrl {
        /// The endpoint or document behind the URL.
        what: &'static str,
    },
    /// The egress policy forbids the URL.
    #[error("{what} is somewhere that may not be reached")]
    Forbidden {
        /// The endpoint or document behind the URL.
        what: &'static str,
        #[source]
        source: EgressError,
    },
    /// The URL is not `https`, but tokens and secrets must be encrypted in transit.
    #[error("{what} of `{origin}` is not `https`: serve it with TLS, or trust plain http for it")]
    InsecureUrl {
        /// The endpoint or document behind the URL.
        what: &'static str,
        origin: String,
    },
    /// The metadata describes another resource (RFC 9728, section 3.3).
    #[error("the metadata of `{origin}` speaks of another resource: tell whoever runs it")]
    WrongResource {
        /// The origin of the MCP server.
        origin: String,
    },
    /// The metadata (RFC 8414, section 3.3) or the answer to a consent request (RFC 9207) comes from another issuer.
    #[error(
        "{what} of `{origin}` comes from another issuer, `{found}`: the names must be the same, letter by letter"
    )]
    WrongIssuer {
        /// The document or answer.
        what: &'static str,
        /// The origin of the expected authorization server.
        origin: String,
        /// The issuer that it names.
        found: String,
    },
    /// The authorization server does not protect codes against theft with PKCE.
    #[error("`{origin}` does not offer PKCE with `S256`: it must, tell whoever runs it")]
    NoPkce {
        /// The origin of the authorization server.
        origin: String,
    },
    /// The authorization server does not support dynamic registration, and no client is configured.
    #[error(
        "`{origin}` does not let clients register themselves: register toolcrib there and name the client"
    )]
    NoRegistration {
        /// The origin of the authorization server.
        origin: String,
    },
    /// The configured client belongs to another authorization server.
    #[error("the named client is not registered at `{origin}`: register it there as well")]
    RegisteredElsewhere {
        /// The origin of the authorization server that the resource names now.
        origin: String,
    },
    /// The user declined or did not answer.
    #[error("nobody consented: consent and try again")]
    NoConsent,
    /// A user is being asked, and the call does not wait any longer.
    #[error("a user is being asked for consent: try again when it was given")]
    Pending,
    /// The answer to the consent request is invalid.
    #[error("the answer to the consent cannot be used: {why}; try again")]
    InvalidConsentAnswer { why: &'static str },
    /// The authorization server returned an OAuth error.
    #[error("`{origin}` refused with `{code}`{}", description_suffix(description))]
    Refused {
        /// The origin of the authorization server.
        origin: String,
        /// An OAuth error code.
        code: Box<str>,
        /// The server's description, for operators only: it may concern other clients.
        description: Option<Box<str>>,
    },
    /// The response is not that of a token endpoint.
    #[error("`{origin}` answered {status}: is the place for tokens there?")]
    NotTokenEndpoint {
        /// The origin of the authorization server.
        origin: String,
        status: u16,
    },
    /// The authorization server is overloaded or failing temporarily, as its status says.
    #[error("`{origin}` answered {status}, which passes: try again later")]
    TemporarilyUnavailable {
        /// The origin of the authorization server.
        origin: String,
        status: u16,
        /// The `Retry-After` delay, in seconds.
        retry_after: Option<u64>,
    },
    /// The server rejects a token that it required a moment ago.
    #[error("`{origin}` refuses a token that it was given just now: check what it asks for")]
    RejectedAgain {
        /// The origin of the MCP server.
        origin: String,
    },
    /// The server requires ever more scopes.
    #[error("`{origin}` wants more than {limit} scopes: tell whoever runs it")]
    TooManyScopes {
        /// The origin of the MCP server.
        origin: String,
        /// The maximum number of scopes.
        limit: usize,
    },
    /// A consent is in progress, and the queue of calls that wait for it is full.
    #[error("too many calls wait for a token: try again later")]
    Busy,
    /// The process is shutting down.
    #[error("the program is ending")]
    ShuttingDown,
}

fn description_suffix(description: &Option<Box<str>>) -> String {
    description.as_ref().map_or_else(String::new, |said| format!(", and says: {said}"))
}

impl OAuthError {
    /// Whether the authorization server returned one of these error codes.
    pub(super) fn is_refusal(&self, codes: &[&str]) -> bool {
        matches!(self, Self::Refused { code, .. } if codes.contains(&&**code))
    }
}
