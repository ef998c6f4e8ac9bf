//! Streamable HTTP: every message is its own request, and the response carries everything that belongs to it.
//!
//! The modern era needs nothing else. Before it, there may be a session, which the server may end at any time with 404.
//! Then a new session is begun, once for each call, because a request that got 404 was not executed. Some servers
//! report a missing session in other ways; then a tool is called again only if the call was certainly not executed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use upstream::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use upstream::http::{
    ExchangeLimits, HttpClient, Method, StreamingResponse, UpstreamRequest, Url, origin_text,
    retry_after,
};
use upstream::large_bodies::LargeBodyLimiter;

use super::authorized_attempts::insert_token;
use super::connection_settings::{ConnectionSettings, McpCallOptions};
use super::dispatch::{CallRecipient, DispatchStep, MessageDispatcher};
use super::json_rpc::McpAnswer;
use super::request_headers::{SESSION_HEADER, VERSION_HEADER};
use super::unsolicited_rate::UnsolicitedRate;
use super::{McpError, call_meta, json_rpc, request_headers};

mod http_answer;
mod http_session;
mod notification_stream;

use http_session::HttpSession;
pub(crate) use notification_stream::listen_for_notifications;

/// Concurrent replies to server requests. Replies beyond this limit are dropped.
const MAX_REPLIES: usize = 16;
/// Concurrent cancellation notices. Notices beyond this limit are dropped.
pub(super) const MAX_CANCEL_NOTICES: usize = 64;
/// Long bodies that are read at the same time, of which one may be large.
const LONG_BODY_SLOTS: usize = 8;
/// The deadline of background requests.
const BACKGROUND_DEADLINE: Duration = Duration::from_secs(10);

pub(crate) struct StreamableHttpLink {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) settings: ConnectionSettings,
    pub(super) dispatcher: Arc<MessageDispatcher>,
    session: Mutex<HttpSession>,
    renewal_lock: tokio::sync::Mutex<()>,
    /// Notified when a new session has begun, because the notification stream belongs to a session.
    renewed: Notify,
    replies: Semaphore,
    cancel_permits: Arc<Semaphore>,
    body_limiter: LargeBodyLimiter,
    unsolicited_rate: Mutex<UnsolicitedRate>,
}

impl StreamableHttpLink {
    pub(crate) fn new(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        settings: ConnectionSettings,
    ) -> Arc<Self> {
        let pace = Mutex::new(UnsolicitedRate::new(settings.limits.max_unsolicited));
        Arc::new(Self {
            client,
            url,
            headers,
            settings,
            dispatcher: Arc::default(),
            session: Mutex::new(HttpSession::modern()),
            renewal_lock: tokio::sync::Mutex::default(),
            renewed: Notify::new(),
            replies: Semaphore::new(MAX_REPLIES),
            cancel_permits: Arc::new(Semaphore::new(MAX_CANCEL_NOTICES)),
            body_limiter: LargeBodyLimiter::with_slots(LONG_BODY_SLOTS),
            unsolicited_rate: pace,
        })
    }

