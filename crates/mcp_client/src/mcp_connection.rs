//! A connection to one MCP server. Clones share it; dropping the last one closes it.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oauth::McpAuthorization;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use upstream::cancel_notices::CancelNotices;
use upstream::http::header::AUTHORIZATION;

use super::authorized_attempts::AuthorizedAttempts;
use super::connection_settings::{
    ConnectionSettings, McpCallOptions, McpLimits, McpTarget, ServerEra,
};
use super::deadline_pauses::{DeadlinePauses, run_with_pauses};
use super::dispatch::{CallRecipient, DispatchCounts, MessageDispatcher};
use super::json_rpc::McpAnswer;
use super::negotiation::ServerDescription;
use super::server_changes::ServerChanges;
use super::transport_link::TransportLink;
use super::{McpError, http_link, negotiation, subscriptions};

/// How long to wait for the listening stream: a server may send nothing on it, not even headers, until it has a
/// message.
const LISTEN_READY_TIMEOUT: Duration = Duration::from_millis(500);

/// Concurrent task-status requests per owner; excess ones queue behind that owner only.
const POLLS_PER_OWNER: usize = 4;
/// The deadline of a cancellation notice.
const CANCEL_NOTICE_DEADLINE: Duration = Duration::from_secs(10);

/// The pool of permits that a request takes its permit from.
#[derive(Clone, Copy, Debug)]
pub(super) enum PermitPool {
    /// Calls that were admitted for a caller.
    Calls,
    /// Status requests that follow from an admitted call of this owner.
    TaskPolls(u64),
    /// Cancellation notices, which already hold a permit of their queue.
    CancelNotices,
}

/// A connection to one MCP server. A clone is the same connection.
#[derive(Clone)]
pub struct McpConnection {
    shared: Arc<McpConnectionShared>,
}

struct McpConnectionShared {
    link: TransportLink,
    description: ServerDescription,
    limits: McpLimits,
    authorization: Option<McpAuthorization>,
    capabilities: Map<String, Value>,
    call_permits: Arc<Semaphore>,
    poll_permits: Mutex<HashMap<u64, Weak<Semaphore>>>,
    cancel_notices: CancelNotices<()>,
    queued_calls: AtomicUsize,
    active_uses: AtomicUsize,
    activity: Mutex<McpLinkActivity>,
    is_listening: AtomicBool,
    listener: Mutex<Option<AbortHandle>>,
    subscribed_uris: watch::Sender<subscriptions::SubscribedUris>,
    /// The session in which the resources were subscribed to.
    subscribed_session: AtomicU64,
}

/// When the connection was last active.
#[derive(Clone, Copy)]
pub(super) struct McpLinkActivity {
    /// The last use by a caller.
    pub(super) last_used: Instant,
    /// The last answer of the server.
    pub(super) last_answered: Instant,
    /// Consecutive calls since then that timed out.
    pub(super) timeouts: u32,
    /// Whether the server has answered since the connection was opened.
    pub(super) has_answered: bool,
}

impl McpLinkActivity {
    fn started_now(was_of_use: bool) -> Self {
        let now = Instant::now();
        Self { last_used: now, last_answered: now, timeouts: 0, has_answered: was_of_use }
    }
}

impl McpConnection {
    /// Opens a connection and negotiates the protocol version, all within one deadline.
    pub async fn open(target: &McpTarget, settings: &ConnectionSettings) -> Result<Self, McpError> {
        let (link, about) = negotiation::open_link(target, settings).await?;
        let limits = settings.limits;
        let connection = Self {
            shared: Arc::new(McpConnectionShared {
                link,
                description: about,
                limits,
                authorization: settings.authorization.clone(),
                capabilities: settings.capabilities.clone(),
                call_permits: Arc::new(Semaphore::new(limits.max_calls)),
                poll_permits: Mutex::default(),
                cancel_notices: CancelNotices::with_deadline(CANCEL_NOTICE_DEADLINE),
                queued_calls: AtomicUsize::new(0),
                active_uses: AtomicUsize::new(0),
                activity: Mutex::new(McpLinkActivity::started_now(false)),
                is_listening: AtomicBool::new(false),
                listener: Mutex::default(),
                subscribed_uris: watch::Sender::default(),
                subscribed_session: AtomicU64::default(),
            }),
        };
        if settings.listens
            && connection.server_description().era == ServerEra::Initialize
            && let Some(ready) = connection.start_listening()
        {
            drop(timeout(LISTEN_READY_TIMEOUT, ready).await);
        }
        Ok(connection)
    }

