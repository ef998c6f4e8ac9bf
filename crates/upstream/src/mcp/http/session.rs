//! Sessions of Streamable HTTP before the modern era. Both sides may end one.

use std::sync::{Arc, LazyLock, PoisonError};

use serde_json::{Map, Value};

use super::{ASIDE, HttpLink};
use crate::http::header::{HeaderMap, HeaderValue};
use crate::http::{Limits, Method, Request, origin};
use crate::last_words::LastWords;
use crate::mcp::hearing::Whose;
use crate::mcp::meta::{self, MODERN};
use crate::mcp::settings::{Call, Era};
use crate::mcp::{McpError, open};

/// Requests that end sessions, sent in the background; one queue per origin for all connections.
static ENDINGS: LazyLock<LastWords<String>> = LazyLock::new(|| LastWords::within(ASIDE));

/// The session headers of requests.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) is_modern: bool,
    /// `None` until it is negotiated.
    pub(super) version: Option<&'static str>,
    pub(super) id: Option<HeaderValue>,
    /// Grows with each new session.
    pub(super) generation: u64,
}

impl Session {
    /// The initial state of every connection: the modern era, which has no sessions.
    pub(super) fn none() -> Self {
        Self { is_modern: true, version: Some(MODERN), id: None, generation: 0 }
    }
}

impl HttpLink {
    pub(super) fn session(&self) -> Session {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.session().generation
    }

    pub(crate) fn set_era(&self, era: Era) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.is_modern = era == Era::Modern;
        session.version = session.is_modern.then_some(MODERN);
    }

    /// Begins a session and returns the server's description of itself.
    pub(crate) async fn initialize(self: &Arc<Self>) -> Result<Map<String, Value>, McpError> {
        let generation = self.session().generation;
        let fresh = Session { is_modern: false, version: None, id: None, generation };
        let mut params = meta::introduction(&self.settings);
        let call = Call { deadline: Some(self.settings.limits.opening), ..Call::default() };
        let exchanged = self.exchange(fresh, "initialize", &mut params, &call, Whose::Ours).await;
        let (answer, id) = exchanged.map_err(|failure| failure.at(&self.url))?;
        let result = open::accepted("initialize", answer)?;
        let version = Some(meta::chosen(&result)?);
        {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *session = Session { is_modern: false, version, id, generation: generation + 1 };
        }
        self.notify("notifications/initialized", &Map::new(), &HeaderMap::new()).await?;
        Ok(result)
    }

    /// Begins a new session, unless another call has already replaced the one of this generation.
    pub(super) async fn renew(self: &Arc<Self>, generation: u64) -> Result<(), McpError> {
        let _turn = self.renewing.lock().await;
        if self.session().generation == generation {
            self.initialize().await?;
            self.renewed.notify_one();
        }
        Ok(())
    }

    /// Ends the session once, if there is one, so that the server can free it. The request is sent in the background
    /// and is bounded by the limits of the cancellation queue.
    pub(crate) fn end_aside(self: &Arc<Self>) {
        let (link, session) = (Arc::clone(self), self.session());
        let id = self.session.lock().unwrap_or_else(PoisonError::into_inner).id.take();
        if id.is_some() {
            ENDINGS.say(&origin(&self.url), async move { link.end(&session).await });
        }
    }

    async fn end(&self, session: &Session) {
        let headers = self.head(session, &HeaderMap::new());
        let request = Request { method: Method::DELETE, headers, ..Request::get(self.url.clone()) };
        let limits = Limits { deadline: ASIDE, max_bytes: 64 * 1024 };
        // The server may refuse; clients are not entitled to end sessions.
        drop(self.client.open(request, limits).await);
    }
}
