//! A supervised connection: opened on first use, checked after idle time, reopened after a failure, closed when idle.
//!
//! After a failure it cools down, longer each time until it works again. Calls in that time get the failure at once: a
//! server that is down must not make its callers wait, nor be overloaded again by all of them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::McpError;
use super::connection_settings::{ConnectionSettings, McpTarget, ServerEra};
use super::mcp_connection::McpConnection;

/// When a supervised connection is checked, closed and reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SupervisionPolicy {
    /// Whether the connection is kept; if not, every use opens its own.
    pub is_persistent: bool,
    /// The connection is closed after this time without use.
    pub idle_timeout: Duration,
    /// The connection is checked before use after this time without an answer.
    pub check_after: Duration,
    /// The deadline of a check.
    pub check_timeout: Duration,
    /// The cooldown after a first failure; it doubles with each further one.
    pub initial_cooldown: Duration,
    /// The longest cooldown.
    pub max_cooldown: Duration,
    /// A connection that lasted this long resets the count of failures.
    pub stable_after: Duration,
}

impl Default for SupervisionPolicy {
    fn default() -> Self {
        Self {
            is_persistent: true,
            idle_timeout: Duration::from_secs(10 * 60),
            check_after: Duration::from_secs(30),
            check_timeout: Duration::from_secs(5),
            initial_cooldown: Duration::from_secs(1),
            max_cooldown: Duration::from_secs(60),
            stable_after: Duration::from_secs(30),
        }
    }
}

/// After this many consecutive timeouts a server counts as hanging, not as busy.
const MAX_CONSECUTIVE_TIMEOUTS: u32 = 3;
/// How often to check whether a connection is still in use.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A connection that is opened when needed. A clone shares the same connection.
#[derive(Clone)]
pub struct SupervisedConnection {
    shared: Arc<SupervisedShared>,
}

struct SupervisedShared {
    target: McpTarget,
    settings: ConnectionSettings,
    policy: SupervisionPolicy,
    /// Only one task at a time opens the connection.
    open_lock: tokio::sync::Mutex<()>,
    state: Mutex<SupervisedState>,
}

#[derive(Default)]
struct SupervisedState {
    connection: Option<(McpConnection, Instant)>,
    era: Option<ServerEra>,
    failures: u32,
    cooldown: Option<(Instant, Arc<McpError>)>,
    stderr: Option<String>,
}

impl SupervisedConnection {
    /// Creates the supervisor without opening a connection.
    pub fn new(
        target: McpTarget,
        settings: ConnectionSettings,
        keeping: SupervisionPolicy,
    ) -> Self {
        let state = Mutex::new(SupervisedState { era: settings.era, ..SupervisedState::default() });
        let opening = tokio::sync::Mutex::default();
        Self {
            shared: Arc::new(SupervisedShared {
                target,
                settings,
                policy: keeping,
                open_lock: opening,
                state,
            }),
        }
    }

    /// Returns the connection and opens it if necessary. Use it for one operation only, as the next may need another
    /// one. If the caller stops waiting, the opening continues: otherwise a server that starts slowly would never be
    /// open.
    pub async fn get_connection(&self) -> Result<McpConnection, McpError> {
        if !self.shared.policy.is_persistent {
            self.shared.check_cooldown()?;
            return self.shared.open_connection().await;
        }
        if let Some(connection) = self.shared.fresh_connection() {
            return Ok(connection);
        }
        let opening = tokio::spawn(open_and_keep(self.shared.clone()));
        opening.await.unwrap_or(Err(McpError::Closed))
    }

    /// The negotiated era, if known. Storing it speeds up the next start.
    pub fn era(&self) -> Option<ServerEra> {
        self.shared.lock_state().era
    }

    pub fn is_open(&self) -> bool {
        let state = self.shared.lock_state();
        state.connection.as_ref().is_some_and(|(connection, _)| connection.end_reason().is_none())
    }

    /// The end of the program's standard error, also of one that has exited.
    pub fn stderr_text(&self) -> Option<String> {
        let state = self.shared.lock_state();
        let now = state.connection.as_ref().and_then(|(connection, _)| connection.stderr_text());
        now.or_else(|| state.stderr.clone())
    }

    /// The time since the last use; `None` while the connection is in use.
    pub fn idle_time(&self) -> Option<Duration> {
        match &self.shared.lock_state().connection {
            None => Some(Duration::MAX),
            Some((connection, _)) if 0 < connection.active_calls() => None,
            Some((connection, _)) => Some(connection.activity().last_used.elapsed()),
        }
    }

    /// Closes the connection. The next use reopens it without a cooldown.
    pub fn close(&self) {
        let mut state = self.shared.lock_state();
        (state.failures, state.cooldown) = (0, None);
        if let Some((connection, _)) = state.connection.take() {
            state.stderr = connection.stderr_text();
            connection.close();
        }
    }
}

impl SupervisedShared {
    fn lock_state(&self) -> MutexGuard<'_, SupervisedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if its last answer is recent enough to skip a check. Returning it counts as a use.
    fn fresh_connection(&self) -> Option<McpConnection> {
        let state = self.lock_state();
        let (connection, _) = state.connection.as_ref()?;
        let is_fresh = connection.activity().last_answered.elapsed() < self.policy.check_after;
        if connection.end_reason().is_some() || !is_fresh {
            return None;
        }
        connection.mark_used();
        Some(connection.clone())
    }

