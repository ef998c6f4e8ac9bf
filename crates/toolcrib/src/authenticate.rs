//! Authentication by token: a token becomes an agent or is rejected (requirement A10). There is no default agent.
//!
//! The rules for tokens are in `access`, which does no I/O. This module holds the trusted issuers, keeps their keys
//! fresh, and caches recently verified tokens.

mod issuer_config;
mod issuer_keys;
mod key_fetch;
mod verified_tokens;

use std::collections::BTreeSet;
use std::sync::Arc;

use access::{
    InvalidKeySet, Issuer, KeySet, MAX_TOKEN, TokenError, UnverifiedToken, VerifiedToken,
};
use catalog::clock::Clock;
use issuer_config::ScopeIncludes;
pub use issuer_config::{IssuerAudience, IssuerConfig, IssuerError, KeySource};
use issuer_keys::{IssuerKeys, KeyGeneration};
pub use issuer_keys::{IssuerState, KeyTiming};
use jiff::Timestamp;
use key_fetch::KeyLocation;
use model::Agent;
use secrecy::ExposeSecret as _;
use tokio::task::JoinSet;
use upstream::http::{HttpClient, Url};
use verified_tokens::{VerifiedAgent, VerifiedTokens};

use crate::SecretStore;

/// Verifies tokens and turns them into agents.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use toolcrib::upstream::{egress::EgressPolicy, http::HttpClient};
/// use toolcrib::{Authenticator, IssuerConfig, JournalLocation, SecretStore, SystemClock, KeyTiming, TokenError};
///
/// let issuer: IssuerConfig = serde_json::from_str(
///     r#"{"issuer": "https://id.example/realms/main", "audience": "https://tools.example/mcp"}"#,
/// )?;
/// let client = HttpClient::new(EgressPolicy::default());
/// let journal = JournalLocation::Memory.open(SystemClock).await?;
/// let secrets = SecretStore::new(journal, None, SystemClock, |_| None);
/// let clock = Arc::new(SystemClock);
/// let authenticator =
///     Authenticator::new(vec![issuer], &client, &secrets, clock, KeyTiming::default()).await?;
/// let stranger = authenticator.verify_token("not a token").await;
/// assert!(matches!(stranger, Err(TokenError::Malformed { .. })));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub struct Authenticator {
    issuers: Vec<TrustedIssuer>,
    verified: VerifiedTokens,
    clock: Arc<dyn Clock>,
    timing: KeyTiming,
}

struct TrustedIssuer {
    rules: Issuer,
    scope_includes: ScopeIncludes,
    keys: Arc<IssuerKeys>,
}

impl Authenticator {
    /// Trusts these issuers. Keys in the configuration are read now; remote keys are fetched when they are first
    /// needed, or by [`refresh_keys`](Self::refresh_keys).
    pub async fn new(
        issuers: Vec<IssuerConfig>,
        client: &HttpClient,
        secrets: &SecretStore,
        clock: Arc<dyn Clock>,
        timing: KeyTiming,
    ) -> Result<Self, IssuerError> {
        let mut trusted: Vec<TrustedIssuer> = Vec::new();
        for config in issuers {
            if trusted.iter().any(|other| other.rules.name() == &*config.issuer) {
                return Err(IssuerError::DuplicateIssuer { issuer: config.issuer.into() });
            }
            let rules = config.token_rules()?;
            let client = match config.allow.is_empty() {
                true => client.clone(),
                false => client.with_allowed(config.allow.clone()),
            };
            let (place, keys) = match key_location(&config)? {
                Some(place) => {
                    let keys = read_key_file(&place, &config, &client, timing).await?;
                    (Some(place), keys)
                }
                None => (None, Some(configured_keys(&config, secrets).await?)),
            };
            if keys.as_ref().is_some_and(|keys| !has_suitable_keys(keys, &rules)) {
                return Err(IssuerError::NoSuitableKey { issuer: config.issuer.into() });
            }
            let IssuerConfig { issuer, scope_includes, .. } = config;
            let keeper = IssuerKeys::new(issuer, place, client, Arc::clone(&clock), timing);
            keys.into_iter().for_each(|keys| keeper.store_keys(keys));
            trusted.push(TrustedIssuer { rules, scope_includes, keys: Arc::new(keeper) });
        }
        Ok(Self {
            issuers: trusted,
            verified: VerifiedTokens::new(timing.cache_tokens_for.unsigned_abs()),
            clock,
            timing,
        })
    }

    /// The agent of this token. A verified token is cached for a while; a rejected one is not.
    pub async fn verify_token(&self, text: &str) -> Result<Agent, TokenError> {
        if MAX_TOKEN < text.len() {
            return Err(TokenError::TooLong { limit: MAX_TOKEN });
        }
        let digest = verified_tokens::token_digest(text);
        if let Some(agent) = self.find_verified(&digest) {
            return Ok(agent);
        }
        let mut token = UnverifiedToken::parse(text)?;
        let found = self.issuers.iter().position(|issuer| issuer.rules.name() == token.issuer());
        let place = found.ok_or(TokenError::UnknownIssuer)?;
        let TrustedIssuer { rules, keys: keeper, .. } = &self.issuers[place];
        let mut held = keeper.current_keys().await?;
        let mut verified = token.verify(rules, &held.keys, self.clock.now());
        if verified == Err(TokenError::UnknownKey) {
            held = keeper.keys_newer_than(&held).await.ok_or(TokenError::UnknownKey)?;
            verified = token.verify(rules, &held.keys, self.clock.now());
        }
        let verified = verified?;
        let until = self.cache_until(&verified, rules);
        let agent = Agent::new(verified.subject, Arc::new(verified.claims));
        let generation = held.generation;
        self.verified.insert(
            digest,
            VerifiedAgent { agent: agent.clone(), until, issuer: place, generation },
        );
        Ok(agent)
    }

