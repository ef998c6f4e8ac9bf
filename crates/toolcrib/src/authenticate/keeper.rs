//! Keeps the keys of one issuer fresh. Keys that are getting old are fetched again meanwhile; with keys that are old,
//! after a while without tokens, a token waits for newer ones. Only if these cannot be had, the old are used for a day.
//!
//! Whoever holds the turn fetches; there is one fetch at a time, and one in every cool-down, failed ones counted. So a
//! flood of tokens with made-up keys costs their issuer one request in 30 seconds, and tokens with known keys never
//! wait. A fetch runs in a task of its own: an agent that hangs up does not end it.

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

/// How long things last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// After this, keys are fetched again.
    pub fresh: SignedDuration,
    /// After this without a fetch that succeeded, keys are not used any more.
    pub max_stale: SignedDuration,
    /// Between two fetches.
    pub cool_down: SignedDuration,
    /// Between two fetches that an admin asks for.
    pub asked: SignedDuration,
    /// For a whole fetch.
    pub deadline: Duration,
    /// For which a verified token is remembered, if it does not expire before.
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
    /// If there is none, the keys are in the configuration and stay as they are.
    place: Option<Place>,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    timing: Timing,
    held: ArcSwapOption<Held>,
    turn: Arc<tokio::sync::Mutex<()>>,
    notes: Mutex<Notes>,
}

/// A set of keys. The generation changes only if the keys do.
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

    /// Keys that may be used without waiting. If they are getting old, newer ones are fetched meanwhile.
    pub(super) fn usable(self: &Arc<Self>, now: Timestamp) -> Option<Arc<Held>> {
        let held = self.held.load_full()?;
        let age = now.duration_since(held.fetched_at);
        if self.place.is_none() || age < self.timing.fresh / 2 {
            return Some(held);
        }
        // A key that was removed must not be used because nobody asked; but an issuer that is down keeps nobody out.
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

    /// For a token whose key is not in the set: a newer one, if there is one or it is time to ask.
    pub(super) async fn newer_than(self: &Arc<Self>, known: &Arc<Held>) -> Option<Arc<Held>> {
        self.place.as_ref()?;
        self.other_than(Some(known)).await
    }

    async fn other_than(self: &Arc<Self>, known: Option<&Arc<Held>>) -> Option<Arc<Held>> {
        let other = || {
            let held = self.usable(self.clock.now())?;
            known.is_none_or(|known| !Arc::ptr_eq(known, &held)).then_some(held)
        };
        // Whoever waits here waits for a fetch that is on its way.
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

    /// Fetches because someone asks for it, who may do so once a second.
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

    /// Only whoever has the turn puts keys, or nobody else is there yet.
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

/// A time that is still to come was noted before the clock was set back, and says nothing.
fn is_over(since: Timestamp, now: Timestamp, span: SignedDuration) -> bool {
    let passed = now.duration_since(since);
    passed.is_negative() || span <= passed
}
