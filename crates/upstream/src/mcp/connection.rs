//! A connection to one MCP server. Clones share it; dropping the last one closes it.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::changes::Changes;
use super::hearing::{Counts, Hearing, Whose};
use super::link::Link;
use super::message::Answer;
use super::oauth::{Attempts, Authorization};
use super::open::{self, About};
use super::pauses::{Pauses, in_time};
use super::settings::{Call, Era, McpLimits, Settings, Target};
use super::{McpError, http, subscribe};
use crate::http::header::AUTHORIZATION;
use crate::last_words::LastWords;

/// How long to wait for the listening stream: a server may send nothing on it, not even headers, until it has a
/// message.
const LISTENING: Duration = Duration::from_millis(500);

/// Concurrent task-status requests per owner; excess ones queue behind that owner only.
const LOOKS: usize = 4;
/// The deadline of a cancellation notice.
const LAST_WORD: Duration = Duration::from_secs(10);

/// The pool of permits that a request takes its permit from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Among {
    /// Calls that were admitted for a caller.
    Calls,
    /// Status requests that follow from an admitted call of this owner.
    Looks(u64),
    /// Cancellation notices, which already hold a permit of their queue.
    LastWords,
}

/// A connection to one MCP server. A clone is the same connection.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

struct Shared {
    link: Link,
    about: About,
    limits: McpLimits,
    authorization: Option<Authorization>,
    capabilities: Map<String, Value>,
    places: Arc<Semaphore>,
    looks: Mutex<HashMap<u64, Weak<Semaphore>>>,
    last_words: LastWords<()>,
    waiting: AtomicUsize,
    in_use: AtomicUsize,
    last: Mutex<Last>,
    listens: AtomicBool,
    listener: Mutex<Option<AbortHandle>>,
    followed: watch::Sender<subscribe::Followed>,
    /// The session in which the resources were subscribed to.
    followed_in: AtomicU64,
}

/// When the connection was last active.
#[derive(Clone, Copy)]
pub(super) struct Last {
    /// The last use by a caller.
    pub(super) used: Instant,
    /// The last answer of the server.
    pub(super) answered: Instant,
    /// Consecutive calls since then that timed out.
    pub(super) timeouts: u32,
    /// Whether the server has answered since the connection was opened.
    pub(super) was_of_use: bool,
}

impl Last {
    fn now(was_of_use: bool) -> Self {
        let now = Instant::now();
        Self { used: now, answered: now, timeouts: 0, was_of_use }
    }
}

impl Connection {
    /// Opens a connection and negotiates the protocol version, all within one deadline.
    pub async fn open(target: &Target, settings: &Settings) -> Result<Self, McpError> {
        let (link, about) = open::open(target, settings).await?;
        let limits = settings.limits;
        let connection = Self {
            shared: Arc::new(Shared {
                link,
                about,
                limits,
                authorization: settings.authorization.clone(),
                capabilities: settings.capabilities.clone(),
                places: Arc::new(Semaphore::new(limits.max_calls)),
                looks: Mutex::default(),
                last_words: LastWords::within(LAST_WORD),
                waiting: AtomicUsize::new(0),
                in_use: AtomicUsize::new(0),
                last: Mutex::new(Last::now(false)),
                listens: AtomicBool::new(false),
                listener: Mutex::default(),
                followed: watch::Sender::default(),
                followed_in: AtomicU64::default(),
            }),
        };
        if settings.listens
            && connection.about().era == Era::Initialize
            && let Some(ready) = connection.listen()
        {
            drop(timeout(LISTENING, ready).await);
        }
        Ok(connection)
    }

    /// The server's description of itself and the negotiated protocol.
    pub fn about(&self) -> &About {
        &self.shared.about
    }

    /// Sends a request. The answer is the server's result or error as received. Dropping the future cancels the call.
    pub async fn request(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        call: Call,
    ) -> Result<Answer, McpError> {
        self.run(method, &mut params, &call, Whose::Callers).await
    }

    /// Sends a notification, which has no answer.
    pub async fn notify(&self, method: &str, params: Map<String, Value>) -> Result<(), McpError> {
        self.shared.link.notify(method, &params).await
    }

