//! Sessions of Streamable HTTP before the modern era. Both sides may end one.

use std::sync::{Arc, LazyLock, PoisonError};

use serde_json::{Map, Value};
use upstream::cancel_notices::CancelNotices;
use upstream::http::header::{HeaderMap, HeaderValue};
use upstream::http::{ExchangeLimits, Method, UpstreamRequest, origin_text};

use super::{BACKGROUND_DEADLINE, StreamableHttpLink};
use crate::call_meta::MODERN;
use crate::connection_settings::{McpCallOptions, ServerEra};
use crate::dispatch::CallRecipient;
use crate::{McpError, call_meta, negotiation};

/// Requests that end sessions, sent in the background; one queue per origin for all connections.
static SESSION_ENDINGS: LazyLock<CancelNotices<String>> =
    LazyLock::new(|| CancelNotices::with_deadline(BACKGROUND_DEADLINE));

/// The session headers of requests.
#[derive(Clone)]
pub(super) struct HttpSession {
    pub(super) is_modern: bool,
    /// `None` until it is negotiated.
    pub(super) version: Option<&'static str>,
    pub(super) id: Option<HeaderValue>,
    /// Grows with each new session.
    pub(super) generation: u64,
}

impl HttpSession {
    /// The initial state of every connection: the modern era, which has no sessions.
    pub(super) fn modern() -> Self {
        Self { is_modern: true, version: Some(MODERN), id: None, generation: 0 }
    }
}

impl StreamableHttpLink {
    pub(super) fn current_session(&self) -> HttpSession {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn session_generation(&self) -> u64 {
        self.current_session().generation
    }

    pub(crate) fn set_era(&self, era: ServerEra) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.is_modern = era == ServerEra::Modern;
        session.version = session.is_modern.then_some(MODERN);
    }

    /// Begins a session and returns the server's description of itself.
    pub(crate) async fn initialize(self: &Arc<Self>) -> Result<Map<String, Value>, McpError> {
        let generation = self.current_session().generation;
        let fresh = HttpSession { is_modern: false, version: None, id: None, generation };
        let mut params = call_meta::initialize_params(&self.settings);
        let call = McpCallOptions {
            deadline: Some(self.settings.limits.open_deadline),
            ..McpCallOptions::default()
        };
        let exchanged = self
            .exchange_message(fresh, "initialize", &mut params, &call, CallRecipient::Internal)
            .await;
        let (answer, id) = exchanged.map_err(|failure| failure.into_error(&self.url))?;
        let result = negotiation::expect_result("initialize", answer)?;
        let version = Some(call_meta::negotiated_version(&result)?);
        {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *session = HttpSession { is_modern: false, version, id, generation: generation + 1 };
        }
        self.send_notification("notifications/initialized", &Map::new(), &HeaderMap::new()).await?;
        Ok(result)
    }

    /// Begins a new session, unless another call has already replaced the one of this generation.
    pub(super) async fn renew_session(self: &Arc<Self>, generation: u64) -> Result<(), McpError> {
        let _turn = self.renewal_lock.lock().await;
        if self.current_session().generation == generation {
            self.initialize().await?;
            self.renewed.notify_one();
        }
        Ok(())
    }

    /// Ends the session once, if there is one, so that the server can free it. The request is sent in the background
    /// and is bounded by the limits of the cancellation queue.
    pub(crate) fn end_in_background(self: &Arc<Self>) {
        let (link, session) = (Arc::clone(self), self.current_session());
        let id = self.session.lock().unwrap_or_else(PoisonError::into_inner).id.take();
        if id.is_some() {
            SESSION_ENDINGS.send_notice(&origin_text(&self.url), async move {
                link.delete_session(&session).await
            });
        }
    }

    async fn delete_session(&self, session: &HttpSession) {
        let headers = self.request_headers(session, &HeaderMap::new());
        let request = UpstreamRequest {
            method: Method::DELETE,
            headers,
            ..UpstreamRequest::get(self.url.clone())
        };
        let limits = ExchangeLimits { deadline: BACKGROUND_DEADLINE, max_bytes: 64 * 1024 };
        // The server may refuse; clients are not entitled to end sessions.
        drop(self.client.open_stream(request, limits).await);
    }
}
