//! Streamable HTTP: every message is a request of its own, and what belongs to it comes in its answer.
//!
//! In the modern era nothing else is needed. Before, there may be a session, which the server may end at any time with
//! 404: then it is begun anew, once for each call, as what got 404 was not done.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::headers::{self, SESSION, VERSION};
use super::hearing::{Hearing, Next};
use super::message::{self, Answer};
use super::meta::{self, MODERN};
use super::settings::{Call, Settings};
use super::{Era, McpError};
use crate::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use crate::http::{HttpClient, Limits, Method, Opened, Request, Url, origin};

mod answer;
mod listen;

pub(crate) use listen::listen;

/// Replies that are on their way at the same time. A server that asks for more does not get them.
const MAX_REPLIES: usize = 16;
/// For what nobody waits for.
const ASIDE: Duration = Duration::from_secs(10);

pub(crate) struct HttpLink {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    headers: HeaderMap,
    pub(super) settings: Settings,
    pub(super) hearing: Arc<Hearing>,
    session: Mutex<Session>,
    renewing: tokio::sync::Mutex<()>,
    replies: Arc<Semaphore>,
}

/// How requests are marked.
#[derive(Clone)]
pub(super) struct Session {
    is_modern: bool,
    /// None until it is known.
    version: Option<&'static str>,
    id: Option<HeaderValue>,
    /// Grows with each new one.
    generation: u64,
}

impl HttpLink {
    pub(crate) fn new(
        client: HttpClient,
        url: Url,
        headers: HeaderMap,
        settings: Settings,
    ) -> Arc<Self> {
        let session = Session { is_modern: true, version: Some(MODERN), id: None, generation: 0 };
        Arc::new(Self {
            client,
            url,
            headers,
            settings,
            hearing: Arc::default(),
            session: Mutex::new(session),
            renewing: tokio::sync::Mutex::default(),
            replies: Arc::new(Semaphore::new(MAX_REPLIES)),
        })
    }

    fn session(&self) -> Session {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn has_session(&self) -> bool {
        self.session().id.is_some()
    }

    pub(super) fn set_era(&self, era: Era) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.is_modern = era == Era::Modern;
        session.version = session.is_modern.then_some(MODERN);
    }

