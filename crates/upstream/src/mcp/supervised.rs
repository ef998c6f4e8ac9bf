//! A supervised connection: opened on first use, checked after idle time, reopened after a failure, closed when idle.
//!
//! After a failure it cools down, longer each time until it works again. Calls in that time get the failure at once: a
//! server that is down must not make its callers wait, nor be overloaded again by all of them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::McpError;
use super::connection::Connection;
use super::settings::{Era, Settings, Target};

/// When a supervised connection is checked, closed and reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Whether the connection is kept; if not, every use opens its own.
    pub is_kept: bool,
    /// The connection is closed after this time without use.
    pub idle: Duration,
    /// The connection is checked before use after this time without an answer.
    pub check_after: Duration,
    /// The deadline of a check.
    pub check_within: Duration,
    /// The cooldown after a first failure; it doubles with each further one.
    pub first_rest: Duration,
    /// The longest cooldown.
    pub longest_rest: Duration,
    /// A connection that lasted this long resets the count of failures.
    pub good_after: Duration,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            is_kept: true,
            idle: Duration::from_secs(10 * 60),
            check_after: Duration::from_secs(30),
            check_within: Duration::from_secs(5),
            first_rest: Duration::from_secs(1),
            longest_rest: Duration::from_secs(60),
            good_after: Duration::from_secs(30),
        }
    }
}

/// After this many consecutive timeouts a server counts as hanging, not as busy.
const MAX_TIMEOUTS: u32 = 3;
/// How often to check whether a connection is still in use.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A connection that is opened when needed. A clone shares the same connection.
#[derive(Clone)]
pub struct Supervised {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    settings: Settings,
    keeping: Keeping,
    /// Only one task at a time opens the connection.
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<(Connection, Instant)>,
    era: Option<Era>,
    failures: u32,
    rests_until: Option<(Instant, Arc<McpError>)>,
    stderr: Option<String>,
}

impl Supervised {
    /// Creates the supervisor without opening a connection.
    pub fn new(target: Target, settings: Settings, keeping: Keeping) -> Self {
        let state = Mutex::new(State { era: settings.era, ..State::default() });
        let opening = tokio::sync::Mutex::default();
        Self { shared: Arc::new(Shared { target, settings, keeping, opening, state }) }
    }

    /// Returns the connection and opens it if necessary. Use it for one operation only, as the next may need another
    /// one. If the caller stops waiting, the opening continues: otherwise a server that starts slowly would never be
    /// open.
    pub async fn connection(&self) -> Result<Connection, McpError> {
        if !self.shared.keeping.is_kept {
            self.shared.rested()?;
            return self.shared.open().await;
        }
        if let Some(connection) = self.shared.fresh() {
            return Ok(connection);
        }
        let opening = tokio::spawn(open_and_keep(self.shared.clone()));
        opening.await.unwrap_or(Err(McpError::Closed))
    }

    /// The negotiated era, if known. Storing it speeds up the next start.
    pub fn era(&self) -> Option<Era> {
        self.shared.state().era
    }

    pub fn is_open(&self) -> bool {
        let state = self.shared.state();
        state.connection.as_ref().is_some_and(|(connection, _)| connection.ended().is_none())
    }

    /// The end of the program's standard error, also of one that has exited.
    pub fn stderr(&self) -> Option<String> {
        let state = self.shared.state();
        let now = state.connection.as_ref().and_then(|(connection, _)| connection.stderr());
        now.or_else(|| state.stderr.clone())
    }

    /// The time since the last use; `None` while the connection is in use.
    pub fn idle(&self) -> Option<Duration> {
        match &self.shared.state().connection {
            None => Some(Duration::MAX),
            Some((connection, _)) if 0 < connection.calls() => None,
            Some((connection, _)) => Some(connection.last().used.elapsed()),
        }
    }