    /// The rate of unsolicited messages over all calls.
    fn lock_unsolicited_rate(&self) -> MutexGuard<'_, UnsolicitedRate> {
        self.unsolicited_rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call, and renews the session once if the server has ended it.
    pub(crate) async fn send_call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        if whose == CallRecipient::Internal {
            self.renew_token().await;
        }
        let session = self.current_session();
        let generation = session.generation;
        match self.exchange_message(session, method, params, call, whose).await {
            Err(ExchangeFailure::SessionEnded) => self.renew_session(generation).await?,
            Err(ExchangeFailure::SessionDoubtful(answer)) => {
                let renewed = self.renew_session(generation).await;
                if !is_repeatable(method) {
                    return Ok(answer);
                }
                renewed?;
            }
            Err(ExchangeFailure::Permanent(error)) => return Err(error),
            Ok((answer, _)) => return Ok(answer),
        }
        match self.exchange_message(self.current_session(), method, params, call, whose).await {
            Ok((answer, _)) | Err(ExchangeFailure::SessionDoubtful(answer)) => Ok(answer),
            Err(failure) => Err(failure.into_error(&self.url)),
        }
    }

    async fn exchange_message(
        self: &Arc<Self>,
        session: HttpSession,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<(McpAnswer, Option<HeaderValue>), ExchangeFailure> {
        let id = self.dispatcher.register_streamed_call(call, whose)?;
        let tells = !session.is_modern && method != "initialize";
        let mut running =
            HttpCallGuard { link: self, id, headers: &call.headers, notify_on_drop: tells };
        call_meta::add_meta(
            params,
            whose.progress_token(id),
            session.is_modern,
            &self.settings,
            call,
        );
        let mut head = self.request_headers(&session, &call.headers);
        if session.is_modern {
            head.extend(request_headers::modern_headers(method, params, call.schema.as_deref())?);
        }
        let (body, asked) = (json_rpc::encode_request(id, method, params), Instant::now());
        let opened =
            self.post_message(head, body, call.max_duration()).await.inspect_err(|_| {
                running.notify_on_drop = false;
            })?;
        if opened.status == 404 && session.id.is_some() {
            running.notify_on_drop = false;
            return Err(ExchangeFailure::SessionEnded);
        }
        // A request that is rejected for its token was not executed.
        running.notify_on_drop &= !matches!(opened.status, 401 | 403);
        let (status, begun) = (opened.status, opened.headers.get(SESSION_HEADER).cloned());
        let said =
            http_answer::read_answer(self, opened, &session, id, method, (asked, call)).await?;
        running.notify_on_drop = false;
        let (answer, is_numbered) = (said.answer, said.has_request_id);
        match session.id.is_some() && status == 400 && mentions_session(&answer) {
            // If the server had processed the request, the error would carry its id.
            true if !is_numbered => Err(ExchangeFailure::SessionEnded),
            true => Err(ExchangeFailure::SessionDoubtful(answer)),
            false => Ok((answer, begun)),
        }
    }

    /// Sends a notification, which has no answer.
    pub(crate) async fn send_notification(
        &self,
        method: &str,
        params: &Map<String, Value>,
        more: &HeaderMap,
    ) -> Result<(), McpError> {
        let session = self.current_session();
        let mut head = self.request_headers(&session, more);
        if session.is_modern {
            head.extend(request_headers::modern_headers(method, params, None)?);
        }
        let opened = self
            .post_message(head, json_rpc::encode_notification(method, params), BACKGROUND_DEADLINE)
            .await?;
        match opened.status {
            200..300 => Ok(()),
            _ => Err(refusal_error(&opened, &self.url)),
        }
    }

    /// Renews an expiring token for background requests, which have no caller to do so.
    async fn renew_token(&self) {
        if let Some(authorization) = &self.settings.authorization {
            authorization.ensure_token().await;
        }
    }

    /// The headers of a request: those of the connection with its token, replaced by those of the call, then by ours.
    fn request_headers(&self, session: &HttpSession, more: &HeaderMap) -> HeaderMap {
        let mut head = self.headers.clone();
        insert_token(self.settings.authorization.as_ref(), &mut head);
        for name in more.keys() {
            head.remove(name);
            for value in more.get_all(name) {
                head.append(name.clone(), value.clone());
            }
        }
        let accepted = HeaderValue::from_static("application/json, text/event-stream");
        head.insert(ACCEPT, accepted);
        match session.version {
            Some(version) => head.insert(VERSION_HEADER, HeaderValue::from_static(version)),
            None => head.remove(VERSION_HEADER),
        };
        match &session.id {
            Some(id) => head.insert(SESSION_HEADER, id.clone()),
            None => head.remove(SESSION_HEADER),
        };
        head
    }

    async fn post_message(
        &self,
        mut head: HeaderMap,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<StreamingResponse, McpError> {
        head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let limits = ExchangeLimits { deadline, max_bytes: self.settings.limits.max_stream_bytes };
        let (method, url) = (Method::POST, self.url.clone());
        let request = UpstreamRequest { method, url, headers: head, body: Some(body) };
        Ok(self.client.open_stream(request, limits).await?)
    }

    /// Sends the reply that a message requires, now or once available. `more` are the headers of the call.
    fn send_reply(self: &Arc<Self>, next: DispatchStep, more: &HeaderMap) {
        if matches!(
            next,
            DispatchStep::Delivered | DispatchStep::Ignored | DispatchStep::Answered(_)
        ) {
            return;
        }
        let session = self.current_session();
        let (link, head) = (self.clone(), self.request_headers(&session, more));
        let send = async move |reply: Vec<u8>| {
            let Ok(_place) = link.replies.try_acquire() else { return };
            // A lost reply shows in the server's later behaviour.
            drop(link.post_message(head, reply, BACKGROUND_DEADLINE).await);
        };
        match next {
            DispatchStep::Delivered | DispatchStep::Ignored | DispatchStep::Answered(_) => {}
            _ if session.is_modern => {}
            DispatchStep::Reply(reply) => drop(tokio::spawn(async move { send(reply).await })),
            DispatchStep::AwaitReply(asked) => {
                let (call, id) = (asked.call, asked.id.clone());
                let task = tokio::spawn(async move { send(asked.await_reply().await).await });
                self.dispatcher.bind_question(call, id, task.abort_handle());
            }
        }
    }
}

/// Why an exchange failed.
enum ExchangeFailure {
    /// The session is gone, and the request was not executed.
    SessionEnded,
    /// The server seems to have lost the session, but may have executed the request; with its answer.
    SessionDoubtful(McpAnswer),
    Permanent(McpError),
}

impl ExchangeFailure {
    fn into_error(self, url: &Url) -> McpError {
        match self {
            Self::SessionEnded => session_error(url, 404),
            Self::SessionDoubtful(_) => session_error(url, 400),
            Self::Permanent(error) => error,
        }
    }
}

fn session_error(url: &Url, status: u16) -> McpError {
    McpError::UnexpectedStatus { origin: origin_text(url), status, retry_after: None }
}

impl From<McpError> for ExchangeFailure {
    fn from(error: McpError) -> Self {
        Self::Permanent(error)
    }
}

/// Whether the error mentions a session. Many servers refuse an unknown session with 400 instead of 404, and only this
/// word is common to their messages.
fn mentions_session(answer: &McpAnswer) -> bool {
    match answer {
        McpAnswer::Result(_) => false,
        McpAnswer::Error(error) => error.message().to_ascii_lowercase().contains("session"),
    }
}

/// Whether sending the request twice has the same effect as once.
fn is_repeatable(method: &str) -> bool {
    method != "tools/call"
}

/// Converts an unexpected response into an error, by its status.
pub(super) fn refusal_error(opened: &StreamingResponse, url: &Url) -> McpError {
    let (origin, status) = (origin_text(url), opened.status);
    match status {
        401 | 403 => {
            // There may be several challenges, in one header or in several.
            let challenges = opened.headers.get_all(WWW_AUTHENTICATE).iter();
            let challenges: Vec<_> = challenges.filter_map(|value| value.to_str().ok()).collect();
            let challenge = (!challenges.is_empty()).then(|| challenges.join(", ").into());
            McpError::Unauthorized { origin, status, challenge }
        }
        429 | 503 => {
            McpError::UnexpectedStatus { origin, status, retry_after: retry_after(&opened.headers) }
        }
        _ => McpError::UnexpectedStatus { origin, status, retry_after: None },
    }
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation; modern servers see the stream end.
struct HttpCallGuard<'a> {
    link: &'a Arc<StreamableHttpLink>,
    id: u64,
    headers: &'a HeaderMap,
    notify_on_drop: bool,
}

impl Drop for HttpCallGuard<'_> {
    fn drop(&mut self) {
        if !self.notify_on_drop {
            self.link.dispatcher.finish_call(self.id);
        } else if self.link.dispatcher.abandon_call(self.id)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Ok(place) = Arc::clone(&self.link.cancel_permits).try_acquire_owned()
        {
            let (link, id, headers) = (self.link.clone(), self.id, self.headers.clone());
            runtime.spawn(async move {
                let _place = place;
                let params = Map::from_iter([("requestId".to_owned(), json!(id))]);
                drop(link.send_notification("notifications/cancelled", &params, &headers).await);
            });
        }
    }
}
