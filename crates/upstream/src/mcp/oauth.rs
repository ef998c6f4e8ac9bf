//! OAuth towards MCP servers: finding out who gives tokens for a server, getting one, and keeping it fresh.
//!
//! Written by hand, see `docs/adr/0022-oauth-towards-upstreams-by-hand.md`: every url in here is named by somebody else, and
//! all of them are asked through the guard, limits and deadlines of [`HttpClient`]. Nothing is believed that was not checked
//! against what came before: the resource against the server's url, the issuer against the place its metadata was found at,
//! the answer of a user against the question.
//!
//! An [`Authorization`] is for one server and one principal. Connections with it in their settings show its token, and
//! come back with what the server says when that will not do. Tokens are never printed and stand in no error.
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

/// What is there later.
pub type Coming<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The right to use one server in the name of one principal. A copy is the same.
#[derive(Clone)]
pub struct Authorization {
    by: By,
}

/// Who sees to the token.
#[derive(Clone)]
enum By {
    Us(Arc<Shared>),
    Others(Arc<Mutex<Option<HeaderValue>>>),
}

impl Authorization {
    /// For the MCP server at `url`. Nothing is asked before the server wants a token.
    pub fn new(client: HttpClient, url: Url, oauth: OAuth) -> Self {
        Self { by: By::Us(Arc::new(Shared::new(client, url, oauth))) }
    }

    /// With a token that is [given](Self::give). What the server refuses comes back to whoever gave it.
    pub fn given() -> Self {
        Self { by: By::Others(Arc::default()) }
    }

    /// The token to be shown from now on. Says whether it could be one.
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

    /// Sees to it that the token is one that still holds, as far as that can be done without asking anybody for consent.
    /// If it cannot, the server will say what it wants.
    pub(crate) async fn ready(&self) {
        let By::Us(shared) = &self.by else { return };
        if !shared.is_loaded() {
            obtain::load(shared).await;
        }
        if shared.is_expiring() {
            // The old one is shown then, and the refusal says more.
            drop(obtain::refresh(shared).await);
        }
    }

    /// To be shown, if there is a token, and which one it is.
    pub(crate) fn shown(&self) -> (Option<HeaderValue>, u64) {
        match &self.by {
            By::Us(shared) => shared.shown(),
            By::Others(given) => (given.lock().unwrap_or_else(PoisonError::into_inner).clone(), 0),
        }
    }

    /// The token of that number was accepted.
    pub(crate) fn worked(&self, generation: u64) {
        if let By::Us(shared) = &self.by {
            shared.worked(generation);
        }
    }

    /// Does what a refusal asks for, so that the request can be made again. What cannot be helped is handed back.
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

/// Puts the token of a connection in place of what its headers have, if there is one.
pub(crate) fn show(authorization: Option<&Authorization>, headers: &mut HeaderMap) {
    if let Some(token) = authorization.and_then(|authorization| authorization.shown().0) {
        headers.insert(AUTHORIZATION, token);
    }
}

/// How often one request is made again with another token.
const MAX_AGAIN: u32 = 3;

/// A request that is made again with another token if the server wants one: what it refuses was not begun. All the time
/// that takes is outside of the request's deadline, as it may be a user's.
pub(crate) struct Attempts<'a> {
    authorization: Option<&'a Authorization>,
    generation: u64,
    times: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(authorization: Option<&'a Authorization>) -> Self {
        Self { authorization, generation: 0, times: 0 }
    }

    /// Before the request is made.
    pub(crate) async fn begin(&mut self) {
        if let Some(authorization) = self.authorization {
            authorization.ready().await;
            self.generation = authorization.shown().1;
        }
    }

    /// What came of it; nothing if it is to be made again.
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
