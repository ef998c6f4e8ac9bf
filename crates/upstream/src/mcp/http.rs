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

use super::McpError;
use super::headers::{self, SESSION, VERSION};
use super::hearing::{Hearing, Next, Whose};
use super::message::{self, Answer};
use super::meta;
use super::oauth::show;
use super::pace::Pace;
use super::settings::{Call, Settings};
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use crate::http::{HttpClient, Limits, Method, Opened, Request, Url, origin, retry_after};
use crate::large::Room;

mod answer;
mod listen;
mod session;

pub(crate) use listen::listen;
use session::Session;

/// Concurrent replies to server requests. Replies beyond this limit are dropped.
const MAX_REPLIES: usize = 16;
/// Concurrent cancellation notices. Notices beyond this limit are dropped.
pub(super) const MAX_CANCELLED: usize = 64;
/// Long bodies that are read at the same time, of which one may be large.
const LONG_ANSWERS: usize = 8;
/// The deadline of background requests.
const ASIDE: Duration = Duration::from_secs(10);

pub(crate) struct HttpLink {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) settings: Settings,
    pub(super) hearing: Arc<Hearing>,
    session: Mutex<Session>,
    renewing: tokio::sync::Mutex<()>,
    /// Notified when a new session has begun, because the notification stream belongs to a session.
    renewed: Notify,
    replies: Semaphore,
    cancelled: Arc<Semaphore>,
    room: Room,
    pace: Mutex<Pace>,
}

impl HttpLink {
    pub(crate) fn new(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        settings: Settings,
    ) -> Arc<Self> {
        let pace = Mutex::new(Pace::new(settings.limits.max_unasked));
        Arc::new(Self {
            client,
            url,
            headers,
            settings,
            hearing: Arc::default(),
            session: Mutex::new(Session::none()),
            renewing: tokio::sync::Mutex::default(),
            renewed: Notify::new(),
            replies: Semaphore::new(MAX_REPLIES),
            cancelled: Arc::new(Semaphore::new(MAX_CANCELLED)),
            room: Room::of(LONG_ANSWERS),
            pace,
        })
    }

