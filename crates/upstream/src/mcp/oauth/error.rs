//! Why there is no token. Messages name an origin at most: the rest of a url, and all that a server says, come from outside.

use std::sync::Arc;

use crate::egress::EgressError;
use crate::http::HttpError;

/// Why there is no token, by what can be done about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OAuthError {
    /// Nothing came.
    #[error("{what} cannot be had from `{origin}`")]
    Http {
        /// What was asked for.
        what: &'static str,
        /// Scheme, host and port.
        origin: String,
        /// Why.
        #[source]
        source: Arc<HttpError>,
    },
    /// Something came that is of no use.
    #[error("{what} of `{origin}` cannot be used: {why}; tell whoever runs it")]
    Unusable {
        /// What was asked for.
        what: &'static str,
        /// Scheme, host and port.
        origin: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What is named is no url.
    #[error("{what} is no url: tell whoever runs the server")]
    Nowhere {
        /// What would be there.
        what: &'static str,
    },
    /// A url that is named may not be reached.
    #[error("{what} is somewhere that may not be reached")]
    Forbidden {
        /// What would be there.
        what: &'static str,
        /// Why.
        #[source]
        source: EgressError,
    },
    /// Tokens and secrets do not travel in the open.
    #[error("{what} of `{origin}` is not `https`: serve it with TLS, or trust plain http for it")]
    Plain {
        /// What is there.
        what: &'static str,
        /// Scheme, host and port.
        origin: String,
    },
    /// The metadata is that of another resource (RFC 9728, section 3.3).
    #[error("the metadata of `{origin}` speaks of another resource: tell whoever runs it")]
    WrongResource {
        /// The server's.
        origin: String,
    },
    /// The metadata is that of another issuer (RFC 8414, section 3.3), or the answer to a user's consent is (RFC 9207).
    #[error(
        "{what} of `{origin}` comes from another issuer, `{found}`: the names must be the same, letter by letter"
    )]
    WrongIssuer {
        /// What came.
        what: &'static str,
        /// Of the authorization server that was meant.
        origin: String,
        /// From whom it says that it is.
        found: String,
    },
    /// It does not protect codes against theft.
    #[error("`{origin}` does not offer PKCE with `S256`: it must, tell whoever runs it")]
    NoPkce {
        /// Of the authorization server.
        origin: String,
    },
    /// There is no way to be known there.
    #[error(
        "`{origin}` does not let clients register themselves: register toolcrib there and name the client"
    )]
    Unknown {
        /// Of the authorization server.
        origin: String,
    },
    /// The client that was named belongs to another authorization server.
    #[error("the named client is not registered at `{origin}`: register it there as well")]
    RegisteredElsewhere {
        /// Of the authorization server that the resource names now.
        origin: String,
    },
    /// Whoever was asked said no, or nothing.
    #[error("nobody consented: consent and try again")]
    NoConsent,
    /// A user is being asked, and the call does not wait any longer.
    #[error("a user is being asked for consent: try again when it was given")]
    Pending,
    /// What came back is not the answer to what was asked.
    #[error("the answer to the consent cannot be used: {why}; try again")]
    Answer {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The authorization server said no.
    #[error("`{origin}` refused with `{code}`{}", said(description))]
    Refused {
        /// Of the authorization server.
        origin: String,
        /// One of the codes of OAuth.
        code: Box<str>,
        /// What else it says, for those who run toolcrib: it may speak of others.
        description: Option<Box<str>>,
    },
    /// What came is no answer of a place for tokens.
    #[error("`{origin}` answered {status}: is the place for tokens there?")]
    Status {
        /// Of the authorization server.
        origin: String,
        /// The status code.
        status: u16,
    },
    /// It is in trouble or has too much to do, as its status says: that passes.
    #[error("`{origin}` answered {status}, which passes: try again later")]
    InTrouble {
        /// Of the authorization server.
        origin: String,
        /// The status code.
        status: u16,
        /// In how many seconds it wants to be asked again, if it said so.
        retry_after: Option<u64>,
    },
    /// It was given what it wants, and wants it again.
    #[error("`{origin}` refuses a token that it was given just now: check what it asks for")]
    Again {
        /// The server's.
        origin: String,
    },
    /// The scopes it wants grow without an end.
    #[error("`{origin}` wants more than {limit} scopes: tell whoever runs it")]
    TooManyScopes {
        /// The server's.
        origin: String,
        /// How many may be.
        limit: usize,
    },
    /// A consent is under way, and as many as may wait for it do.
    #[error("too many calls wait for a token: try again later")]
    Busy,
    /// The work on it was ended with the program.
    #[error("the program is ending")]
    Ending,
}

fn said(description: &Option<Box<str>>) -> String {
    description.as_ref().map_or_else(String::new, |said| format!(", and says: {said}"))
}

impl OAuthError {
    /// Whether the authorization server said no for this reason.
    pub(super) fn is_refusal(&self, codes: &[&str]) -> bool {
        matches!(self, Self::Refused { code, .. } if codes.contains(&&**code))
    }
}