    /// Closes the connection. The next use reopens it without a cooldown.
    pub fn close(&self) {
        let mut state = self.shared.state();
        (state.failures, state.rests_until) = (0, None);
        if let Some((connection, _)) = state.connection.take() {
            state.stderr = connection.stderr();
            connection.close();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if its last answer is recent enough to skip a check. Returning it counts as a use.
    fn fresh(&self) -> Option<Connection> {
        let state = self.state();
        let (connection, _) = state.connection.as_ref()?;
        let is_fresh = connection.last().answered.elapsed() < self.keeping.check_after;
        if connection.ended().is_some() || !is_fresh {
            return None;
        }
        connection.touch();
        Some(connection.clone())
    }

    /// The connection, if it still answers; otherwise it is closed.
    async fn checked(&self) -> Option<Connection> {
        if let Some(connection) = self.fresh() {
            return Some(connection);
        }
        let (connection, since) = self.state().connection.clone()?;
        // The server may be busy with a long call, which must not be aborted for another one.
        let is_busy = 0 < connection.calls() && connection.last().timeouts < MAX_TIMEOUTS;
        let failed = match connection.ended() {
            Some(ended) => Some(ended),
            None if is_busy => None,
            None => connection.check(self.keeping.check_within).await.err(),
        };
        let Some(error) = failed else { return Some(connection) };
        let mut state = self.state();
        state.stderr = connection.stderr();
        state.connection = None;
        connection.close();
        // A connection that we closed or that lasted long may be reopened at once.
        if since.elapsed() < self.keeping.good_after && !matches!(error, McpError::Closed) {
            if connection.last().was_of_use {
                state.failures = 0;
            }
            state.fail(error, &self.keeping);
        } else {
            state.failures = 0;
        }
        None
    }

    fn rested(&self) -> Result<(), McpError> {
        let state = self.state();
        let Some((until, source)) = &state.rests_until else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now());
        match wait.is_zero() {
            true => Ok(()),
            false => Err(McpError::Resting { wait, source: source.clone() }),
        }
    }

    async fn open(&self) -> Result<Connection, McpError> {
        let era = self.state().era;
        let settings = Settings { era, ..self.settings.clone() };
        // Boxed because it is large, and every future that waits for a call would contain it.
        let opened = Box::pin(Connection::open(&self.target, &settings)).await;
        let mut state = self.state();
        match &opened {
            Ok(connection) => {
                state.era = Some(connection.about().era);
                state.rests_until = None;
                if !self.keeping.is_kept {
                    state.failures = 0;
                }
            }
            Err(error) => {
                if let McpError::Ended { stderr, .. } = error {
                    state.stderr = Some(stderr.to_string());
                }
                state.fail(error.clone(), &self.keeping);
            }
        }
        opened
    }

    /// Closes the connection opened at `opened` if it is idle. Returns when to check again; `None` once it is closed.
    fn close_if_idle(&self, opened: Instant) -> Option<Duration> {
        let (mut state, idle) = (self.state(), self.keeping.idle);
        let (connection, since) = state.connection.as_ref()?;
        if *since != opened || connection.ended().is_some() {
            return None;
        }
        let left = idle.saturating_sub(connection.last().used.elapsed());
        if 0 < connection.calls() {
            return Some(left.max(idle.min(LOOK_EVERY)));
        }
        if !left.is_zero() {
            return Some(left);
        }
        let (connection, _) = state.connection.take()?;
        (state.stderr, state.failures) = (connection.stderr(), 0);
        drop(state);
        connection.close();
        None
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some((connection, _)) = self.state().connection.take() {
            connection.close();
        }
    }
}

impl State {
    fn fail(&mut self, error: McpError, keeping: &Keeping) {
        let doubled = keeping.first_rest.saturating_mul(1 << self.failures.min(16));
        let rest = doubled.min(keeping.longest_rest).mul_f64(jitter());
        self.failures = self.failures.saturating_add(1);
        // The cooldown starts when the program exited, not when that was noticed.
        let since = match &error {
            McpError::Ended { at, .. } => *at,
            _ => Instant::now(),
        };
        self.rests_until = Some((since + rest, Arc::new(error)));
    }
}

async fn open_and_keep(shared: Arc<Shared>) -> Result<Connection, McpError> {
    let _turn = shared.opening.lock().await;
    if let Some(connection) = shared.checked().await {
        return Ok(connection);
    }
    shared.rested()?;
    let connection = shared.open().await?;
    let now = Instant::now();
    shared.state().connection = Some((connection.clone(), now));
    tokio::spawn(close_when_idle(Arc::downgrade(&shared), now));
    Ok(connection)
}

/// A random factor between 0.5 and 1, so that servers that failed together are not retried together.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    0.5 + (random % 1024) as f64 / 2048.0
}

/// Closes the connection when idle. It holds no reference, so a closed connection is freed at once.
async fn close_when_idle(shared: Weak<Shared>, opened: Instant) {
    while let Some(wait) = shared.upgrade().and_then(|shared| shared.close_if_idle(opened)) {
        sleep(wait).await;
    }
}
