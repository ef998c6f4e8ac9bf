//! Authentication by token: a token becomes an agent or is rejected (requirement A10). There is no default agent.
//!
//! The rules for tokens are in `access`, which does no I/O. This module holds the trusted issuers, keeps their keys
//! fresh, and caches recently verified tokens.

mod config;
mod fetch;
mod keeper;
mod seen;

use std::collections::BTreeSet;
use std::sync::Arc;

use access::{InvalidKeys, Issuer, KeySet, MAX_TOKEN, Token, TokenError, Verified};
use catalog::clock::Clock;
use jiff::Timestamp;
use model::Agent;
use secrecy::ExposeSecret as _;
use tokio::task::JoinSet;
use upstream::http::{HttpClient, Url};

use config::ScopeIncludes;
pub use config::{Audience, IssuerConfig, IssuerError, KeySource};
use fetch::Place;
use keeper::{Held, Keeper};
pub use keeper::{IssuerState, Timing};
use seen::{Seen, SeenToken};

use crate::Secrets;

/// Verifies tokens and turns them into agents.
///
/// ```
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use toolcrib::upstream::{egress::Egress, http::HttpClient};
/// use toolcrib::{Authenticator, IssuerConfig, JournalPlace, Secrets, SystemClock, Timing, TokenError};
///
/// let issuer: IssuerConfig = serde_json::from_str(
///     r#"{"issuer": "https://id.example/realms/main", "audience": "https://tools.example/mcp"}"#,
/// )?;
/// let client = HttpClient::new(Egress::default());
/// let journal = JournalPlace::Memory.open(SystemClock).await?;
/// let secrets = Secrets::new(journal, None, SystemClock, |_| None);
/// let clock = Arc::new(SystemClock);
/// let authenticator =
///     Authenticator::new(vec![issuer], &client, &secrets, clock, Timing::default()).await?;
/// let stranger = authenticator.token("not a token").await;
/// assert!(matches!(stranger, Err(TokenError::Malformed { .. })));
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
/// ```
pub struct Authenticator {
    issuers: Vec<Trusted>,
    seen: Seen,
    clock: Arc<dyn Clock>,
    timing: Timing,
}

struct Trusted {
    rules: Issuer,
    scope_includes: ScopeIncludes,
    keeper: Arc<Keeper>,
}

impl Authenticator {
    /// Trusts these issuers. Keys in the configuration are read now; remote keys are fetched when they are first
    /// needed, or by [`refresh_keys`](Self::refresh_keys).
    pub async fn new(
        issuers: Vec<IssuerConfig>,
        client: &HttpClient,
        secrets: &Secrets,
        clock: Arc<dyn Clock>,
        timing: Timing,
    ) -> Result<Self, IssuerError> {
        let mut trusted: Vec<Trusted> = Vec::new();
        for config in issuers {
            if trusted.iter().any(|other| other.rules.name() == &*config.issuer) {
                return Err(IssuerError::Twice { issuer: config.issuer.into() });
            }
            let rules = config.rules()?;
            let client = match config.allow.is_empty() {
                true => client.clone(),
                false => client.allowing(config.allow.clone()),
            };
            let (place, keys) = match place(&config)? {
                Some(place) => {
                    let keys = read_file(&place, &config, &client, timing).await?;
                    (Some(place), keys)
                }
                None => (None, Some(given(&config, secrets).await?)),
            };
            if keys.as_ref().is_some_and(|keys| !suffice(keys, &rules)) {
                return Err(IssuerError::NoSuitableKey { issuer: config.issuer.into() });
            }
            let IssuerConfig { issuer, scope_includes, .. } = config;
            let keeper = Keeper::new(issuer, place, client, Arc::clone(&clock), timing);
            keys.into_iter().for_each(|keys| keeper.put(keys));
            trusted.push(Trusted { rules, scope_includes, keeper: Arc::new(keeper) });
        }
        Ok(Self {
            issuers: trusted,
            seen: Seen::new(timing.remember.unsigned_abs()),
            clock,
            timing,
        })
    }

    /// The agent of this token. A verified token is cached for a while; a rejected one is not.
    pub async fn token(&self, text: &str) -> Result<Agent, TokenError> {
        if MAX_TOKEN < text.len() {
            return Err(TokenError::TooLong { limit: MAX_TOKEN });
        }
        let digest = seen::digest(text);
        if let Some(agent) = self.remembered(&digest) {
            return Ok(agent);
        }
        let mut token = Token::parse(text)?;
        let found = self.issuers.iter().position(|issuer| issuer.rules.name() == token.issuer());
        let place = found.ok_or(TokenError::UnknownIssuer)?;
        let Trusted { rules, keeper, .. } = &self.issuers[place];
        let mut held = keeper.keys().await?;
        let mut verified = token.verify(rules, &held.keys, self.clock.now());
        if verified == Err(TokenError::UnknownKey) {
            held = keeper.newer_than(&held).await.ok_or(TokenError::UnknownKey)?;
            verified = token.verify(rules, &held.keys, self.clock.now());
        }
        let verified = verified?;
        let until = self.remember_until(&verified, rules);
        let agent = Agent::new(verified.subject, Arc::new(verified.claims));
        let generation = held.generation;
        self.seen.put(digest, SeenToken { agent: agent.clone(), until, issuer: place, generation });
        Ok(agent)
    }