    /// The rate of unsolicited messages over all calls.
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a call, and renews the session once if the server has ended it.
    pub(crate) async fn call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        if whose == Whose::Ours {
            self.renew_token().await;
        }
        let session = self.session();
        let generation = session.generation;
        match self.exchange(session, method, params, call, whose).await {
            Err(Failure::SessionEnded) => self.renew(generation).await?,
            Err(Failure::SessionMissed(answer)) => {
                let renewed = self.renew(generation).await;
                if !is_repeatable(method) {
                    return Ok(answer);
                }
                renewed?;
            }
            Err(Failure::Final(error)) => return Err(error),
            Ok((answer, _)) => return Ok(answer),
        }
        match self.exchange(self.session(), method, params, call, whose).await {
            Ok((answer, _)) | Err(Failure::SessionMissed(answer)) => Ok(answer),
            Err(failure) => Err(failure.at(&self.url)),
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        session: Session,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<(Answer, Option<HeaderValue>), Failure> {
        let id = self.hearing.begin_alone(call, whose)?;
        let tells = !session.is_modern && method != "initialize";
        let mut running = Running { link: self, id, headers: &call.headers, tells };
        meta::add(params, whose.token(id), session.is_modern, &self.settings, call);
        let mut head = self.head(&session, &call.headers);
        if session.is_modern {
            head.extend(headers::modern(method, params, call.schema.as_deref())?);
        }
        let (body, asked) = (message::request(id, method, params), Instant::now());
        let opened = self.post(head, body, call.longest()).await.inspect_err(|_| {
            running.tells = false;
        })?;
        if opened.status == 404 && session.id.is_some() {
            running.tells = false;
            return Err(Failure::SessionEnded);
        }
        // A request that is rejected for its token was not executed.
        running.tells &= !matches!(opened.status, 401 | 403);
        let (status, begun) = (opened.status, opened.headers.get(SESSION).cloned());
        let said = answer::read(self, opened, &session, id, method, (asked, call)).await?;
        running.tells = false;
        let (answer, is_numbered) = (said.answer, said.is_numbered);
        match session.id.is_some() && status == 400 && misses_the_session(&answer) {
            // If the server had processed the request, the error would carry its id.
            true if !is_numbered => Err(Failure::SessionEnded),
            true => Err(Failure::SessionMissed(answer)),
            false => Ok((answer, begun)),
        }
    }

    /// Sends a notification, which has no answer.
    pub(crate) async fn notify(
        &self,
        method: &str,
        params: &Map<String, Value>,
        more: &HeaderMap,
    ) -> Result<(), McpError> {
        let session = self.session();
        let mut head = self.head(&session, more);
        if session.is_modern {
            head.extend(headers::modern(method, params, None)?);
        }
        let opened = self.post(head, message::notification(method, params), ASIDE).await?;
        match opened.status {
            200..300 => Ok(()),
            _ => Err(refused(&opened, &self.url)),
        }
    }

    /// Renews an expiring token for background requests, which have no caller to do so.
    async fn renew_token(&self) {
        if let Some(authorization) = &self.settings.authorization {
            authorization.ready().await;
        }
    }

    /// The headers of a request: those of the connection with its token, replaced by those of the call, then by ours.
    fn head(&self, session: &Session, more: &HeaderMap) -> HeaderMap {
        let mut head = self.headers.clone();
        show(self.settings.authorization.as_ref(), &mut head);
        for name in more.keys() {
            head.remove(name);
            for value in more.get_all(name) {
                head.append(name.clone(), value.clone());
            }
        }
        let accepted = HeaderValue::from_static("application/json, text/event-stream");
        head.insert(ACCEPT, accepted);
        match session.version {
            Some(version) => head.insert(VERSION, HeaderValue::from_static(version)),
            None => head.remove(VERSION),
        };
        match &session.id {
            Some(id) => head.insert(SESSION, id.clone()),
            None => head.remove(SESSION),
        };
        head
    }

    async fn post(
        &self,
        mut head: HeaderMap,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<Opened, McpError> {
        head.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let limits = Limits { deadline, max_bytes: self.settings.limits.max_stream };
        let (method, url) = (Method::POST, self.url.clone());
        let request = Request { method, url, headers: head, body: Some(body) };
        Ok(self.client.open(request, limits).await?)
    }

    /// Sends the reply that a message requires, now or once available. `more` are the headers of the call.
    fn react(self: &Arc<Self>, next: Next, more: &HeaderMap) {
        if matches!(next, Next::Taken | Next::Nothing | Next::Answered(_)) {
            return;
        }
        let session = self.session();
        let (link, head) = (self.clone(), self.head(&session, more));
        let send = async move |reply: Vec<u8>| {
            let Ok(_place) = link.replies.try_acquire() else { return };
            // A lost reply shows in the server's later behaviour.
            drop(link.post(head, reply, ASIDE).await);
        };
        match next {
            Next::Taken | Next::Nothing | Next::Answered(_) => {}
            _ if session.is_modern => {}
            Next::Reply(reply) => drop(tokio::spawn(async move { send(reply).await })),
            Next::Ask(asked) => {
                let (call, id) = (asked.call, asked.id.clone());
                let task = tokio::spawn(async move { send(asked.reply().await).await });
                self.hearing.bind(call, id, task.abort_handle());
            }
        }
    }
}

/// Why an exchange failed.
enum Failure {
    /// The session is gone, and the request was not executed.
    SessionEnded,
    /// The server seems to have lost the session, but may have executed the request; with its answer.
    SessionMissed(Answer),
    Final(McpError),
}

impl Failure {
    fn at(self, url: &Url) -> McpError {
        match self {
            Self::SessionEnded => without_session(url, 404),
            Self::SessionMissed(_) => without_session(url, 400),
            Self::Final(error) => error,
        }
    }
}

fn without_session(url: &Url, status: u16) -> McpError {
    McpError::Status { origin: origin(url), status, retry_after: None }
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        Self::Final(error)
    }
}

/// Whether the error mentions a session. Many servers refuse an unknown session with 400 instead of 404, and only this
/// word is common to their messages.
fn misses_the_session(answer: &Answer) -> bool {
    match answer {
        Answer::Result(_) => false,
        Answer::Error(error) => error.message().to_ascii_lowercase().contains("session"),
    }
}

/// Whether sending the request twice has the same effect as once.
fn is_repeatable(method: &str) -> bool {
    method != "tools/call"
}

/// Converts an unexpected response into an error, by its status.
pub(super) fn refused(opened: &Opened, url: &Url) -> McpError {
    let (origin, status) = (origin(url), opened.status);
    match status {
        401 | 403 => {
            // There may be several challenges, in one header or in several.
            let challenges = opened.headers.get_all(WWW_AUTHENTICATE).iter();
            let challenges: Vec<_> = challenges.filter_map(|value| value.to_str().ok()).collect();
            let challenge = (!challenges.is_empty()).then(|| challenges.join(", ").into());
            McpError::Unauthorized { origin, status, challenge }
        }
        429 | 503 => McpError::Status { origin, status, retry_after: retry_after(&opened.headers) },
        _ => McpError::Status { origin, status, retry_after: None },
    }
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation; modern servers see the stream end.
struct Running<'a> {
    link: &'a Arc<HttpLink>,
    id: u64,
    headers: &'a HeaderMap,
    tells: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.tells {
            self.link.hearing.end(self.id);
        } else if self.link.hearing.give_up(self.id)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
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
