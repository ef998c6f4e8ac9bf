//! A cache of upstream tokens, kept until shortly before they expire. For each token one request runs at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use limits::LruCache;
use model::Digest;
use oauth::{GrantClient, IssuedToken, OAuthError, TokenEndpoint, TokenRequirements};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::Mutex;
use upstream::http::Url;

/// The most tokens to keep, and how long to keep an unused one.
const MAX_CACHED_TOKENS: u64 = 100_000;
const TOKEN_IDLE_TIME: Duration = Duration::from_secs(60 * 60);
/// How long before its expiry a token is no longer used.
const EXPIRY_MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// How long to use a token without a stated lifetime.
const DEFAULT_LIFETIME: SignedDuration = SignedDuration::from_mins(5);
/// The backoff after a failed request, so that waiting callers do not repeat it one after the other.
const FAILURE_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
/// How long to keep a new token although an upstream rejects it. The rejection may be about the call, and an agent that
/// repeats the call would otherwise force a new token on all agents each time.
const MIN_REJECTED_AGE: SignedDuration = SignedDuration::from_secs(30);
/// The most issuers, and clients bound to an issuer, to remember; and how long to trust an issuer's token endpoint.
const MAX_ISSUERS: u64 = 1_000;
const MAX_BOUND_CLIENTS: u64 = 10_000;
const ISSUER_TTL: Duration = Duration::from_secs(10 * 60);

pub(super) struct TokenCache {
    entries: LruCache<Digest, TokenSlot>,
    /// Token endpoints; the key says whether they were discovered over plain HTTP.
    endpoints: LruCache<(bool, Box<str>), TokenEndpoint>,
    /// Protected-resource metadata of MCP servers, by their URLs.
    servers: LruCache<Box<str>, TokenRequirements>,
    /// The issuer that a client was first used with, where none is configured: no other issuer gets to see its secret.
    bound_issuers: LruCache<Digest, Box<str>>,
    clock: Arc<dyn Clock>,
}

/// The slot of one token. The request for the token holds the lock.
type TokenSlot = Arc<Mutex<Option<TokenEntry>>>;

/// A token or the error of its request, and how long the entry is valid.
struct TokenEntry {
    outcome: Result<SecretString, OAuthError>,
    since: Timestamp,
    until: Timestamp,
    /// When the token expires.
    expires_at: Timestamp,
    /// When the answer arrived. A caller that waited for it may use the token, however short its lifetime is.
    answered: Instant,
}

impl TokenEntry {
    fn is_usable(&self, came: Instant, now: Timestamp) -> bool {
        now < self.until || (came < self.answered && now < self.expires_at)
    }
}

/// A token for one use.
#[derive(Clone)]
pub struct CachedToken {
    key: Digest,
    token: SecretString,
    is_new: bool,
    /// The client secret that was used to request it.
    client_secret: Option<SecretString>,
    /// The URL of the MCP server that named the issuer.
    server: Option<Box<str>>,
}

impl CachedToken {
    pub(super) fn with_origin(self, proof: Option<SecretString>, server: Option<&Url>) -> Self {
        Self { client_secret: proof, server: server.map(|url| url.as_str().into()), ..self }
    }

    pub(super) fn client_secret(&self) -> Option<&SecretString> {
        self.client_secret.as_ref()
    }

    /// The values that must not be disclosed.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        [&self.token].into_iter().chain(&self.client_secret)
    }

    pub(crate) fn token(&self) -> &SecretString {
        &self.token
    }
}