    /// The server's description of itself and the negotiated protocol.
    pub fn server_description(&self) -> &ServerDescription {
        &self.shared.description
    }

    /// Sends a request. The answer is the server's result or error as received. Dropping the future cancels the call.
    pub async fn call_method(
        &self,
        method: &str,
        mut params: Map<String, Value>,
        call: McpCallOptions,
    ) -> Result<McpAnswer, McpError> {
        self.send_request(method, &mut params, &call, CallRecipient::Caller).await
    }

    /// Sends a notification, which has no answer.
    pub async fn send_notification(
        &self,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<(), McpError> {
        self.shared.link.send_notification(method, &params).await
    }

    /// The server's change notifications. In the modern era this starts the subscription.
    pub fn subscribe_changes(&self) -> watch::Receiver<ServerChanges> {
        self.start_listening();
        self.shared.link.dispatcher().change_notifier.subscribe_changes()
    }

    /// Checks that the server still answers.
    pub async fn check_alive(&self, deadline: Duration) -> Result<(), McpError> {
        let method = match self.server_description().era {
            ServerEra::Modern => "server/discover",
            ServerEra::Initialize | ServerEra::HttpSse => "ping",
        };
        let call = McpCallOptions { deadline: Some(deadline), ..McpCallOptions::default() };
        // An error answer proves that the server is alive too.
        self.send_request(method, &mut Map::new(), &call, CallRecipient::Internal).await.map(drop)
    }

    /// Closes the connection for all clones at once. A child process gets its grace period to exit in the background.
    pub fn close(&self) {
        self.shared.close();
    }

    /// Why the connection has ended, if it has.
    pub fn end_reason(&self) -> Option<McpError> {
        self.shared.link.dispatcher().end_reason()
    }

    /// The number of calls in progress or waiting for a permit.
    pub fn active_calls(&self) -> usize {
        self.shared.active_uses.load(Ordering::Acquire)
    }

    /// Counts of received messages that could not be used.
    pub fn dispatch_counts(&self) -> DispatchCounts {
        self.shared.link.dispatcher().counts()
    }

    /// The end of the child process's standard error; `None` over HTTP. The text is untrusted.
    pub fn stderr_text(&self) -> Option<String> {
        match &self.shared.link {
            TransportLink::Stdio(link) => Some(link.stderr_text()),
            TransportLink::Http(_) | TransportLink::HttpSse(_) => None,
        }
    }

    pub(super) fn mark_used(&self) {
        self.shared.lock_activity().last_used = Instant::now();
    }

    pub(super) fn activity(&self) -> McpLinkActivity {
        *self.shared.lock_activity()
    }

    pub(super) fn limits(&self) -> &McpLimits {
        &self.shared.limits
    }

    pub(super) async fn send_request(
        &self,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        self.send_request_in(PermitPool::Calls, method, params, call, whose).await
    }

    /// Queues a cancellation notice, which is sent in the background.
    pub(super) fn send_cancel_notice(
        &self,
        method: &'static str,
        mut params: Map<String, Value>,
        call: McpCallOptions,
    ) {
        let connection = self.clone();
        self.shared.cancel_notices.send_notice(&(), async move {
            let said = connection.send_request_in(
                PermitPool::CancelNotices,
                method,
                &mut params,
                &call,
                CallRecipient::Internal,
            );
            drop(said.await);
        });
    }

    pub(super) async fn send_request_in(
        &self,
        among: PermitPool,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        let _use = ConnectionUseGuard::new(&self.shared);
        let authorization = self.shared.authorization.as_ref();
        let authorization = authorization.filter(|_| !call.headers.contains_key(AUTHORIZATION));
        let mut attempts = AuthorizedAttempts::new(authorization);
        loop {
            attempts.begin_attempt().await;
            // The wait for a poll permit does not count towards the deadline: it says nothing about the server.
            let look = match among {
                PermitPool::TaskPolls(owner) => Some(self.shared.acquire_poll_permit(owner).await?),
                PermitPool::Calls | PermitPool::CancelNotices => None,
            };
            let work = async {
                let place = match among {
                    PermitPool::Calls => Some(self.shared.acquire_call_permit().await?),
                    PermitPool::TaskPolls(_) | PermitPool::CancelNotices => look,
                };
                let answer = pin!(self.shared.link.send_call(method, params, call, whose));
                hold_permit(place, call.pauses.as_ref(), answer).await
            };
            let done =
                run_with_pauses(call.deadline_or_default(), call.pauses.as_ref(), pin!(work)).await;
            self.shared.record_outcome(&done);
            let late = |deadline| McpError::Timeout { method: method.into(), deadline };
            let done = done.unwrap_or_else(|deadline| Err(late(deadline)));
            if let Some(answer) = attempts.finish_attempt(done).await? {
                return Ok(answer);
            }
        }
    }

    /// Marks the connection as used until the returned guard is dropped.
    pub(super) fn mark_in_use(&self) -> impl Drop + use<'_> {
        ConnectionUseGuard::new(&self.shared)
    }

