//! OAuth for MCP servers: discovers the authorization server of an MCP server, obtains a token, and renews it.
//!
//! Written by hand, see `docs/adr/0022-oauth-towards-upstreams-by-hand.md`: other parties name every URL in here, so
//! all requests pass the egress policy, size limits and deadlines of [`HttpClient`]. Each value is checked against an
//! earlier one: the resource against the server's URL, the issuer against the location of its metadata, the answer of a
//! user against the request for consent.
//!
//! An [`Authorization`] is for one server and one principal. Connections with it in their settings send its token, and
//! report when the server rejects the token. Tokens are never printed and appear in no error.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use toolcrib_upstream as upstream;
//! # use upstream::http::{HttpClient, Url};
//! # use upstream::mcp::Settings;
//! # use upstream::mcp::oauth::{Authorization, Consent, Flow, InMemory, OAuth, OAuthLimits};
//! # fn example(client: HttpClient, url: Url, redirect: Url, consent: Consent, now: fn() -> u64) {
//! let oauth = OAuth {
//!     principal: "zoë".to_owned(),
//!     name: "toolcrib".to_owned(),
//!     flow: Flow::Code { redirect, consent },
//!     registered: None,
//!     metadata_url: None,
//!     store: Arc::new(InMemory::default()),
//!     now,
//!     trusts_plain_http: false,
//!     limits: OAuthLimits::default(),
//! };
//! let authorization = Some(Authorization::new(client, url, oauth));
//! let settings = Settings { authorization, ..Settings::default() };
//! # }
//! ```

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use state::Shared;

use crate::http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use crate::http::{HttpClient, Url};
use crate::mcp::McpError;

mod assertion;
mod challenge;
mod client;
mod consent;
mod error;
mod fetch;
mod grant;
mod obtain;
mod protected;
mod resource;
mod scope;
mod server;
mod settings;
mod state;
mod store;
mod token;

pub use assertion::SigningKey;
pub use challenge::refuses_token;
pub use error::OAuthError;
pub use grant::{ACCESS_TOKEN, Grant, Granted, Grants, ID_JAG, Offered, TokenPlace};
pub use protected::Protected;
pub use settings::{Consent, Flow, OAuth, OAuthLimits, Registered};
pub use store::{InMemory, Kept, Store};

/// A boxed future.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The authorization to use one server on behalf of one principal. A clone shares the same token.
#[derive(Clone)]
pub struct Authorization {
    by: By,
}

/// Where the token comes from.
#[derive(Clone)]
enum By {
    Us(Arc<Shared>),
    Others(Arc<Mutex<Option<HeaderValue>>>),
}

impl Authorization {
    /// Authorization for the MCP server at `url`. No request is sent before the server requires a token.
    pub fn new(client: HttpClient, url: Url, oauth: OAuth) -> Self {
        Self { by: By::Us(Arc::new(Shared::new(client, url, oauth))) }
    }

    /// Authorization with a token that the owner [provides](Self::give). Rejections by the server are returned to the
    /// owner.
    pub fn given() -> Self {
        Self { by: By::Others(Arc::default()) }
    }

    /// Sets the token to send from now on. Returns false if it is not a valid header value.
    pub fn give(&self, token: &str) -> bool {
        let (By::Others(given), Some(mut value)) =
            (&self.by, HeaderValue::try_from(format!("Bearer {token}")).ok())
        else {
            return false;
        };
        value.set_sensitive(true);
        *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        true
    }

    /// Loads or renews the token, as far as that is possible without a user's consent. If that fails, the server's
    /// rejection states its requirements.
    pub(crate) async fn ready(&self) {
        let By::Us(shared) = &self.by else { return };
        if !shared.is_loaded() {
            obtain::load(shared).await;
        }
        if shared.is_expiring() {
            // The old token is sent then, and the server's rejection tells more.
            drop(obtain::refresh(shared).await);
        }
    }

    /// The `Authorization` header, if there is a token, and the generation of the token.
    pub(crate) fn shown(&self) -> (Option<HeaderValue>, u64) {
        match &self.by {
            By::Us(shared) => shared.shown(),
            By::Others(given) => (given.lock().unwrap_or_else(PoisonError::into_inner).clone(), 0),
        }
    }

    /// Records that the server accepted the token of this generation.
    pub(crate) fn worked(&self, generation: u64) {
        if let By::Us(shared) = &self.by {
            shared.worked(generation);
        }
    }

    /// Obtains the token that a rejection requires, so that the request can be repeated. Other errors are returned.
    pub(crate) async fn answer(&self, generation: u64, refusal: McpError) -> Result<(), McpError> {
        let (By::Us(shared), McpError::Unauthorized { origin, status, challenge }) =
            (&self.by, &refusal)
        else {
            return Err(refusal);
        };
        let text = challenge.as_deref().unwrap_or_default();
        let Some(need) = challenge::need(*status, text) else { return Err(refusal) };
        let origin = origin.clone();
        let done = obtain::obtain(shared, generation, need).await;
        done.map_err(|source| McpError::Authorization { origin, source: Arc::new(source) })
    }
}

/// Replaces the `Authorization` header with the token of the connection, if there is one.
pub(crate) fn show(authorization: Option<&Authorization>, headers: &mut HeaderMap) {
    if let Some(token) = authorization.and_then(|authorization| authorization.shown().0) {
        headers.insert(AUTHORIZATION, token);
    }
}

/// How often one request is repeated with another token.
const MAX_AGAIN: u32 = 3;

/// Repeats a request with another token if the server requires one, because a rejected request was not executed. The
/// request's deadline does not cover obtaining a token, which may need a user's consent.
pub(crate) struct Attempts<'a> {
    authorization: Option<&'a Authorization>,
    generation: u64,
    times: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(authorization: Option<&'a Authorization>) -> Self {
        Self { authorization, generation: 0, times: 0 }
    }

    /// Prepares the token before each attempt.
    pub(crate) async fn begin(&mut self) {
        if let Some(authorization) = self.authorization {
            authorization.ready().await;
            self.generation = authorization.shown().1;
        }
    }

    /// Handles the result of an attempt; `None` means that the request must be repeated.
    pub(crate) async fn end<T>(
        &mut self,
        done: Result<T, McpError>,
    ) -> Result<Option<T>, McpError> {
        match (done, self.authorization) {
            (Ok(done), authorization) => {
                authorization.inspect(|it| it.worked(self.generation));
                Ok(Some(done))
            }
            (Err(refusal), Some(authorization)) if self.times < MAX_AGAIN => {
                self.times += 1;
                authorization.answer(self.generation, refusal).await.map(|()| None)
            }
            (Err(error), _) => Err(error),
        }
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}