    /// The agent of a recently verified token, if it is still valid under the same keys.
    fn remembered(&self, digest: &seen::Digest) -> Option<Agent> {
        let seen = self.seen.get(digest)?;
        let now = self.clock.now();
        let held: Option<Arc<Held>> = self.issuers[seen.issuer].keeper.usable(now);
        let same_keys = held.is_some_and(|held| held.generation == seen.generation);
        if !same_keys || seen.until <= now {
            self.seen.forget(digest);
            return None;
        }
        Some(seen.agent.clone())
    }

    /// Adds the scopes that the scopes of an issuer include, transitively.
    pub(crate) fn add_included(&self, issuer: &str, scopes: &mut BTreeSet<String>) {
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

    fn remember_until(&self, verified: &Verified, rules: &Issuer) -> Timestamp {
        let later = |time: Timestamp, by| time.checked_add(by).unwrap_or(Timestamp::MAX);
        let end = later(verified.expires_at, rules.skew());
        end.min(later(self.clock.now(), self.timing.remember))
    }

    /// Fetches the keys of all issuers now, at most once a second, and returns the state of each issuer.
    pub async fn refresh_keys(&self) -> Vec<IssuerState> {
        let mut refreshes = JoinSet::new();
        for issuer in &self.issuers {
            refreshes.spawn(Arc::clone(&issuer.keeper).refresh());
        }
        refreshes.join_all().await;
        self.issuers()
    }

    /// The state of each issuer.
    pub fn issuers(&self) -> Vec<IssuerState> {
        self.issuers.iter().map(|issuer| issuer.keeper.state()).collect()
    }
}

/// The location of the keys, if they are not in the configuration.
fn place(config: &IssuerConfig) -> Result<Option<Place>, IssuerError> {
    let place = match &config.keys {
        KeySource::Discovery => Place::discovery(&config.issuer)?,
        KeySource::JwksUrl(url) => Place::Jwks(url.clone()),
        KeySource::JwksFile(path) => Place::JwksFile(path.clone()),
        KeySource::PemFile(path) => Place::PemFile(path.clone()),
        KeySource::Jwks(_) | KeySource::Pem(_) | KeySource::Secret(_) => return Ok(None),
    };
    // On plain HTTP, anyone on the network path could substitute keys. To a host allowed by name, the path is the
    // admin's own.
    let is_open = |url: &Url| !config.allow.iter().any(|allowed| allowed.names(url));
    if place.plain_http().is_some_and(is_open) {
        return Err(IssuerError::PlainHttp { issuer: config.issuer.to_string() });
    }
    Ok(Some(place))
}

/// Reads keys from a file at start, so that mistakes show at once. An unreachable issuer must not prevent the start.
async fn read_file(
    place: &Place,
    config: &IssuerConfig,
    client: &HttpClient,
    timing: Timing,
) -> Result<Option<KeySet>, IssuerError> {
    match place {
        Place::Discovery { .. } | Place::Jwks(_) => Ok(None),
        Place::JwksFile(_) | Place::PemFile(_) => {
            let read = place.read(client, timing.deadline).await;
            read.map(Some).map_err(|source| IssuerError::File {
                issuer: config.issuer.to_string(),
                source: Box::new(source),
            })
        }
    }
}

/// The keys in the configuration.
async fn given(config: &IssuerConfig, secrets: &Secrets) -> Result<KeySet, IssuerError> {
    let issuer = config.issuer.to_string();
    let keys = match &config.keys {
        KeySource::Jwks(set) => KeySet::from_jwks(set.to_string().as_bytes()),
        KeySource::Pem(text) => KeySet::from_pem(text),
        KeySource::Secret(secret) => match secrets.read(secret).await {
            Ok(value) => KeySet::from_secret(value.expose_secret().as_bytes()),
            Err(source) => return Err(IssuerError::Secret { issuer, source }),
        },
        KeySource::Discovery
        | KeySource::JwksUrl(_)
        | KeySource::JwksFile(_)
        | KeySource::PemFile(_) => Err(InvalidKeys::NotAKeySet),
    };
    keys.map_err(|source| IssuerError::Keys { issuer, source })
}

/// A secret must be long enough for each of the algorithms; public keys need to suit only one of them.
fn suffice(keys: &KeySet, rules: &Issuer) -> bool {
    let mut algorithms = rules.algorithms().iter();
    match rules.algorithms().iter().any(|algorithm| algorithm.needs_secret()) {
        true => algorithms.all(|algorithm| keys.suits(*algorithm)),
        false => algorithms.any(|algorithm| keys.suits(*algorithm)),
    }
}
