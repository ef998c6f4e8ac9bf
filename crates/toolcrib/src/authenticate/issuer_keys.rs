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
use model::format_error_chain;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::OwnedMutexGuard;
use upstream::http::HttpClient;

use super::key_fetch::KeyLocation;

/// Time limits for keys and verified tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTiming {
    /// After this time, keys are fetched again.
    pub fresh_for: SignedDuration,
    /// After this time without a successful fetch, keys are no longer used.
    pub max_stale: SignedDuration,
    /// The least time between two fetches.
    pub cool_down: SignedDuration,
    /// The least time between two fetches that an admin requests.
    pub admin_cool_down: SignedDuration,
    /// The time limit of a whole fetch.
    pub deadline: Duration,
    /// How long a verified token is cached, if it does not expire before.
    pub cache_tokens_for: SignedDuration,
}

impl Default for KeyTiming {
    fn default() -> Self {
        Self {
            fresh_for: SignedDuration::from_mins(10),
            max_stale: SignedDuration::from_hours(24),
            cool_down: SignedDuration::from_secs(30),
            admin_cool_down: SignedDuration::from_secs(1),
            deadline: Duration::from_secs(5),
            cache_tokens_for: SignedDuration::from_mins(5),
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

pub(super) struct IssuerKeys {
    issuer: Box<str>,
    /// `None` if the keys are in the configuration and never change.
    location: Option<KeyLocation>,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    timing: KeyTiming,
    current: ArcSwapOption<KeyGeneration>,
    turn: Arc<tokio::sync::Mutex<()>>,
    notes: Mutex<FetchNotes>,
}

/// A set of keys. The generation changes only when the keys change.
pub(super) struct KeyGeneration {
    pub(super) keys: Arc<KeySet>,
    pub(super) generation: u64,
    fetched_at: Timestamp,
}

#[derive(Default)]
struct FetchNotes {
    tried_at: Option<Timestamp>,
    requested_at: Option<Timestamp>,
    error: Option<String>,
}

impl IssuerKeys {
    pub(super) fn new(
        issuer: Box<str>,
        place: Option<KeyLocation>,
        client: HttpClient,
        clock: Arc<dyn Clock>,
        timing: KeyTiming,
    ) -> Self {
        let (held, turn, notes) = Default::default();
        Self { issuer, location: place, client, clock, timing, current: held, turn, notes }
    }

    /// Keys that may be used without waiting. If they are ageing, newer ones are fetched in the background.
    pub(super) fn usable_keys(self: &Arc<Self>, now: Timestamp) -> Option<Arc<KeyGeneration>> {
        let held = self.current.load_full()?;
        let age = now.duration_since(held.fetched_at);
        if self.location.is_none() || age < self.timing.fresh_for / 2 {
            return Some(held);
        }
        // A removed key must not stay valid for lack of tokens; but an unreachable issuer must not lock callers out.
        let is_down = self.lock_notes().error.is_some();
        let until = if is_down { self.timing.max_stale } else { self.timing.fresh_for };
        if until <= age {
            return None;
        }
        if self.is_fetch_due(now)
            && let Ok(turn) = Arc::clone(&self.turn).try_lock_owned()
        {
            drop(tokio::spawn(Arc::clone(self).fetch_keys(turn)));
        }
        Some(held)
    }

    /// Keys that may be used, fetched if there are none.
    pub(super) async fn current_keys(self: &Arc<Self>) -> Result<Arc<KeyGeneration>, TokenError> {
        match self.usable_keys(self.clock.now()) {
            Some(held) => Ok(held),
            None => self.keys_other_than(None).await.ok_or(TokenError::KeysUnavailable),
        }
    }

    /// Keys for a token whose key is not in the set: newer ones, if there are any or a fetch is due.
    pub(super) async fn keys_newer_than(
        self: &Arc<Self>,
        known: &Arc<KeyGeneration>,
    ) -> Option<Arc<KeyGeneration>> {
        self.location.as_ref()?;
        self.keys_other_than(Some(known)).await
    }

    async fn keys_other_than(
        self: &Arc<Self>,
        known: Option<&Arc<KeyGeneration>>,
    ) -> Option<Arc<KeyGeneration>> {
        let other = || {
            let held = self.usable_keys(self.clock.now())?;
            known.is_none_or(|known| !Arc::ptr_eq(known, &held)).then_some(held)
        };
        // Waits for a fetch that is already running.
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(held) = other() {
            return Some(held);
        }
        if !self.is_fetch_due(self.clock.now()) {
            return None;
        }
        self.fetch_in_task(turn).await;
        other()
    }

    /// Fetches on an admin's request, at most once a second.
    pub(super) async fn refresh_on_request(self: Arc<Self>) {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let now = self.clock.now();
        let asked_at = self.lock_notes().requested_at;
        if asked_at.is_none_or(|asked_at| has_elapsed(asked_at, now, self.timing.admin_cool_down)) {
            self.lock_notes().requested_at = Some(now);
            self.fetch_in_task(turn).await;
        }
    }

    async fn fetch_in_task(self: &Arc<Self>, turn: OwnedMutexGuard<()>) {
        let fetched = tokio::spawn(Arc::clone(self).fetch_keys(turn)).await;
        if fetched.is_err() {
            tracing::error!(issuer = %self.issuer, "fetching the keys of issuer `{}` panicked", self.issuer);
        }
    }

    async fn fetch_keys(self: Arc<Self>, _turn: OwnedMutexGuard<()>) {
        let Some(place) = &self.location else { return };
        self.lock_notes().tried_at = Some(self.clock.now());
        match place.read_keys(&self.client, self.timing.deadline).await {
            Ok(keys) => {
                self.store_keys(keys);
                self.lock_notes().error = None;
            }
            Err(error) => {
                let error = format_error_chain(&error);
                let issuer = &self.issuer;
                tracing::warn!(%issuer, "the keys of issuer `{issuer}` were not fetched: {error}");
                self.lock_notes().error = Some(error);
            }
        }
    }

    /// Stores keys. The caller holds the turn, or no other task has access yet.
    pub(super) fn store_keys(&self, keys: KeySet) {
        let fetched_at = self.clock.now();
        let held = match self.current.load_full() {
            Some(old) if old.keys.has_same_keys(&keys) => KeyGeneration {
                keys: Arc::clone(&old.keys),
                generation: old.generation,
                fetched_at,
            },
            old => {
                let generation = old.map_or(0, |old| old.generation + 1);
                KeyGeneration { keys: Arc::new(keys), generation, fetched_at }
            }
        };
        self.current.store(Some(Arc::new(held)));
    }

    pub(super) fn issuer_state(&self) -> IssuerState {
        let held = self.current.load_full();
        let last_error = self.lock_notes().error.clone();
        let keys = held.as_ref().map_or(0, |held| held.keys.len());
        IssuerState {
            issuer: self.issuer.to_string(),
            keys,
            skipped: held.as_ref().map_or(0, |held| held.keys.skipped_keys()),
            fetched_at: held.as_ref().map(|held| held.fetched_at),
            degraded: last_error.is_some() || (held.is_some() && keys == 0),
            last_error,
        }
    }

    fn is_fetch_due(&self, now: Timestamp) -> bool {
        let tried_at = self.lock_notes().tried_at;
        tried_at.is_none_or(|tried_at| has_elapsed(tried_at, now, self.timing.cool_down))
    }

    fn lock_notes(&self) -> MutexGuard<'_, FetchNotes> {
        self.notes.lock().expect("no one panics while holding the notes")
    }
}

/// Whether the time span has passed. A start in the future was noted before the clock was set back and does not count.
fn has_elapsed(since: Timestamp, now: Timestamp, span: SignedDuration) -> bool {
    let passed = now.duration_since(since);
    passed.is_negative() || span <= passed
}