    /// The connection, if it still answers; otherwise it is closed.
    async fn checked_connection(&self) -> Option<McpConnection> {
        if let Some(connection) = self.fresh_connection() {
            return Some(connection);
        }
        let (connection, since) = self.lock_state().connection.clone()?;
        // The server may be busy with a long call, which must not be aborted for another one.
        let is_busy = 0 < connection.active_calls()
            && connection.activity().timeouts < MAX_CONSECUTIVE_TIMEOUTS;
        let failed = match connection.end_reason() {
            Some(ended) => Some(ended),
            None if is_busy => None,
            None => connection.check_alive(self.policy.check_timeout).await.err(),
        };
        let Some(error) = failed else { return Some(connection) };
        let mut state = self.lock_state();
        state.stderr = connection.stderr_text();
        state.connection = None;
        connection.close();
        // A connection that we closed or that lasted long may be reopened at once.
        if since.elapsed() < self.policy.stable_after && !matches!(error, McpError::Closed) {
            if connection.activity().has_answered {
                state.failures = 0;
            }
            state.record_failure(error, &self.policy);
        } else {
            state.failures = 0;
        }
        None
    }

    fn check_cooldown(&self) -> Result<(), McpError> {
        let state = self.lock_state();
        let Some((until, source)) = &state.cooldown else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now());
        match wait.is_zero() {
            true => Ok(()),
            false => Err(McpError::CoolingDown { wait, source: source.clone() }),
        }
    }

    async fn open_connection(&self) -> Result<McpConnection, McpError> {
        let era = self.lock_state().era;
        let settings = ConnectionSettings { era, ..self.settings.clone() };
        // Boxed because it is large, and every future that waits for a call would contain it.
        let opened = Box::pin(McpConnection::open(&self.target, &settings)).await;
        let mut state = self.lock_state();
        match &opened {
            Ok(connection) => {
                state.era = Some(connection.server_description().era);
                state.cooldown = None;
                if !self.policy.is_persistent {
                    state.failures = 0;
                }
            }
            Err(error) => {
                if let McpError::ProgramEnded { stderr, .. } = error {
                    state.stderr = Some(stderr.to_string());
                }
                state.record_failure(error.clone(), &self.policy);
            }
        }
        opened
    }

    /// Closes the connection opened at `opened` if it is idle. Returns when to check again; `None` once it is closed.
    fn close_if_idle(&self, opened: Instant) -> Option<Duration> {
        let (mut state, idle) = (self.lock_state(), self.policy.idle_timeout);
        let (connection, since) = state.connection.as_ref()?;
        if *since != opened || connection.end_reason().is_some() {
            return None;
        }
        let left = idle.saturating_sub(connection.activity().last_used.elapsed());
        if 0 < connection.active_calls() {
            return Some(left.max(idle.min(IDLE_CHECK_INTERVAL)));
        }
        if !left.is_zero() {
            return Some(left);
        }
        let (connection, _) = state.connection.take()?;
        (state.stderr, state.failures) = (connection.stderr_text(), 0);
        drop(state);
        connection.close();
        None
    }
}

impl Drop for SupervisedShared {
    fn drop(&mut self) {
        if let Some((connection, _)) = self.lock_state().connection.take() {
            connection.close();
        }
    }
}

impl SupervisedState {
    fn record_failure(&mut self, error: McpError, keeping: &SupervisionPolicy) {
        let doubled = keeping.initial_cooldown.saturating_mul(1 << self.failures.min(16));
        let rest = doubled.min(keeping.max_cooldown).mul_f64(cooldown_jitter());
        self.failures = self.failures.saturating_add(1);
        // The cooldown starts when the program exited, not when that was noticed.
        let since = match &error {
            McpError::ProgramEnded { at, .. } => *at,
            _ => Instant::now(),
        };
        self.cooldown = Some((since + rest, Arc::new(error)));
    }
}

async fn open_and_keep(shared: Arc<SupervisedShared>) -> Result<McpConnection, McpError> {
    let _turn = shared.open_lock.lock().await;
    if let Some(connection) = shared.checked_connection().await {
        return Ok(connection);
    }
    shared.check_cooldown()?;
    let connection = shared.open_connection().await?;
    let now = Instant::now();
    shared.lock_state().connection = Some((connection.clone(), now));
    tokio::spawn(close_when_idle(Arc::downgrade(&shared), now));
    Ok(connection)
}

/// A random factor between 0.5 and 1, so that servers that failed together are not retried together.
fn cooldown_jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    0.5 + (random % 1024) as f64 / 2048.0
}

/// Closes the connection when idle. It holds no reference, so a closed connection is freed at once.
async fn close_when_idle(shared: Weak<SupervisedShared>, opened: Instant) {
    while let Some(wait) = shared.upgrade().and_then(|shared| shared.close_if_idle(opened)) {
        sleep(wait).await;
    }
}