    /// The server's change notifications. In the modern era this starts the subscription.
    pub fn changes(&self) -> watch::Receiver<Changes> {
        self.listen();
        self.shared.link.hearing().bell.listen()
    }

    /// Checks that the server still answers.
    pub async fn check(&self, deadline: Duration) -> Result<(), McpError> {
        let method = match self.about().era {
            Era::Modern => "server/discover",
            Era::Initialize | Era::HttpSse => "ping",
        };
        let call = Call { deadline: Some(deadline), ..Call::default() };
        // An error answer proves that the server is alive too.
        self.run(method, &mut Map::new(), &call, Whose::Ours).await.map(drop)
    }

    /// Closes the connection for all clones at once. A child process gets its grace period to exit in the background.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Why the connection has ended, if it has.
    pub fn ended(&self) -> Option<McpError> {
        self.shared.link.hearing().ended()
    }

    /// The number of calls in progress or waiting for a permit.
    pub fn calls(&self) -> usize {
        self.shared.in_use.load(Ordering::Acquire)
    }

    /// Counts of received messages that could not be used.
    pub fn counts(&self) -> Counts {
        self.shared.link.hearing().counts()
    }

    /// The end of the child process's standard error; `None` over HTTP. The text is untrusted.
    pub fn stderr(&self) -> Option<String> {
        match &self.shared.link {
            Link::Pipe(link) => Some(link.stderr()),
            Link::Http(_) | Link::Sse(_) => None,
        }
    }

    pub(super) fn touch(&self) {
        self.shared.last().used = Instant::now();
    }

    pub(super) fn last(&self) -> Last {
        *self.shared.last()
    }

    pub(super) fn limits(&self) -> &McpLimits {
        &self.shared.limits
    }

    pub(super) async fn run(
        &self,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        self.run_among(Among::Calls, method, params, call, whose).await
    }

    /// Queues a cancellation notice, which is sent in the background.
    pub(super) fn say_last(
        &self,
        method: &'static str,
        mut params: Map<String, Value>,
        call: Call,
    ) {
        let connection = self.clone();
        self.shared.last_words.say(&(), async move {
            let said =
                connection.run_among(Among::LastWords, method, &mut params, &call, Whose::Ours);
            drop(said.await);
        });
    }

    pub(super) async fn run_among(
        &self,
        among: Among,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        let _use = Use::new(&self.shared);
        let authorization = self.shared.authorization.as_ref();
        let authorization = authorization.filter(|_| !call.headers.contains_key(AUTHORIZATION));
        let mut attempts = Attempts::new(authorization);
        loop {
            attempts.begin().await;
            // The wait for a poll permit does not count towards the deadline: it says nothing about the server.
            let look = match among {
                Among::Looks(owner) => Some(self.shared.place_of_look(owner).await?),
                Among::Calls | Among::LastWords => None,
            };
            let work = async {
                let place = match among {
                    Among::Calls => Some(self.shared.place_of_call().await?),
                    Among::Looks(_) | Among::LastWords => look,
                };
                let answer = pin!(self.shared.link.call(method, params, call, whose));
                keeping(place, call.pauses.as_ref(), answer).await
            };
            let done = in_time(call.time(), call.pauses.as_ref(), pin!(work)).await;
            self.shared.note(&done);
            let late = |deadline| McpError::Timeout { method: method.into(), deadline };
            let done = done.unwrap_or_else(|deadline| Err(late(deadline)));
            if let Some(answer) = attempts.end(done).await? {
                return Ok(answer);
            }
        }
    }