    /// One call.
    pub(crate) async fn call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        is_ours: bool,
    ) -> Result<Answer, McpError> {
        let session = self.session();
        let generation = session.generation;
        match self.exchange(session, method, params, call, is_ours).await {
            Err(Failure::SessionEnded) => self.renew(generation).await?,
            Err(Failure::Final(error)) => return Err(error),
            Ok((answer, _)) => return Ok(answer),
        }
        let again = self.exchange(self.session(), method, params, call, is_ours).await;
        Ok(again.map_err(|failure| failure.at(&self.url))?.0)
    }

    async fn exchange(
        self: &Arc<Self>,
        session: Session,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        is_ours: bool,
    ) -> Result<(Answer, Option<HeaderValue>), Failure> {
        let id = self.hearing.begin_alone(call.heard.clone(), is_ours)?;
        let tells = !session.is_modern && method != "initialize";
        let mut running = Running { link: self, id, tells };
        meta::add(params, id, session.is_modern, &self.settings, call);
        let mut head = self.head(&session, &call.headers);
        if session.is_modern {
            head.extend(headers::modern(method, params, call.schema.as_deref())?);
        }
        let body = message::request(id, method, params);
        let opened = self.post(head, body, call.time()).await?;
        if opened.status == 404 && session.id.is_some() {
            running.tells = false;
            return Err(Failure::SessionEnded);
        }
        let begun = opened.headers.get(SESSION).cloned();
        let answer = answer::read(self, opened, &session, id, method, call).await?;
        running.tells = false;
        Ok((answer, begun))
    }

    /// Begins a session, and says what the server says of itself.
    pub(crate) async fn initialize(self: &Arc<Self>) -> Result<Map<String, Value>, McpError> {
        let generation = self.session().generation;
        let fresh = Session { is_modern: false, version: None, id: None, generation };
        let mut params = meta::introduction(&self.settings);
        let call = Call { deadline: Some(self.settings.limits.opening), ..Call::default() };
        let exchanged = self.exchange(fresh, "initialize", &mut params, &call, true).await;
        let (answer, id) = exchanged.map_err(|failure| failure.at(&self.url))?;
        let result = super::open::accepted("initialize", answer)?;
        let version = Some(meta::chosen(&result)?);
        {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *session = Session { is_modern: false, version, id, generation: generation + 1 };
        }
        self.notify("notifications/initialized", &Map::new()).await?;
        Ok(result)
    }

    /// One of those who find the session gone begins a new one; the others wait for it.
    async fn renew(self: &Arc<Self>, generation: u64) -> Result<(), McpError> {
        let _turn = self.renewing.lock().await;
        if self.session().generation == generation {
            self.initialize().await?;
        }
        Ok(())
    }

    /// Says something that has no answer.
    pub(crate) async fn notify(
        &self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<(), McpError> {
        let head = self.head(&self.session(), &HeaderMap::new());
        let opened = self.post(head, message::notification(method, params), ASIDE).await?;
        match opened.status {
            200..300 => Ok(()),
            _ => Err(refused(&opened, &self.url)),
        }
    }

    /// The headers of the connection, then those of the call in their place, then ours.
    pub(super) fn head(&self, session: &Session, more: &HeaderMap) -> HeaderMap {
        let mut head = self.headers.clone();
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

    /// Sends what a message asks for, now or when it is there. `more` is what the call was sent with.
    pub(super) fn react(self: &Arc<Self>, next: Next, more: &HeaderMap) {
        if matches!(next, Next::Taken | Next::Nothing | Next::Answered(_)) {
            return;
        }
        let session = self.session();
        let Ok(place) = self.replies.clone().try_acquire_owned() else { return };
        let (link, head) = (self.clone(), self.head(&session, more));
        let send = async move |reply: Vec<u8>| {
            // Whether it arrives is seen by what the server does next.
            drop(link.post(head, reply, ASIDE).await);
        };
        match next {
            Next::Taken | Next::Nothing | Next::Answered(_) => {}
            _ if session.is_modern => {}
            Next::Reply(reply) => {
                tokio::spawn(async move {
                    send(reply).await;
                    drop(place);
                });
            }
            Next::Ask(asked) => {
                let (call, id) = (asked.call, asked.id.clone());
                let task = tokio::spawn(async move {
                    send(asked.reply().await).await;
                    drop(place);
                });
                self.hearing.bind(call, id, task.abort_handle());
            }
        }
    }

    /// Ends the session, if there is one, so that the server need not keep it.
    pub(crate) async fn end(&self) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let headers = self.head(&session, &HeaderMap::new());
        let request = Request { method: Method::DELETE, headers, ..Request::get(self.url.clone()) };
        let limits = Limits { deadline: ASIDE, max_bytes: 64 * 1024 };
        // A server need not let clients end it.
        drop(self.client.open(request, limits).await);
    }
}

/// Why a request was not answered.
enum Failure {
    /// It was not looked at, as the session is gone.
    SessionEnded,
    Final(McpError),
}

impl Failure {
    fn at(self, url: &Url) -> McpError {
        match self {
            Self::SessionEnded => McpError::Status { origin: origin(url), status: 404 },
            Self::Final(error) => error,
        }
    }
}

impl From<McpError> for Failure {
    fn from(error: McpError) -> Self {
        Self::Final(error)
    }
}

/// An answer that is no answer, by its status.
pub(super) fn refused(opened: &Opened, url: &Url) -> McpError {
    let (origin, status) = (origin(url), opened.status);
    match status {
        401 | 403 => {
            let challenge = opened.headers.get(WWW_AUTHENTICATE);
            let challenge = challenge.and_then(|value| value.to_str().ok()).map(Into::into);
            McpError::Unauthorized { origin, status, challenge }
        }
        _ => McpError::Status { origin, status },
    }
}

/// A call under way. If it is dropped before its answer, the server is told; in the modern era it sees the stream end.
struct Running<'a> {
    link: &'a Arc<HttpLink>,
    id: u64,
    tells: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.link.hearing.end(self.id);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.tells {
            let (link, id) = (self.link.clone(), self.id);
            runtime.spawn(async move {
                let params = Map::from_iter([("requestId".to_owned(), json!(id))]);
                drop(link.notify("notifications/cancelled", &params).await);
            });
        }
    }
}
