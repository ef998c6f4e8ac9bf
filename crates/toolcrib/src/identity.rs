//! Who is calling: a verified token, an API key, or nobody where that is allowed.

use std::fmt;
use std::sync::Arc;

use access::TokenError;
use catalog::Snapshot;
use catalog::key::Key;
use execution::Mask;
use jiff::Timestamp;
use model::header::may_be_forwarded;
use model::{Agent, Claims, KeyId};
use secrecy::SecretString;
use serde_json::{Map, Value};
use upstream::http::header::{AUTHORIZATION, HeaderMap};

use crate::provider::RequestProviders;

/// An authenticated caller, and what it showed.
#[derive(Clone, Debug)]
pub struct Identity {
    /// What policies see.
    pub agent: Agent,
    /// What was shown.
    pub means: Means,
    /// What else came, for upstreams.
    pub came_with: CameWith,
    /// Code whose tools are only for this request.
    pub providers: RequestProviders,
}

/// What came with a request that may matter to upstreams: the agent's own token, to be exchanged for others, and headers that
/// may be passed on. It can neither be printed nor written down, and the token does not leave this crate but for the
/// exchange.
#[derive(Clone, Default)]
pub struct CameWith {
    token: Option<SecretString>,
    key: Option<KeyId>,
    /// When the token ends that is no longer here, in seconds.
    ends: Option<f64>,
    headers: Arc<HeaderMap>,
}

impl CameWith {
    /// A token that was verified.
    pub fn token_of(text: &str) -> Self {
        Self { token: Some(text.into()), ..Self::default() }
    }

    /// The same without what could be sent on. It ends when the key or the token does.
    pub fn without_credentials(&self, agent: &Agent) -> Self {
        Self { key: self.key.clone(), ends: self.ends(agent), ..Self::default() }
    }

    fn ends(&self, agent: &Agent) -> Option<f64> {
        self.ends.or_else(|| self.token.as_ref().and_then(|_| agent.claims.get("exp")?.as_f64()))
    }

    /// Headers of the request.
    pub fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { headers, ..self }
    }

    /// Whether a key still is a key, and a token has not ended.
    pub(crate) fn is_good_at(&self, snapshot: &Snapshot, agent: &Agent, now: Timestamp) -> bool {
        self.has_good_key(snapshot, now)
            && self.ends(agent).is_none_or(|end| (now.as_second() as f64) < end)
    }

    /// Whether a key still is a key; nobody takes back a token.
    pub(crate) fn has_good_key(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let key = self.key.as_ref();
        key.is_none_or(|id| snapshot.key(id).is_some_and(|key| key.is_good_at(now)))
    }

    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.token.as_ref()
    }

    /// The headers of these names, but for those that may never be passed on: what is one by its name, and what repeats the
    /// token or the key that opened toolcrib.
    pub(crate) fn headers<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        for name in names.into_iter().filter(|name| may_be_forwarded(name)) {
            if let Some(value) = self.headers.get(name).and_then(|value| value.to_str().ok()) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        if !headers.is_empty() {
            let opened = Mask::of(&self.opened_with());
            headers.retain(|(_, value)| !opened.is_in(value.as_bytes()));
        }
        headers
    }

    /// What opened toolcrib. A key is known by nothing but the header that it came in.
    fn opened_with(&self) -> Vec<SecretString> {
        let shown = self.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown =
            shown.map(|text| text.split_once(' ').map_or(text, |(_, credential)| credential));
        self.token.iter().cloned().chain(shown.map(SecretString::from)).collect()
    }
}

impl fmt::Debug for CameWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CameWith").finish_non_exhaustive()
    }
}

/// What a caller showed of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// A token of a known issuer.
    Token,
    /// An API key.
    Key {
        /// Which.
        id: KeyId,
        /// Whether it makes an admin by itself.
        admin: bool,
    },
    /// Nothing, where that is allowed.
    Nothing,
}

/// Why a caller stays outside.
#[derive(Debug, thiserror::Error)]
pub enum NotIdentified {
    /// Nothing was shown.
    #[error("a credential is needed: send `Authorization: Bearer …` with a token or an API key")]
    NoCredential,
    /// No token is taken.
    #[error("no issuer of tokens is trusted here: use an API key")]
    NoIssuer,
    /// The token is refused.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It is not one of our keys, or no longer.
    #[error("the API key is unknown, revoked or expired")]
    Key,
}

impl Identity {
    /// Somebody who showed nothing.
    pub fn anonymous() -> Self {
        let claims = Map::from_iter([("anonymous".to_owned(), Value::Bool(true))]);
        let agent = Agent::new("anonymous", Arc::new(Claims::from(claims)));
        Self {
            agent,
            means: Means::Nothing,
            came_with: CameWith::default(),
            providers: RequestProviders::default(),
        }
    }

    /// Whoever the token speaks of.
    pub(crate) fn of_token(agent: Agent, token: &str) -> Self {
        Self {
            agent,
            means: Means::Token,
            came_with: CameWith::token_of(token),
            providers: RequestProviders::default(),
        }
    }

    /// Whoever holds this key.
    pub(crate) fn of_key(key: &Key) -> Self {
        let claims = Arc::clone(&key.profile.claims);
        let agent = Agent::new(format!("key:{}", key.id), claims);
        let means = Means::Key { id: key.id.clone(), admin: key.profile.admin };
        Self {
            agent,
            means,
            came_with: CameWith { key: Some(key.id.clone()), ..CameWith::default() },
            providers: RequestProviders::default(),
        }
    }

    /// With headers of the request.
    pub fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { came_with: self.came_with.with_headers(headers), ..self }
    }

    /// With code whose tools are only for this request.
    pub fn with_providers(self, providers: RequestProviders) -> Self {
        Self { providers, ..self }
    }

    /// With the user that the program around us names.
    pub fn with_user(self, user: Arc<str>) -> Self {
        Self { agent: Agent { user: Some(user), ..self.agent }, ..self }
    }

    /// Whoever it is now, with what came along for a request of before.
    pub fn going_on_from(self, request: &Self) -> Self {
        let agent = Agent { user: request.agent.user.clone(), ..self.agent };
        Self { agent, providers: request.providers.clone(), ..self }
    }

    /// The name under which the journal records what the caller changes.
    pub fn actor(&self) -> String {
        let subject = &self.agent.subject;
        match &self.means {
            Means::Key { .. } | Means::Nothing => subject.to_string(),
            Means::Token => match self.agent.issuer() {
                Some(issuer) => format!("token:{issuer}:{subject}"),
                None => format!("token:{subject}"),
            },
        }
    }
}
