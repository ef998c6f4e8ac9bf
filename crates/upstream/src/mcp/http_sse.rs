//! The HTTP+SSE transport of 2024-11-05: one stream carries all server messages and names the endpoint for requests.
//!
//! The endpoint must have the same origin, because it receives credentials.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::McpError;
use super::headers::VERSION;
use super::hearing::{Hearing, Next, Stream, Whose};
use super::http::{MAX_CANCELLED, refused};
use super::message::{self, Answer};
use super::meta;
use super::oauth::show;
use super::pace::Pace;
use super::settings::{Call, Settings};
use super::sse::{Event, Sse};
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use crate::http::{HttpClient, Limits, Method, Opened, Request, Url, origin};
use crate::large::{Large, Room};

const MAX_REPLIES: usize = 16;
const MAX_URL: usize = 8 * 1024;
const ASIDE: Duration = Duration::from_secs(10);
/// The deadline for the rest of an event that has begun.
const EVENT: Duration = Duration::from_secs(30);

pub(crate) struct SseLink {
    client: HttpClient,
    endpoint: Url,
    headers: HeaderMap,
    settings: Settings,
    pub(super) hearing: Arc<Hearing>,
    version: OnceLock<&'static str>,
    replies: Semaphore,
    cancelled: Arc<Semaphore>,
    reader: OnceLock<tokio::task::AbortHandle>,
}

/// Reads events from the stream.
struct Reading {
    opened: Opened,
    sse: Sse,
    pace: Pace,
    large: Large,
    /// The last chunk, and how much of it was parsed.
    chunk: Box<dyn AsRef<[u8]> + Send + Sync>,
    at: usize,
}

impl SseLink {
    pub(crate) async fn open(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        settings: Settings,
    ) -> Result<Arc<Self>, McpError> {
        let mut head = headers.clone();
        show(settings.authorization.as_ref(), &mut head);
        head.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let limits = Limits { deadline: settings.limits.opening, max_bytes: u64::MAX };
        let request = Request { headers: head, ..Request::get(url.clone()) };
        let opened = client.open(request, limits).await?;
        if opened.status != 200 {
            return Err(refused(&opened, &url));
        }
        let sse = Sse::new(settings.limits.message());
        let pace = Pace::new(settings.limits.max_unasked);
        let large = Large::not_yet(Some(&Room::of(1)), None);
        let mut reading = Reading { opened, sse, pace, large, chunk: Box::new([]), at: 0 };
        let first = reading.next().await.filter(|it| it.name == "endpoint" && it.len() <= MAX_URL);
        let endpoint =
            first.and_then(|event| String::from_utf8(event.data.ok()?.into_bytes()).ok());
        let endpoint = endpoint
            .and_then(|text| url.join(&text).ok())
            .ok_or_else(|| McpError::unreadable("GET", "the first event names no endpoint"))?;
        if endpoint.origin() != url.origin() {
            return Err(McpError::Elsewhere);
        }
        let link = Arc::new(Self {
            client,
            endpoint,
            headers,
            settings,
            hearing: Arc::default(),
            version: OnceLock::new(),
            replies: Semaphore::new(MAX_REPLIES),
            cancelled: Arc::new(Semaphore::new(MAX_CANCELLED)),
            reader: OnceLock::new(),
        });
        let task = tokio::spawn(read(Arc::downgrade(&link), reading, origin(&url)));
        link.reader.get_or_init(|| task.abort_handle());
        Ok(link)
    }

    pub(crate) fn set_version(&self, version: &'static str) {
        self.version.get_or_init(|| version);
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        let (id, answer) = self.hearing.begin(call, whose)?;
        let tells = method != "initialize";
        let mut running = Running { link: self, id, headers: &call.headers, tells };
        meta::add(params, whose.token(id), false, &self.settings, call);
        let body = message::request(id, method, params);
        let sent = self.send(body, &call.headers, call.longest()).await;
        // A request that is rejected for its token was not executed.
        running.tells &= !matches!(sent, Err(McpError::Unauthorized { .. }));
        sent?;
        answer.await.unwrap_or(Err(McpError::Closed)).map_err(|error| error.about(method))
    }

    pub(crate) async fn notify(
        &self,
        method: &str,
        params: &Map<String, Value>,
        more: &HeaderMap,
    ) -> Result<(), McpError> {
        self.send(message::notification(method, params), more, ASIDE).await
    }

