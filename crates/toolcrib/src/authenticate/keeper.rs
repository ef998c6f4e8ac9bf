//! Keeps the keys of one issuer fresh. Ageing keys are fetched again in the background. If keys are stale, after a time
//! without tokens, the next token waits for newer keys. Stale keys are used, for a day, only if newer ones cannot be
//! fetched.
//!
//! The holder of the turn fetches; there is one fetch at a time, and one in every cool-down, including failed ones. So
//! a flood of tokens with made-up keys costs their issuer one request in 30 seconds, and tokens with known keys never
//! wait. A fetch runs in its own task: an agent that disconnects does not cancel it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use access::{KeySet, TokenError};
use arc_swap::ArcSwapOption;
use catalog::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use model::sentence;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use upstream::http::HttpClient;

use super::fetch::Place;

/// Time limits for keys and verified tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After this time, keys are fetched again.
    pub fresh: SignedDuration,
    /// After this time without a successful fetch, keys are no longer used.
    pub max_stale: SignedDuration,
    /// The least time between two fetches.
    pub cool_down: SignedDuration,
    /// The least time between two fetches that an admin requests.
    pub asked: SignedDuration,
    /// The time limit of a whole fetch.
    pub deadline: Duration,
    /// How long a verified token is cached, if it does not expire before.
    pub remember: SignedDuration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            fresh: SignedDuration::from_mins(10),
            max_stale: SignedDuration::from_hours(24),
            cool_down: SignedDuration::from_secs(30),
            asked: SignedDuration::from_secs(1),
            deadline: Duration::from_secs(5),
            remember: SignedDuration::from_mins(5),
        }
    }
}

/// How an issuer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IssuerState {
    /// Its name.
    pub issuer: String,
    /// How many keys can be used.
    pub keys: usize,
    /// How many keys of its set cannot.
    pub skipped: usize,
    /// When its keys were read, if they were.
    pub fetched_at: Option<Timestamp>,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
    /// Whether it lives on old keys, or has none although they were asked for.
    pub degraded: bool,
}

pub(super) struct Keeper {
    issuer: Box<str>,
    /// `None` if the keys are in the configuration and never change.
    place: Option<Place>,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    timing: Timing,
    held: ArcSwapOption<Held>,
    turn: Arc<tokio::sync::Mutex<()>>,
    notes: Mutex<Notes>,
}

/// A set of keys. The generation changes only when the keys change.
pub(super) struct Held {
    pub(super) keys: Arc<KeySet>,
    pub(super) generation: u64,
    fetched_at: Timestamp,
}

#[derive(Default)]
struct Notes {
    tried_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
    error: Option<String>,
}

impl Keeper {
    pub(super) fn new(
        issuer: Box<str>,
        place: Option<Place>,
        client: HttpClient,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Self {
        let (held, turn, notes) = Default::default();
        Self { issuer, place, client, clock, timing, held, turn, notes }
    }

    /// Keys that may be used without waiting. If they are ageing, newer ones are fetched in the background.
    pub(super) fn usable(self: &Arc<Self>, now: Timestamp) -> Option<Arc<Held>> {
        let held = self.held.load_full()?;
        let age = now.duration_since(held.fetched_at);
        if self.place.is_none() || age < self.timing.fresh / 2 {
            return Some(held);
        }
        // A removed key must not stay valid for lack of tokens; but an unreachable issuer must not lock callers out.
        let is_down = self.notes().error.is_some();
        let until = if is_down { self.timing.max_stale } else { self.timing.fresh };
        if until <= age {
            return None;
        }
        if self.is_due(now)
            && let Ok(turn) = Arc::clone(&self.turn).try_lock_owned()
        {
            drop(tokio::spawn(Arc::clone(self).fetch(turn)));
        }
        Some(held)
    }

    /// Keys that may be used, fetched if there are none.
    pub(super) async fn keys(self: &Arc<Self>) -> Result<Arc<Held>, TokenError> {
        match self.usable(self.clock.now()) {
            Some(held) => Ok(held),
            None => self.other_than(None).await.ok_or(TokenError::KeysUnavailable),
        }
    }

    /// Keys for a token whose key is not in the set: newer ones, if there are any or a fetch is due.
    pub(super) async fn newer_than(self: &Arc<Self>, known: &Arc<Held>) -> Option<Arc<Held>> {
        self.place.as_ref()?;
        self.other_than(Some(known)).await
    }

    async fn other_than(self: &Arc<Self>, known: Option<&Arc<Held>>) -> Option<Arc<Held>> {
        let other = || {
            let held = self.usable(self.clock.now())?;
            known.is_none_or(|known| !Arc::ptr_eq(known, &held)).then_some(held)
        };
        // Waits for a fetch that is already running.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(held) = other() {
            return Some(held);
        }
        if !self.is_due(self.clock.now()) {
            return None;
        }
        self.fetch_aside(turn).await;
        other()
    }

