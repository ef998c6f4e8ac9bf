//! The HTTP+SSE transport of 2024-11-05: one stream carries all server messages and names the endpoint for requests.
//!
//! The endpoint must have the same origin, because it receives credentials.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use upstream::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use upstream::http::{
    ExchangeLimits, HttpClient, Method, StreamingResponse, UpstreamRequest, Url, origin_text,
};
use upstream::large_bodies::{LargeBodyLease, LargeBodyLimiter};

use super::authorized_attempts::insert_token;
use super::connection_settings::{ConnectionSettings, McpCallOptions};
use super::dispatch::{CallRecipient, DispatchStep, MessageDispatcher, MessageStream};
use super::http_link::{MAX_CANCEL_NOTICES, refusal_error};
use super::json_rpc::McpAnswer;
use super::request_headers::VERSION_HEADER;
use super::sse_parser::{SseEvent, SseParser};
use super::unsolicited_rate::UnsolicitedRate;
use super::{McpError, call_meta, json_rpc};

const MAX_REPLIES: usize = 16;
const MAX_ENDPOINT_URL: usize = 8 * 1024;
const BACKGROUND_DEADLINE: Duration = Duration::from_secs(10);
/// The deadline for the rest of an event that has begun.
const EVENT_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct HttpSseLink {
    client: HttpClient,
    endpoint: Url,
    headers: HeaderMap,
    settings: ConnectionSettings,
    pub(super) dispatcher: Arc<MessageDispatcher>,
    version: OnceLock<&'static str>,
    replies: Semaphore,
    cancel_permits: Arc<Semaphore>,
    reader: OnceLock<tokio::task::AbortHandle>,
}

/// Reads events from the stream.
struct SseReader {
    response: StreamingResponse,
    parser: SseParser,
    unsolicited_rate: UnsolicitedRate,
    body_lease: LargeBodyLease,
    /// The last chunk, and how much of it was parsed.
    chunk: Box<dyn AsRef<[u8]> + Send + Sync>,
    position: usize,
}

impl HttpSseLink {
    pub(crate) async fn connect_stream(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        settings: ConnectionSettings,
    ) -> Result<Arc<Self>, McpError> {
        let mut head = headers.clone();
        insert_token(settings.authorization.as_ref(), &mut head);
        head.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let limits =
            ExchangeLimits { deadline: settings.limits.open_deadline, max_bytes: u64::MAX };
        let request = UpstreamRequest { headers: head, ..UpstreamRequest::get(url.clone()) };
        let opened = client.open_stream(request, limits).await?;
        if opened.status != 200 {
            return Err(refusal_error(&opened, &url));
        }
        let sse = SseParser::new(settings.limits.message_bounds());
        let pace = UnsolicitedRate::new(settings.limits.max_unsolicited);
        let large = LargeBodyLease::unacquired(Some(&LargeBodyLimiter::with_slots(1)), None);
        let mut reading = SseReader {
            response: opened,
            parser: sse,
            unsolicited_rate: pace,
            body_lease: large,
            chunk: Box::new([]),
            position: 0,
        };
        let first = reading
            .next_event()
            .await
            .filter(|it| it.name == "endpoint" && it.len() <= MAX_ENDPOINT_URL);
        let endpoint =
            first.and_then(|event| String::from_utf8(event.data.ok()?.into_bytes()).ok());
        let endpoint = endpoint
            .and_then(|text| url.join(&text).ok())
            .ok_or_else(|| McpError::unreadable("GET", "the first event names no endpoint"))?;
        if endpoint.origin() != url.origin() {
            return Err(McpError::EndpointOriginMismatch);
        }
        let link = Arc::new(Self {
            client,
            endpoint,
            headers,
            settings,
            dispatcher: Arc::default(),
            version: OnceLock::new(),
            replies: Semaphore::new(MAX_REPLIES),
            cancel_permits: Arc::new(Semaphore::new(MAX_CANCEL_NOTICES)),
            reader: OnceLock::new(),
        });
        let task = tokio::spawn(read_events(Arc::downgrade(&link), reading, origin_text(&url)));
        link.reader.get_or_init(|| task.abort_handle());
        Ok(link)
    }

    pub(crate) fn set_version(&self, version: &'static str) {
        self.version.get_or_init(|| version);
    }