    /// Marks the connection as used until the returned guard is dropped.
    pub(super) fn in_use(&self) -> impl Drop + use<'_> {
        Use::new(&self.shared)
    }

    /// Begins a call that consists of several requests; the caller gets the notifications of each of them.
    pub(super) fn hold(&self, call: &Call) -> Result<Held<'_>, McpError> {
        let hearing = self.shared.link.hearing();
        let id = hearing.begin_alone(call, Whose::Callers)?;
        Ok(Held { hearing, id, is_over: false })
    }

    /// The client capabilities that apply to a call.
    pub(super) fn capabilities_of<'a>(&'a self, call: &'a Call) -> &'a Map<String, Value> {
        call.capabilities.as_ref().unwrap_or(&self.shared.capabilities)
    }

    /// Whether both handles belong to the same connection, not only to the same server.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The generation of the session: if a server ends a session, it forgets everything about it.
    pub fn session(&self) -> u64 {
        match &self.shared.link {
            Link::Http(link) => link.generation(),
            Link::Sse(_) | Link::Pipe(_) => 0,
        }
    }

    /// Whether this is the first subscription request in the current session.
    pub(super) fn is_first_in_session(&self) -> bool {
        let session = self.session();
        self.shared.followed_in.swap(session, Ordering::Relaxed) != session
    }

    pub(super) fn followed(&self) -> &watch::Sender<subscribe::Followed> {
        &self.shared.followed
    }

    /// Starts listening, once per connection. Returns a receiver that reports when the stream is open, if there is a
    /// stream.
    pub(super) fn listen(&self) -> Option<oneshot::Receiver<()>> {
        if self.shared.listens.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (tell, ready) = oneshot::channel();
        let task = match (&self.shared.link, self.about().era) {
            (link, Era::Modern) => {
                let lists = subscribe::lists(&self.about().server);
                tokio::spawn(subscribe::listen(link.clone(), lists, self.followed().subscribe()))
            }
            (Link::Http(link), _) => tokio::spawn(http::listen(link.clone(), tell)),
            // These transports need no separate stream for notifications.
            (Link::Sse(_) | Link::Pipe(_), _) => return None,
        };
        let mut listener = self.shared.listener.lock().unwrap_or_else(PoisonError::into_inner);
        *listener = Some(task.abort_handle());
        Some(ready)
    }
}

impl Shared {
    /// Acquires one of the owner's permits for status requests.
    async fn place_of_look(&self, owner: u64) -> Result<OwnedSemaphorePermit, McpError> {
        let places = {
            let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
            let known = looks.get(&owner).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                looks.retain(|_, places| 0 < places.strong_count());
                let places = Arc::new(Semaphore::new(LOOKS));
                looks.insert(owner, Arc::downgrade(&places));
                places
            })
        };
        places.acquire_owned().await.map_err(|_| McpError::Closed)
    }

    /// Acquires a permit for a call. Fails if too many calls already wait for one.
    async fn place_of_call(&self) -> Result<OwnedSemaphorePermit, McpError> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        if self.limits.max_waiting <= before {
            return Err(McpError::Busy { limit: self.limits.max_calls });
        }
        let places = Arc::clone(&self.places);
        places.acquire_owned().await.map_err(|_| McpError::Closed)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<E>(&self, done: &Result<Result<Answer, McpError>, E>) {
        match done {
            Ok(Ok(_)) => *self.last() = Last::now(true),
            Ok(Err(_)) => {}
            Err(_) => self.last().timeouts += 1,
        }
    }

    fn close(&self) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listener.take() {
            listener.abort();
        }
        self.link.close();
    }
}

/// A call that consists of several requests.
pub(super) struct Held<'a> {
    hearing: &'a Hearing,
    pub(super) id: u64,
    /// Whether the call has finished; if not, the server may still ask questions on its behalf.
    pub(super) is_over: bool,
}

impl Held<'_> {
    /// Records the server's id for the task that the call became.
    pub(super) fn becomes(&self, task: &str) {
        self.hearing.becomes(self.id, task);
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        match self.is_over {
            true => self.hearing.end(self.id),
            false => drop(self.hearing.give_up(self.id)),
        }
    }
}

/// Holds a permit until the call releases it, mostly because a user is asked. The answer is pinned by the caller,
/// because its future is large.
async fn keeping<A: Future>(
    place: Option<OwnedSemaphorePermit>,
    pauses: Option<&Pauses>,
    mut answer: Pin<&mut A>,
) -> A::Output {
    let Some(pauses) = pauses else {
        let _place = place;
        return answer.await;
    };
    tokio::select! {
        biased;
        answer = answer.as_mut() => return answer,
        () = pauses.given_way() => drop(place),
    }
    answer.await
}

/// Counts a call as waiting for a permit until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a use of the connection until it is dropped, when the caller has its answer.
struct Use<'a>(&'a Shared);

impl<'a> Use<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.in_use.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.last().used = Instant::now();
        self.0.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}
