//! A connection that is there when it is needed: opened at the first use, checked after a rest, opened again after it
//! broke, and closed when nobody uses it.
//!
//! After a failure it rests, longer each time until it is of use again, and whoever asks meanwhile is told why at once: a server that is down must
//! not make its callers wait, nor be knocked down again by all of them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::McpError;
use super::connection::Connection;
use super::settings::{Era, Settings, Target};

/// How long a connection is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// Whether it is kept at all; otherwise every use has its own.
    pub is_kept: bool,
    /// Without use for so long, it is closed.
    pub idle: Duration,
    /// Without an answer for so long, it is checked before it is used.
    pub check_after: Duration,
    /// How long a check may take.
    pub check_within: Duration,
    /// The rest after a first failure; it doubles with each further one.
    pub first_rest: Duration,
    /// The longest rest.
    pub longest_rest: Duration,
    /// A connection that held for so long was a good one: what failed before is forgotten.
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

/// After so many calls in a row without an answer a server is not busy: it hangs.
const MAX_TIMEOUTS: u32 = 3;
/// How often it is looked whether a connection that is in use still is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A connection that is there when it is needed. A copy is the same.
#[derive(Clone)]
pub struct Supervised {
    shared: Arc<Shared>,
}

struct Shared {
    target: Target,
    settings: Settings,
    keeping: Keeping,
    /// One at a time opens.
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
    /// Nothing is opened yet.
    pub fn new(target: Target, settings: Settings, keeping: Keeping) -> Self {
        let state = Mutex::new(State { era: settings.era, ..State::default() });
        let opening = tokio::sync::Mutex::default();
        Self { shared: Arc::new(Shared { target, settings, keeping, opening, state }) }
    }

    /// The connection, opened if it is not. Keep it for one use only: the next may be another one. Who stops waiting does
    /// not stop the opening, or a server that is slow to start would never be open.
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

    /// How the server is spoken to, once that is known. Worth keeping for the next start.
    pub fn era(&self) -> Option<Era> {
        self.shared.state().era
    }

    /// Whether a connection is open.
    pub fn is_open(&self) -> bool {
        let state = self.shared.state();
        state.connection.as_ref().is_some_and(|(connection, _)| connection.ended().is_none())
    }

    /// The last that the program wrote to its standard error, also of one that has ended.
    pub fn stderr(&self) -> Option<String> {
        let state = self.shared.state();
        let now = state.connection.as_ref().and_then(|(connection, _)| connection.stderr());
        now.or_else(|| state.stderr.clone())
    }

    /// For how long nobody has used it; nothing while somebody does.
    pub fn idle(&self) -> Option<Duration> {
        match &self.shared.state().connection {
            None => Some(Duration::MAX),
            Some((connection, _)) if 0 < connection.calls() => None,
            Some((connection, _)) => Some(connection.last().used.elapsed()),
        }
    }

    /// Closes what is open. The next use opens it again, without a rest.
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

    /// The connection, if it answered so recently that it need not be checked. Being handed out is a use.
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

    /// The connection, if it still answers. One that does not is closed.
    async fn checked(&self) -> Option<Connection> {
        if let Some(connection) = self.fresh() {
            return Some(connection);
        }
        let (connection, since) = self.state().connection.clone()?;
        // It may be busy with a call that takes long, which must not be cut short for another one.
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
        // What was closed by us or held for long may be opened again at once.
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
        // Large: whoever waits for a call would carry it about.
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

    /// Closes the connection that was opened then if nobody used it for a while. Says when to look again; nothing once
    /// it is over.
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
        // It rests since it died, not since somebody noticed.
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

/// Between a half and one, so that servers that failed together are not tried together.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    0.5 + (random % 1024) as f64 / 2048.0
}

/// Keeps no connection itself: one that has ended is let go of at once.
async fn close_when_idle(shared: Weak<Shared>, opened: Instant) {
    while let Some(wait) = shared.upgrade().and_then(|shared| shared.close_if_idle(opened)) {
        sleep(wait).await;
    }
}