impl TokenCache {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            entries: LruCache::new(MAX_CACHED_TOKENS).with_idle_timeout(TOKEN_IDLE_TIME),
            endpoints: LruCache::new(MAX_ISSUERS).with_time_to_live(ISSUER_TTL),
            servers: LruCache::new(MAX_ISSUERS).with_time_to_live(ISSUER_TTL),
            bound_issuers: LruCache::new(MAX_BOUND_CLIENTS),
            clock,
        }
    }

    /// The token under this key; if none is usable, `ask` requests it while concurrent callers wait.
    pub(super) async fn get(
        &self,
        key: Digest,
        ask: impl Future<Output = Result<IssuedToken, OAuthError>>,
    ) -> Result<CachedToken, OAuthError> {
        let came = Instant::now();
        let place = self.entries.get_with(key, Arc::default);
        let mut known = place.lock().await;
        let held =
            |token, is_new| CachedToken { key, token, is_new, client_secret: None, server: None };
        if let Some(known) = known.as_ref().filter(|it| it.is_usable(came, self.clock.now())) {
            return known.outcome.clone().map(|token| held(token, false));
        }
        let since = self.clock.now();
        let after = |holds| since.checked_add(holds).unwrap_or(Timestamp::MAX);
        let (what, until, end) = match ask.await {
            Ok(granted) => {
                let seconds = granted.expires_in.map(|it| i64::try_from(it).unwrap_or(i64::MAX));
                let holds =
                    seconds.map_or(DEFAULT_LIFETIME + EXPIRY_MARGIN, SignedDuration::from_secs);
                // For a short-lived token this is already in the past.
                (Ok(SecretString::from(granted.token)), after(holds - EXPIRY_MARGIN), after(holds))
            }
            Err(error) => (Err(error), after(FAILURE_BACKOFF), Timestamp::MAX),
        };
        let answered = Instant::now();
        *known =
            Some(TokenEntry { outcome: what.clone(), since, until, expires_at: end, answered });
        what.map(|token| held(token, true))
    }

    /// Removes a token that an upstream rejected; returns whether another token may be obtained. A new token stays, and
    /// so does one that replaced it meanwhile. The MCP server may name another issuer by now, so its metadata is
    /// removed too.
    pub(super) async fn invalidate_token(&self, held: &CachedToken) -> bool {
        if held.is_new {
            return false;
        }
        let Some(place) = self.entries.get(&held.key) else { return true };
        let mut known = place.lock().await;
        let is_it = |known: &&TokenEntry| {
            let token = known.outcome.as_ref().ok();
            token.is_some_and(|token| token.expose_secret() == held.token.expose_secret())
        };
        if let Some(refused) = known.as_ref().filter(is_it) {
            if self.clock.now().duration_since(refused.since) < MIN_REJECTED_AGE {
                return false;
            }
            *known = None;
        }
        if let Some(server) = &held.server {
            self.servers.remove(server);
        }
        true
    }

    /// The token endpoint of an issuer.
    pub(super) async fn token_endpoint(
        &self,
        issuer: &str,
        grants: &GrantClient,
    ) -> Result<TokenEndpoint, OAuthError> {
        let key = (grants.trusts_plain_http, issuer.into());
        if let Some(place) = self.endpoints.get(&key) {
            return Ok(place);
        }
        let place = grants.discover_endpoint(issuer).await?;
        self.endpoints.insert(key, place.clone());
        Ok(place)
    }

    /// Forgets the token endpoint of an issuer, which may have moved.
    pub(super) fn forget_issuer(&self, issuer: &str) {
        for trusts in [false, true] {
            self.endpoints.remove(&(trusts, issuer.into()));
        }
    }

    /// The protected-resource metadata of an MCP server: which tokens it accepts.
    pub(super) async fn protected_resource(
        &self,
        url: &Url,
        grants: &GrantClient,
    ) -> Result<TokenRequirements, OAuthError> {
        if let Some(known) = self.servers.get(url.as_str()) {
            return Ok(known);
        }
        let protected = grants.discover_requirements(url).await?;
        self.servers.insert(url.as_str().into(), protected.clone());
        Ok(protected)
    }

    /// Forgets the metadata of an MCP server, which may have changed.
    pub(super) fn forget_server(&self, url: &Url) {
        self.servers.remove(url.as_str());
    }

    /// The issuer that a client was used with before.
    pub(super) fn bound_issuer(&self, client: &Digest) -> Option<Box<str>> {
        self.bound_issuers.get(client)
    }

    /// Binds a client to the issuer that is about to see its secret.
    pub(super) fn bind_issuer(&self, client: Digest, issuer: &str) {
        self.bound_issuers.insert(client, issuer.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use catalog::clock::ManualClock;
    use futures_util::future::join_all;

    use super::*;

    struct World {
        tokens: TokenCache,
        clock: Arc<ManualClock>,
        asked: AtomicU32,
    }

    impl World {
        fn new() -> Self {
            let clock =
                Arc::new(ManualClock::starting_at(Timestamp::from_second(1_000_000).unwrap()));
            let tokens = TokenCache::new(Arc::clone(&clock) as Arc<dyn Clock>);
            Self { tokens, clock, asked: AtomicU32::new(0) }
        }

        async fn get(&self, key: &str, holds: Option<u64>) -> CachedToken {
            let ask = async {
                tokio::task::yield_now().await;
                let token = format!("token-{}", self.asked.fetch_add(1, Ordering::Relaxed));
                Ok(IssuedToken { token, expires_in: holds })
            };
            self.tokens.get(Digest::of_bytes(key), ask).await.unwrap()
        }
    }

    fn text(held: &CachedToken) -> &str {
        held.token().expose_secret()
    }

    #[tokio::test]
    async fn a_token_is_used_until_a_minute_before_its_expiry() {
        let world = World::new();
        assert_eq!(text(&world.get("a", Some(300)).await), "token-0");
        world.clock.advance(SignedDuration::from_secs(239));
        let again = world.get("a", Some(300)).await;
        assert_eq!((text(&again), again.is_new), ("token-0", false));
        world.clock.advance(SignedDuration::from_secs(1));
        assert_eq!(text(&world.get("a", Some(300)).await), "token-1");
        assert_eq!(text(&world.get("b", Some(60)).await), "token-2");
        assert_eq!(text(&world.get("b", Some(60)).await), "token-3", "a short one is used once");
        assert_eq!(text(&world.get("c", None).await), "token-4");
        world.clock.advance(DEFAULT_LIFETIME);
        assert_eq!(text(&world.get("c", Some(u64::MAX)).await), "token-5");
        assert_eq!(text(&world.get("c", None).await), "token-5");
    }

    #[tokio::test]
    async fn concurrent_callers_share_one_request() {
        let world = World::new();
        let (one, two, other) =
            tokio::join!(world.get("a", Some(300)), world.get("a", None), world.get("b", None));
        assert_eq!(text(&one), text(&two));
        assert_ne!(text(&one), text(&other));
        assert_eq!(world.asked.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_short_lived_token_serves_waiting_callers_but_no_later_ones() {
        let world = World::new();
        let all = join_all((0..50).map(|_| world.get("a", Some(30)))).await;
        assert!(all.iter().all(|held| text(held) == "token-0"));
        assert_eq!(text(&world.get("a", Some(30)).await), "token-1");
        let over = join_all((0..3).map(|_| world.get("b", Some(0)))).await;
        let over: Vec<_> = over.iter().map(text).collect();
        assert_eq!(over, ["token-2", "token-3", "token-4"], "one that is over is of use to nobody");
    }

    #[tokio::test]
    async fn a_failure_serves_waiting_callers_however_long_it_took() {
        let world = World::new();
        let ask = async || {
            world.asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            world.clock.advance(FAILURE_BACKOFF);
            Err(OAuthError::NoConsent)
        };
        let all = join_all((0..50).map(|_| world.tokens.get(Digest::of_bytes("a"), ask()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(world.asked.load(Ordering::Relaxed), 1);
        assert_eq!(text(&world.get("a", None).await), "token-1");
    }

    #[tokio::test]
    async fn a_token_rejected_after_a_while_is_forgotten_but_not_its_successor() {
        let world = World::new();
        world.get("a", Some(300)).await;
        let first = world.get("a", Some(300)).await;
        world.clock.advance(MIN_REJECTED_AGE);
        assert!(world.tokens.invalidate_token(&first).await);
        assert_eq!(text(&world.get("a", Some(300)).await), "token-1");
        world.clock.advance(MIN_REJECTED_AGE);
        assert!(world.tokens.invalidate_token(&first).await, "there is another");
        assert_eq!(text(&world.get("a", Some(300)).await), "token-1");
    }

    #[tokio::test]
    async fn a_new_token_stays_although_it_is_rejected() {
        let world = World::new();
        for _ in 0..10 {
            let held = world.get("a", Some(300)).await;
            assert_eq!(
                (text(&held), world.tokens.invalidate_token(&held).await),
                ("token-0", false)
            );
            world.clock.advance(SignedDuration::from_secs(2));
        }
    }

    #[tokio::test]
    async fn after_a_failure_requests_back_off() {
        let world = World::new();
        let fail = || async { Err(OAuthError::NoConsent) };
        assert!(world.tokens.get(Digest::of_bytes("a"), fail()).await.is_err());
        let asked = async {
            world.asked.fetch_add(1, Ordering::Relaxed);
            Err(OAuthError::NoConsent)
        };
        assert!(world.tokens.get(Digest::of_bytes("a"), asked).await.is_err());
        assert_eq!(world.asked.load(Ordering::Relaxed), 0);
        world.clock.advance(FAILURE_BACKOFF);
        assert_eq!(text(&world.get("a", None).await), "token-0");
    }
}
