//! What an authorization knows between two calls.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::challenge::Need;
use super::resource::Resource;
use super::server::Server;
use super::settings::{Flow, OAuth};
use super::store::Kept;
use super::token::Tokens;
use super::{HttpClient, OAuthError, Url};
use crate::http::header::HeaderValue;

/// Who was asked so lately is not asked the same again.
const LATELY: Duration = Duration::from_secs(60);
/// So many tokens in a row that the server does not take are enough, until so much later.
const MAX_IN_VAIN: u32 = 3;
const IN_VAIN: Duration = Duration::from_secs(10 * 60);

pub(super) struct Shared {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    pub(super) oauth: OAuth,
    /// One at a time sees to the token.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) places: Semaphore,
    state: Mutex<State>,
}

/// How the token came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// It was there before us, or there is none.
    #[default]
    Kept,
    /// By another one.
    Refreshed,
    /// By asking for it.
    Asked,
}

#[derive(Default)]
struct State {
    is_loaded: bool,
    /// Grows with each token.
    generation: u64,
    tokens: Option<Tokens>,
    header: Option<HeaderValue>,
    origin: Origin,
    /// Whether the server took it.
    is_proven: bool,
    /// When a token was asked for last, and how often before without one that the server took.
    asked: Option<Instant>,
    in_vain: u32,
    /// Where tokens come from, as it was found last.
    found: Option<(Resource, Server)>,
    failed: Option<Failed>,
}

struct Failed {
    when: Instant,
    was_for_more: bool,
    error: OAuthError,
}

impl Shared {
    pub(super) fn new(client: HttpClient, url: Url, oauth: OAuth) -> Self {
        let places = Semaphore::new(oauth.limits.max_waiting);
        let (turn, state) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { client, url, oauth, turn, places, state }
    }

    pub(super) fn key(&self) -> Kept {
        let resource = self.url.as_str().to_owned();
        Kept::Tokens { principal: self.oauth.principal.clone(), resource }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.state().is_loaded
    }

    /// Whether it ends soon and can be renewed without asking anybody.
    pub(super) fn is_expiring(&self) -> bool {
        let state = self.state();
        let Some(tokens) = &state.tokens else { return false };
        let ends = tokens.renewed.is_some_and(|renewed| renewed <= (self.oauth.now)());
        ends && (tokens.refresh.is_some() || matches!(self.oauth.flow, Flow::ClientCredentials))
    }

    pub(super) fn shown(&self) -> (Option<HeaderValue>, u64) {
        let state = self.state();
        (state.header.clone(), state.generation)
    }

    pub(super) fn worked(&self, generation: u64) {
        let mut state = self.state();
        if state.generation == generation {
            (state.is_proven, state.in_vain) = (true, 0);
        }
    }

    /// From the store, unless somebody was faster.
    pub(super) fn loaded(&self, tokens: Option<Tokens>) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_loaded, true) {
            state.take(tokens, Origin::Kept);
        }
    }

    pub(super) fn has(&self, tokens: &Tokens) -> bool {
        self.state().tokens.as_ref().is_some_and(|known| known.access == tokens.access)
    }

    /// By one that somebody else got.
    pub(super) fn replaced(&self, tokens: Tokens) {
        self.state().take(Some(tokens), Origin::Kept);
    }

    pub(super) fn obtained(&self, tokens: Tokens, origin: Origin, found: (Resource, Server)) {
        let mut state = self.state();
        if origin == Origin::Asked {
            let is_long_ago = state.asked.is_none_or(|asked| IN_VAIN <= asked.elapsed());
            state.in_vain = if is_long_ago { 1 } else { state.in_vain + 1 };
            state.asked = Some(Instant::now());
        }
        state.take(Some(tokens), origin);
        state.found = Some(found);
        state.failed = None;
    }

    pub(super) fn failed(&self, need: &Need, error: OAuthError) {
        let was_for_more = matches!(need, Need::Scopes(_));
        self.state().failed = Some(Failed { when: Instant::now(), was_for_more, error });
    }

    /// What failed a moment ago would fail again. Who could not have more may still keep what they have.
    pub(super) fn rests(&self, need: &Need) -> Option<OAuthError> {
        let state = self.state();
        let Failed { when, was_for_more, error } = state.failed.as_ref()?;
        let concerns = !was_for_more || matches!(need, Need::Scopes(_));
        (concerns && when.elapsed() < self.oauth.limits.rest).then(|| error.clone())
    }

    pub(super) fn tokens(&self) -> Option<Tokens> {
        self.state().tokens.clone()
    }

    /// It is not renewed before the server refuses it.
    pub(super) fn cannot_be_renewed_yet(&self) {
        if let Some(tokens) = &mut self.state().tokens {
            tokens.renewed = None;
        }
    }

    /// Whether it was renewed, and not taken.
    pub(super) fn was_renewed_in_vain(&self) -> bool {
        let state = self.state();
        !state.is_proven && state.origin == Origin::Refreshed
    }

    /// Whether it was asked for a moment ago; and if so, whether the server took it.
    pub(super) fn asked_lately(&self) -> Option<bool> {
        let state = self.state();
        let asked = state.asked.filter(|asked| asked.elapsed() < LATELY);
        asked.map(|_| state.is_proven)
    }

    /// Whether it was asked for too often without anything coming of it.
    pub(super) fn is_in_vain(&self) -> bool {
        let state = self.state();
        MAX_IN_VAIN <= state.in_vain && state.asked.is_some_and(|asked| asked.elapsed() < IN_VAIN)
    }

    pub(super) fn found(&self) -> Option<(Resource, Server)> {
        self.state().found.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, tokens: Option<Tokens>, origin: Origin) {
        self.header = tokens.as_ref().and_then(|tokens| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", tokens.access)).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        self.tokens = tokens;
        (self.origin, self.is_proven) = (origin, false);
        self.generation += 1;
    }
}
