//! The state of an authorization that is kept between calls.

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

/// A user who was asked within this time is not asked for the same again.
const LATELY: Duration = Duration::from_secs(60);
/// After this many consecutive tokens that the server rejected, none is requested for `REJECTION_BACKOFF`.
const MAX_IN_VAIN: u32 = 3;
const IN_VAIN: Duration = Duration::from_secs(10 * 60);

pub(super) struct Shared {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    pub(super) oauth: OAuth,
    /// Held by the one flow that obtains a token.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) places: Semaphore,
    state: Mutex<State>,
}

/// How the token was obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// From the store, or there is no token.
    #[default]
    Kept,
    /// With a refresh token.
    Refreshed,
    /// By a new request.
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
    /// Whether the server has accepted the token.
    is_proven: bool,
    /// When a token was last requested, and how many were requested in a row without the server accepting one.
    asked: Option<Instant>,
    in_vain: u32,
    /// The resource and authorization server found last.
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

    /// Whether the token expires soon and can be renewed without a user.
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

    /// Sets the tokens from the store, unless they were already loaded.
    pub(super) fn loaded(&self, tokens: Option<Tokens>) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_loaded, true) {
            state.take(tokens, Origin::Kept);
        }
    }

    pub(super) fn has(&self, tokens: &Tokens) -> bool {
        self.state().tokens.as_ref().is_some_and(|known| known.access == tokens.access)
    }

    /// Replaces the tokens by the ones another node stored.
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

    /// Back off after a failed flow; a failed scope upgrade does not invalidate the current token.
    pub(super) fn rests(&self, need: &Need) -> Option<OAuthError> {
        let state = self.state();
        let Failed { when, was_for_more, error } = state.failed.as_ref()?;
        let concerns = !was_for_more || matches!(need, Need::Scopes(_));
        (concerns && when.elapsed() < self.oauth.limits.rest).then(|| error.clone())
    }

    pub(super) fn tokens(&self) -> Option<Tokens> {
        self.state().tokens.clone()
    }

    /// Postpones the renewal until the server rejects the token.
    pub(super) fn cannot_be_renewed_yet(&self) {
        if let Some(tokens) = &mut self.state().tokens {
            tokens.renewed = None;
        }
    }

    /// Whether the token was renewed and not accepted since.
    pub(super) fn was_renewed_in_vain(&self) -> bool {
        let state = self.state();
        !state.is_proven && state.origin == Origin::Refreshed
    }

    /// Whether a token was requested recently; if so, whether the server accepted it.
    pub(super) fn asked_lately(&self) -> Option<bool> {
        let state = self.state();
        let asked = state.asked.filter(|asked| asked.elapsed() < LATELY);
        asked.map(|_| state.is_proven)
    }

    /// Whether too many tokens in a row were requested and rejected.
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