    /// Begins a call that consists of several requests; the caller gets the notifications of each of them.
    pub(super) fn begin_composite_call(
        &self,
        call: &McpCallOptions,
    ) -> Result<CompositeCall<'_>, McpError> {
        let hearing = self.shared.link.dispatcher();
        let id = hearing.register_streamed_call(call, CallRecipient::Caller)?;
        Ok(CompositeCall { dispatcher: hearing, id, is_finished: false })
    }

    /// The client capabilities that apply to a call.
    pub(super) fn capabilities_of<'a>(
        &'a self,
        call: &'a McpCallOptions,
    ) -> &'a Map<String, Value> {
        call.capabilities.as_ref().unwrap_or(&self.shared.capabilities)
    }

    /// Whether both handles belong to the same connection, not only to the same server.
    pub fn is_same_connection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// The generation of the session: if a server ends a session, it forgets everything about it.
    pub fn session_generation(&self) -> u64 {
        match &self.shared.link {
            TransportLink::Http(link) => link.session_generation(),
            TransportLink::HttpSse(_) | TransportLink::Stdio(_) => 0,
        }
    }

    /// Whether this is the first subscription request in the current session.
    pub(super) fn is_first_in_session(&self) -> bool {
        let session = self.session_generation();
        self.shared.subscribed_session.swap(session, Ordering::Relaxed) != session
    }

    pub(super) fn subscribed_uris(&self) -> &watch::Sender<subscriptions::SubscribedUris> {
        &self.shared.subscribed_uris
    }

    /// Starts listening, once per connection. Returns a receiver that reports when the stream is open, if there is a
    /// stream.
    pub(super) fn start_listening(&self) -> Option<oneshot::Receiver<()>> {
        if self.shared.is_listening.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (tell, ready) = oneshot::channel();
        let task = match (&self.shared.link, self.server_description().era) {
            (link, ServerEra::Modern) => {
                let lists = subscriptions::announced_lists(&self.server_description().server);
                tokio::spawn(subscriptions::run_subscription(
                    link.clone(),
                    lists,
                    self.subscribed_uris().subscribe(),
                ))
            }
            (TransportLink::Http(link), _) => {
                tokio::spawn(http_link::listen_for_notifications(link.clone(), tell))
            }
            // These transports need no separate stream for notifications.
            (TransportLink::HttpSse(_) | TransportLink::Stdio(_), _) => return None,
        };
        let mut listener = self.shared.listener.lock().unwrap_or_else(PoisonError::into_inner);
        *listener = Some(task.abort_handle());
        Some(ready)
    }
}