    /// The agent of a recently verified token, if it is still valid under the same keys.
    fn find_verified(&self, digest: &verified_tokens::TokenDigest) -> Option<Agent> {
        let seen = self.verified.get(digest)?;
        let now = self.clock.now();
        let held: Option<Arc<KeyGeneration>> = self.issuers[seen.issuer].keys.usable_keys(now);
        let same_keys = held.is_some_and(|held| held.generation == seen.generation);
        if !same_keys || seen.until <= now {
            self.verified.remove(digest);
            return None;
        }
        Some(seen.agent.clone())
    }

    /// Adds the scopes that the scopes of an issuer include, transitively.
    pub(crate) fn add_included_scopes(&self, issuer: &str, scopes: &mut BTreeSet<String>) {
        let Some(issuer) = self.issuers.iter().find(|known| known.rules.name() == issuer) else {
            return;
        };
        let mut open: Vec<String> = scopes.iter().cloned().collect();
        while let Some(scope) = open.pop() {
            for included in issuer.scope_includes.get(&*scope).into_iter().flatten() {
                // A scope that is already present was visited or will be, so cycles end.
                if scopes.insert(included.to_string()) {
                    open.push(included.to_string());
                }
            }
        }
    }

    fn cache_until(&self, verified: &VerifiedToken, rules: &Issuer) -> Timestamp {
        let later = |time: Timestamp, by| time.checked_add(by).unwrap_or(Timestamp::MAX);
        let end = later(verified.expires_at, rules.clock_skew());
        end.min(later(self.clock.now(), self.timing.cache_tokens_for))
    }

    /// Fetches the keys of all issuers now, at most once a second, and returns the state of each issuer.
    pub async fn refresh_keys(&self) -> Vec<IssuerState> {
        let mut refreshes = JoinSet::new();
        for issuer in &self.issuers {
            refreshes.spawn(Arc::clone(&issuer.keys).refresh_on_request());
        }
        refreshes.join_all().await;
        self.issuer_states()
    }

    /// The state of each issuer.
    pub fn issuer_states(&self) -> Vec<IssuerState> {
        self.issuers.iter().map(|issuer| issuer.keys.issuer_state()).collect()
    }
}

/// The location of the keys, if they are not in the configuration.
fn key_location(config: &IssuerConfig) -> Result<Option<KeyLocation>, IssuerError> {
    let place = match &config.keys {
        KeySource::Discovery => KeyLocation::from_issuer(&config.issuer)?,
        KeySource::JwksUrl(url) => KeyLocation::Jwks(url.clone()),
        KeySource::JwksFile(path) => KeyLocation::JwksFile(path.clone()),
        KeySource::PemFile(path) => KeyLocation::PemFile(path.clone()),
        KeySource::Jwks(_) | KeySource::Pem(_) | KeySource::Secret(_) => return Ok(None),
    };
    // On plain HTTP, anyone on the network path could substitute keys. To a host allowed by name, the path is the
    // admin's own.
    let is_open = |url: &Url| !config.allow.iter().any(|allowed| allowed.matches_url(url));
    if place.plain_http_url().is_some_and(is_open) {
        return Err(IssuerError::PlainHttp { issuer: config.issuer.to_string() });
    }
    Ok(Some(place))
}

/// Reads keys from a file at start, so that mistakes show at once. An unreachable issuer must not prevent the start.
async fn read_key_file(
    place: &KeyLocation,
    config: &IssuerConfig,
    client: &HttpClient,
    timing: KeyTiming,
) -> Result<Option<KeySet>, IssuerError> {
    match place {
        KeyLocation::Discovery { .. } | KeyLocation::Jwks(_) => Ok(None),
        KeyLocation::JwksFile(_) | KeyLocation::PemFile(_) => {
            let read = place.read_keys(client, timing.deadline).await;
            read.map(Some).map_err(|source| IssuerError::File {
                issuer: config.issuer.to_string(),
                source: Box::new(source),
            })
        }
    }
}

/// The keys in the configuration.
async fn configured_keys(
    config: &IssuerConfig,
    secrets: &SecretStore,
) -> Result<KeySet, IssuerError> {
    let issuer = config.issuer.to_string();
    let keys = match &config.keys {
        KeySource::Jwks(set) => KeySet::from_jwks(set.to_string().as_bytes()),
        KeySource::Pem(text) => KeySet::from_pem(text),
        KeySource::Secret(secret) => match secrets.read_secret(secret).await {
            Ok(value) => KeySet::from_secret(value.expose_secret().as_bytes()),
            Err(source) => return Err(IssuerError::Secret { issuer, source }),
        },
        KeySource::Discovery
        | KeySource::JwksUrl(_)
        | KeySource::JwksFile(_)
        | KeySource::PemFile(_) => Err(InvalidKeySet::NotAKeySet),
    };
    keys.map_err(|source| IssuerError::Keys { issuer, source })
}

/// A secret must be long enough for each of the algorithms; public keys need to suit only one of them.
fn has_suitable_keys(keys: &KeySet, rules: &Issuer) -> bool {
    let mut algorithms = rules.algorithms().iter();
    match rules.algorithms().iter().any(|algorithm| algorithm.needs_secret()) {
        true => algorithms.all(|algorithm| keys.supports_algorithm(*algorithm)),
        false => algorithms.any(|algorithm| keys.supports_algorithm(*algorithm)),
    }
}
