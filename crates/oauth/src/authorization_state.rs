//! The state of an authorization that is kept between calls.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use upstream::http::header::HeaderValue;

use super::authorization_server::AuthorizationServer;
use super::bearer_challenge::TokenNeed;
use super::oauth_settings::{OAuthFlow, OAuthSettings};
use super::oauth_store::OAuthStoreKey;
use super::resource_metadata::ResourceMetadata;
use super::token_endpoint::StoredTokens;
use super::{HttpClient, OAuthError, Url};

/// A user who was asked within this time is not asked for the same again.
const RECENT_REQUEST: Duration = Duration::from_secs(60);
/// After this many consecutive tokens that the server rejected, none is requested for `REJECTION_BACKOFF`.
const MAX_REJECTED_TOKENS: u32 = 3;
const REJECTION_BACKOFF: Duration = Duration::from_secs(10 * 60);

pub(super) struct AuthorizationState {
    pub(super) client: HttpClient,
    pub(super) url: Url,
    pub(super) oauth: OAuthSettings,
    /// Held by the one flow that obtains a token.
    pub(super) flow_lock: tokio::sync::Mutex<()>,
    pub(super) waiting_permits: Semaphore,
    state: Mutex<TokenState>,
}

/// How the token was obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TokenOrigin {
    /// From the store, or there is no token.
    #[default]
    Stored,
    /// With a refresh token.
    Renewed,
    /// By a new request.
    Requested,
}

#[derive(Default)]
struct TokenState {
    is_loaded: bool,
    /// Grows with each token.
    generation: u64,
    tokens: Option<StoredTokens>,
    header: Option<HeaderValue>,
    origin: TokenOrigin,
    /// Whether the server has accepted the token.
    is_proven: bool,
    /// When a token was last requested, and how many were requested in a row without the server accepting one.
    last_requested: Option<Instant>,
    rejected_tokens: u32,
    /// The resource and authorization server found last.
    known_server: Option<(ResourceMetadata, AuthorizationServer)>,
    failed: Option<FailedFlow>,
}

struct FailedFlow {
    when: Instant,
    was_for_scopes: bool,
    error: OAuthError,
}

impl AuthorizationState {
    pub(super) fn new(client: HttpClient, url: Url, oauth: OAuthSettings) -> Self {
        let places = Semaphore::new(oauth.limits.max_waiting);
        let (turn, state) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { client, url, oauth, flow_lock: turn, waiting_permits: places, state }
    }

    pub(super) fn token_key(&self) -> OAuthStoreKey {
        let resource = self.url.as_str().to_owned();
        OAuthStoreKey::Tokens { principal: self.oauth.principal.clone(), resource }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.lock_state().is_loaded
    }

    /// Whether the token expires soon and can be renewed without a user.
    pub(super) fn is_expiring(&self) -> bool {
        let state = self.lock_state();
        let Some(tokens) = &state.tokens else { return false };
        let ends = tokens.renewed.is_some_and(|renewed| renewed <= (self.oauth.now)());
        ends && (tokens.refresh.is_some()
            || matches!(self.oauth.flow, OAuthFlow::ClientCredentials))
    }

    pub(super) fn current_token(&self) -> (Option<HeaderValue>, u64) {
        let state = self.lock_state();
        (state.header.clone(), state.generation)
    }

    pub(super) fn confirm_token(&self, generation: u64) {
        let mut state = self.lock_state();
        if state.generation == generation {
            (state.is_proven, state.rejected_tokens) = (true, 0);
        }
    }

    /// Sets the tokens from the store, unless they were already loaded.
    pub(super) fn set_loaded(&self, tokens: Option<StoredTokens>) {
        let mut state = self.lock_state();
        if !std::mem::replace(&mut state.is_loaded, true) {
            state.set_tokens(tokens, TokenOrigin::Stored);
        }
    }

    pub(super) fn has_tokens(&self, tokens: &StoredTokens) -> bool {
        self.lock_state().tokens.as_ref().is_some_and(|known| known.access == tokens.access)
    }

    /// Replaces the tokens by the ones another node stored.
    pub(super) fn replace_tokens(&self, tokens: StoredTokens) {
        self.lock_state().set_tokens(Some(tokens), TokenOrigin::Stored);
    }

    pub(super) fn set_obtained(
        &self,
        tokens: StoredTokens,
        origin: TokenOrigin,
        found: (ResourceMetadata, AuthorizationServer),
    ) {
        let mut state = self.lock_state();
        if origin == TokenOrigin::Requested {
            let is_long_ago =
                state.last_requested.is_none_or(|asked| REJECTION_BACKOFF <= asked.elapsed());
            state.rejected_tokens = if is_long_ago { 1 } else { state.rejected_tokens + 1 };
            state.last_requested = Some(Instant::now());
        }
        state.set_tokens(Some(tokens), origin);
        state.known_server = Some(found);
        state.failed = None;
    }

    pub(super) fn record_failure(&self, need: &TokenNeed, error: OAuthError) {
        let was_for_more = matches!(need, TokenNeed::Scopes(_));
        self.lock_state().failed =
            Some(FailedFlow { when: Instant::now(), was_for_scopes: was_for_more, error });
    }

    /// Back off after a failed flow; a failed scope upgrade does not invalidate the current token.
    pub(super) fn recent_failure(&self, need: &TokenNeed) -> Option<OAuthError> {
        let state = self.lock_state();
        let FailedFlow { when, was_for_scopes: was_for_more, error } = state.failed.as_ref()?;
        let concerns = !was_for_more || matches!(need, TokenNeed::Scopes(_));
        (concerns && when.elapsed() < self.oauth.limits.failure_cooldown).then(|| error.clone())
    }

    pub(super) fn current_tokens(&self) -> Option<StoredTokens> {
        self.lock_state().tokens.clone()
    }

    /// Postpones the renewal until the server rejects the token.
    pub(super) fn postpone_renewal(&self) {
        if let Some(tokens) = &mut self.lock_state().tokens {
            tokens.renewed = None;
        }
    }

    /// Whether the token was renewed and not accepted since.
    pub(super) fn is_renewed_unaccepted(&self) -> bool {
        let state = self.lock_state();
        !state.is_proven && state.origin == TokenOrigin::Renewed
    }

    /// Whether a token was requested recently; if so, whether the server accepted it.
    pub(super) fn recent_request_accepted(&self) -> Option<bool> {
        let state = self.lock_state();
        let asked = state.last_requested.filter(|asked| asked.elapsed() < RECENT_REQUEST);
        asked.map(|_| state.is_proven)
    }

    /// Whether too many tokens in a row were requested and rejected.
    pub(super) fn has_too_many_rejections(&self) -> bool {
        let state = self.lock_state();
        MAX_REJECTED_TOKENS <= state.rejected_tokens
            && state.last_requested.is_some_and(|asked| asked.elapsed() < REJECTION_BACKOFF)
    }

    pub(super) fn known_server(&self) -> Option<(ResourceMetadata, AuthorizationServer)> {
        self.lock_state().known_server.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TokenState {
    fn set_tokens(&mut self, tokens: Option<StoredTokens>, origin: TokenOrigin) {
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