    /// Fetches on an admin's request, at most once a second.
    pub(super) async fn refresh(self: Arc<Self>) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let now = self.clock.now();
        let asked_at = self.notes().asked_at;
        if asked_at.is_none_or(|asked_at| is_over(asked_at, now, self.timing.asked)) {
            self.notes().asked_at = Some(now);
            self.fetch_aside(turn).await;
        }
    }

    async fn fetch_aside(self: &Arc<Self>, turn: OwnedMutexGuard<()>) {
        let fetched = tokio::spawn(Arc::clone(self).fetch(turn)).await;
        if fetched.is_err() {
            tracing::error!(issuer = %self.issuer, "fetching the keys of issuer `{}` panicked", self.issuer);
        }
    }

    async fn fetch(self: Arc<Self>, _turn: OwnedMutexGuard<()>) {
        let Some(place) = &self.place else { return };
        self.notes().tried_at = Some(self.clock.now());
        match place.read(&self.client, self.timing.deadline).await {
            Ok(keys) => {
                self.put(keys);
                self.notes().error = None;
            }
            Err(error) => {
                let error = sentence(&error);
                let issuer = &self.issuer;
                tracing::warn!(%issuer, "the keys of issuer `{issuer}` were not fetched: {error}");
                self.notes().error = Some(error);
            }
        }
    }

    /// Stores keys. The caller holds the turn, or no other task has access yet.
    pub(super) fn put(&self, keys: KeySet) {
        let fetched_at = self.clock.now();
        let held = match self.held.load_full() {
            Some(old) if old.keys.is_same(&keys) => {
                Held { keys: Arc::clone(&old.keys), generation: old.generation, fetched_at }
            }
            old => {
                let generation = old.map_or(0, |old| old.generation + 1);
                Held { keys: Arc::new(keys), generation, fetched_at }
            }
        };
        self.held.store(Some(Arc::new(held)));
    }

    pub(super) fn state(&self) -> IssuerState {
        let held = self.held.load_full();
        let last_error = self.notes().error.clone();
        let keys = held.as_ref().map_or(0, |held| held.keys.len());
        IssuerState {
            issuer: self.issuer.to_string(),
            keys,
            skipped: held.as_ref().map_or(0, |held| held.keys.skipped()),
            fetched_at: held.as_ref().map(|held| held.fetched_at),
            degraded: last_error.is_some() || (held.is_some() && keys == 0),
            last_error,
        }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let tried_at = self.notes().tried_at;
        tried_at.is_none_or(|tried_at| is_over(tried_at, now, self.timing.cool_down))
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no one panics while holding the notes")
    }
}

/// Whether the time span has passed. A start in the future was noted before the clock was set back and does not count.
fn is_over(since: Timestamp, now: Timestamp, span: SignedDuration) -> bool {
    let passed = now.duration_since(since);
    passed.is_negative() || span <= passed
}