impl McpConnectionShared {
    /// Acquires one of the owner's permits for status requests.
    async fn acquire_poll_permit(&self, owner: u64) -> Result<OwnedSemaphorePermit, McpError> {
        let places = {
            let mut looks = self.poll_permits.lock().unwrap_or_else(PoisonError::into_inner);
            let known = looks.get(&owner).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                looks.retain(|_, places| 0 < places.strong_count());
                let places = Arc::new(Semaphore::new(POLLS_PER_OWNER));
                looks.insert(owner, Arc::downgrade(&places));
                places
            })
        };
        places.acquire_owned().await.map_err(|_| McpError::Closed)
    }

    /// Acquires a permit for a call. Fails if too many calls already wait for one.
    async fn acquire_call_permit(&self) -> Result<OwnedSemaphorePermit, McpError> {
        if let Ok(place) = Arc::clone(&self.call_permits).try_acquire_owned() {
            return Ok(place);
        }
        let before = self.queued_calls.fetch_add(1, Ordering::Relaxed);
        let _waits = QueuedCallGuard(&self.queued_calls);
        if self.limits.max_waiting <= before {
            return Err(McpError::Busy { limit: self.limits.max_calls });
        }
        let places = Arc::clone(&self.call_permits);
        places.acquire_owned().await.map_err(|_| McpError::Closed)
    }

    fn lock_activity(&self) -> MutexGuard<'_, McpLinkActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_outcome<E>(&self, done: &Result<Result<McpAnswer, McpError>, E>) {
        match done {
            Ok(Ok(_)) => *self.lock_activity() = McpLinkActivity::started_now(true),
            Ok(Err(_)) => {}
            Err(_) => self.lock_activity().timeouts += 1,
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
pub(super) struct CompositeCall<'a> {
    dispatcher: &'a MessageDispatcher,
    pub(super) id: u64,
    /// Whether the call has finished; if not, the server may still ask questions on its behalf.
    pub(super) is_finished: bool,
}

impl CompositeCall<'_> {
    /// Records the server's id for the task that the call became.
    pub(super) fn set_task(&self, task: &str) {
        self.dispatcher.set_task(self.id, task);
    }
}

impl Drop for CompositeCall<'_> {
    fn drop(&mut self) {
        match self.is_finished {
            true => self.dispatcher.finish_call(self.id),
            false => drop(self.dispatcher.abandon_call(self.id)),
        }
    }
}

/// Holds a permit until the call releases it, mostly because a user is asked. The answer is pinned by the caller,
/// because its future is large.
async fn hold_permit<A: Future>(
    place: Option<OwnedSemaphorePermit>,
    pauses: Option<&DeadlinePauses>,
    mut answer: Pin<&mut A>,
) -> A::Output {
    let Some(pauses) = pauses else {
        let _place = place;
        return answer.await;
    };
    tokio::select! {
        biased;
        answer = answer.as_mut() => return answer,
        () = pauses.permit_released() => drop(place),
    }
    answer.await
}

/// Counts a call as waiting for a permit until it is dropped.
struct QueuedCallGuard<'a>(&'a AtomicUsize);

impl Drop for QueuedCallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a use of the connection until it is dropped, when the caller has its answer.
struct ConnectionUseGuard<'a>(&'a McpConnectionShared);

impl<'a> ConnectionUseGuard<'a> {
    fn new(shared: &'a McpConnectionShared) -> Self {
        shared.active_uses.fetch_add(1, Ordering::AcqRel);
        Self(shared)
    }
}

impl Drop for ConnectionUseGuard<'_> {
    fn drop(&mut self) {
        self.0.lock_activity().last_used = Instant::now();
        self.0.active_uses.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for McpConnectionShared {
    fn drop(&mut self) {
        self.close();
    }
}