    pub(crate) async fn send_call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        let (id, answer) = self.dispatcher.register_call(call, whose)?;
        let tells = method != "initialize";
        let mut running =
            SseCallGuard { link: self, id, headers: &call.headers, notify_on_drop: tells };
        call_meta::add_meta(params, whose.progress_token(id), false, &self.settings, call);
        let body = json_rpc::encode_request(id, method, params);
        let sent = self.post_message(body, &call.headers, call.max_duration()).await;
        // A request that is rejected for its token was not executed.
        running.notify_on_drop &= !matches!(sent, Err(McpError::Unauthorized { .. }));
        sent?;
        answer.await.unwrap_or(Err(McpError::Closed)).map_err(|error| error.with_method(method))
    }

    pub(crate) async fn send_notification(
        &self,
        method: &str,
        params: &Map<String, Value>,
        more: &HeaderMap,
    ) -> Result<(), McpError> {
        self.post_message(json_rpc::encode_notification(method, params), more, BACKGROUND_DEADLINE)
            .await
    }

    async fn post_message(
        &self,
        body: Vec<u8>,
        more: &HeaderMap,
        deadline: Duration,
    ) -> Result<(), McpError> {
        let mut headers = self.headers.clone();
        insert_token(self.settings.authorization.as_ref(), &mut headers);
        for name in more.keys() {
            headers.remove(name);
            more.get_all(name).iter().for_each(|value| {
                headers.append(name.clone(), value.clone());
            });
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(version) = self.version.get() {
            headers.insert(VERSION_HEADER, HeaderValue::from_static(version));
        }
        let request = UpstreamRequest {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers,
            body: Some(body),
        };
        let limits = ExchangeLimits { deadline, max_bytes: 64 * 1024 };
        let opened = self.client.open_stream(request, limits).await?;
        match opened.status {
            200..300 => Ok(()),
            _ => Err(refusal_error(&opened, &self.endpoint)),
        }
    }

    fn send_reply(self: &Arc<Self>, next: DispatchStep) {
        if matches!(
            next,
            DispatchStep::Delivered | DispatchStep::Ignored | DispatchStep::Answered(_)
        ) {
            return;
        }
        let link = self.clone();
        let bound = match &next {
            DispatchStep::AwaitReply(asked) => Some((asked.call, asked.id.clone())),
            _ => None,
        };
        let task = tokio::spawn(async move {
            let reply = match next {
                DispatchStep::Reply(reply) => reply,
                DispatchStep::AwaitReply(asked) => asked.await_reply().await,
                DispatchStep::Delivered | DispatchStep::Ignored | DispatchStep::Answered(_) => {
                    return;
                }
            };
            let Ok(_place) = link.replies.try_acquire() else { return };
            drop(link.post_message(reply, &HeaderMap::new(), BACKGROUND_DEADLINE).await);
        });
        if let Some((call, id)) = bound {
            self.dispatcher.bind_question(call, id, task.abort_handle());
        }
    }

    pub(crate) fn close(&self) {
        self.dispatcher.fail_all(McpError::Closed);
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}

impl SseReader {
    /// The next event; `None` at the end, or if an event takes too long. Bytes outside events count towards the rate
    /// limit.
    async fn next_event(&mut self) -> Option<SseEvent> {
        loop {
            let mut bytes = (*self.chunk).as_ref().get(self.position..).unwrap_or_default();
            let length = bytes.len();
            let event = self.parser.next_event(&mut bytes);
            self.position += length - bytes.len();
            self.unsolicited_rate.count_bytes(self.parser.take_useless_bytes());
            // A complete event is accounted for separately; only the unfinished one counts here.
            self.body_lease
                .grow_to(if event.is_some() { 0 } else { self.parser.buffered_bytes() })
                .await;
            if event.is_some() {
                return event;
            }
            self.unsolicited_rate.wait_if_exceeded().await;
            // Drop the chunk before waiting, because the next one may take long to arrive.
            (self.chunk, self.position) = (Box::new([]), 0);
            let chunk = match self.parser.event_started() {
                Some(begun) => {
                    timeout_at(begun + EVENT_DEADLINE, self.response.next_chunk()).await.ok()?
                }
                None => self.response.next_chunk().await,
            };
            self.chunk = Box::new(chunk.ok()??);
        }
    }
}

async fn read_events(link: Weak<HttpSseLink>, mut reading: SseReader, origin: String) {
    while let Some(event) = reading.next_event().await {
        let Some(link) = link.upgrade() else { return };
        let length = event.len();
        let next = match json_rpc::parse_event(event, link.settings.limits.message_bounds()).await {
            Ok(message) => link.dispatcher.dispatch(message, MessageStream::Shared),
            Err(no_message) => {
                link.dispatcher.record_garbage(&no_message);
                DispatchStep::Ignored
            }
        };
        if !matches!(next, DispatchStep::Delivered) {
            reading.unsolicited_rate.count_message();
            // Questions may be long without counting as a flood.
            let is_asked = matches!(next, DispatchStep::AwaitReply(_));
            reading.unsolicited_rate.count_bytes(if is_asked { 0 } else { length });
        }
        link.send_reply(next);
        drop(link);
        reading.unsolicited_rate.wait_if_exceeded().await;
    }
    if let Some(link) = link.upgrade() {
        link.dispatcher.fail_all(McpError::StreamBroken { origin });
    }
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation.
struct SseCallGuard<'a> {
    link: &'a Arc<HttpSseLink>,
    id: u64,
    headers: &'a HeaderMap,
    notify_on_drop: bool,
}

impl Drop for SseCallGuard<'_> {
    fn drop(&mut self) {
        let was_open = self.link.dispatcher.abandon_call(self.id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if was_open
            && self.notify_on_drop
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

impl Drop for HttpSseLink {
    fn drop(&mut self) {
        self.close();
    }
}