    async fn send(
        &self,
        body: Vec<u8>,
        more: &HeaderMap,
        deadline: Duration,
    ) -> Result<(), McpError> {
        let mut headers = self.headers.clone();
        show(self.settings.authorization.as_ref(), &mut headers);
        for name in more.keys() {
            headers.remove(name);
            more.get_all(name).iter().for_each(|value| {
                headers.append(name.clone(), value.clone());
            });
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(version) = self.version.get() {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
        let request =
            Request { method: Method::POST, url: self.endpoint.clone(), headers, body: Some(body) };
        let limits = Limits { deadline, max_bytes: 64 * 1024 };
        let opened = self.client.open(request, limits).await?;
        match opened.status {
            200..300 => Ok(()),
            _ => Err(refused(&opened, &self.endpoint)),
        }
    }

    fn react(self: &Arc<Self>, next: Next) {
        if matches!(next, Next::Taken | Next::Nothing | Next::Answered(_)) {
            return;
        }
        let link = self.clone();
        let bound = match &next {
            Next::Ask(asked) => Some((asked.call, asked.id.clone())),
            _ => None,
        };
        let task = tokio::spawn(async move {
            let reply = match next {
                Next::Reply(reply) => reply,
                Next::Ask(asked) => asked.reply().await,
                Next::Taken | Next::Nothing | Next::Answered(_) => return,
            };
            let Ok(_place) = link.replies.try_acquire() else { return };
            drop(link.send(reply, &HeaderMap::new(), ASIDE).await);
        });
        if let Some((call, id)) = bound {
            self.hearing.bind(call, id, task.abort_handle());
        }
    }

    pub(crate) fn close(&self) {
        self.hearing.fail(McpError::Closed);
        if let Some(reader) = self.reader.get() {
            reader.abort();
        }
    }
}

impl Reading {
    /// The next event; `None` at the end, or if an event takes too long. Bytes outside events count towards the rate
    /// limit.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let mut bytes = (*self.chunk).as_ref().get(self.at..).unwrap_or_default();
            let length = bytes.len();
            let event = self.sse.next(&mut bytes);
            self.at += length - bytes.len();
            self.pace.count_bytes(self.sse.take_useless());
            // A complete event is accounted for separately; only the unfinished one counts here.
            self.large.holds(if event.is_some() { 0 } else { self.sse.held() }).await;
            if event.is_some() {
                return event;
            }
            self.pace.keep().await;
            // Drop the chunk before waiting, because the next one may take long to arrive.
            (self.chunk, self.at) = (Box::new([]), 0);
            let chunk = match self.sse.begun() {
                Some(begun) => timeout_at(begun + EVENT, self.opened.chunk()).await.ok()?,
                None => self.opened.chunk().await,
            };
            self.chunk = Box::new(chunk.ok()??);
        }
    }
}

async fn read(link: Weak<SseLink>, mut reading: Reading, origin: String) {
    while let Some(event) = reading.next().await {
        let Some(link) = link.upgrade() else { return };
        let length = event.len();
        let next = match message::of(event, link.settings.limits.message()).await {
            Ok(message) => link.hearing.hear(message, Stream::Shared),
            Err(no_message) => {
                link.hearing.garbage(&no_message);
                Next::Nothing
            }
        };
        if !matches!(next, Next::Taken) {
            reading.pace.count();
            // Questions may be long without counting as a flood.
            let is_asked = matches!(next, Next::Ask(_));
            reading.pace.count_bytes(if is_asked { 0 } else { length });
        }
        link.react(next);
        drop(link);
        reading.pace.keep().await;
    }
    if let Some(link) = link.upgrade() {
        link.hearing.fail(McpError::Broken { origin });
    }
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation.
struct Running<'a> {
    link: &'a Arc<SseLink>,
    id: u64,
    headers: &'a HeaderMap,
    tells: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let was_open = self.link.hearing.give_up(self.id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if was_open
            && self.tells
            && let Ok(place) = Arc::clone(&self.link.cancelled).try_acquire_owned()
        {
            let (link, id, headers) = (self.link.clone(), self.id, self.headers.clone());
            runtime.spawn(async move {
                let _place = place;
                let params = Map::from_iter([("requestId".to_owned(), json!(id))]);
                drop(link.notify("notifications/cancelled", &params, &headers).await);
            });
        }
    }
}

impl Drop for SseLink {
    fn drop(&mut self) {
        self.close();
    }
}
