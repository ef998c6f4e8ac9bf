//! The identity of a caller: a verified token, an API key, or an anonymous caller where those are allowed.

use std::fmt;
use std::sync::Arc;

use access::TokenError;
use catalog::Snapshot;
use catalog::api_key::ApiKey;
use execution::CredentialMask;
use jiff::Timestamp;
use model::header_names::may_be_forwarded;
use model::{Agent, Claims, KeyId};
use provider::RequestProviders;
use secrecy::SecretString;
use serde_json::{Map, Value};
use upstream::http::header::{AUTHORIZATION, HeaderMap};

/// An authenticated caller, and the credential that it presented.
#[derive(Clone, Debug)]
pub struct CallerIdentity {
    /// The agent as policies see it.
    pub agent: Agent,
    /// How the caller authenticated.
    pub auth_method: AuthMethod,
    /// Credentials and headers of the request that may be needed for upstreams.
    pub request_credentials: RequestCredentials,
    /// Code whose tools exist only for this request.
    pub providers: RequestProviders,
}

/// Parts of a request that upstreams may need: the agent's own token, to be exchanged for others, and headers that may
/// be forwarded. It implements neither a revealing `Debug` nor `Serialize`, and the token leaves this crate only for
/// the exchange.
#[derive(Clone, Default)]
pub struct RequestCredentials {
    token: Option<SecretString>,
    key: Option<KeyId>,
    /// Expiry (seconds since 1970) of a token that was removed from here.
    expires_at: Option<f64>,
    headers: Arc<HeaderMap>,
}

impl RequestCredentials {
    /// Holds a verified token.
    pub fn with_token(text: &str) -> Self {
        Self { token: Some(text.into()), ..Self::default() }
    }

    /// A copy without anything that could be forwarded. It still expires with the key or the token.
    pub fn without_credentials(&self, agent: &Agent) -> Self {
        Self { key: self.key.clone(), expires_at: self.token_expiry(agent), ..Self::default() }
    }

    fn token_expiry(&self, agent: &Agent) -> Option<f64> {
        self.expires_at
            .or_else(|| self.token.as_ref().and_then(|_| agent.claims.get("exp")?.as_f64()))
    }

    /// Adds the headers of the request.
    pub fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { headers, ..self }
    }

    /// Whether the key is still valid, and the token has not expired.
    pub fn is_valid_at(&self, snapshot: &Snapshot, agent: &Agent, now: Timestamp) -> bool {
        self.has_valid_key(snapshot, now)
            && self.token_expiry(agent).is_none_or(|end| (now.as_second() as f64) < end)
    }

    /// Whether the key is still valid; tokens cannot be revoked here.
    pub fn has_valid_key(&self, snapshot: &Snapshot, now: Timestamp) -> bool {
        let key = self.key.as_ref();
        key.is_none_or(|id| snapshot.key(id).is_some_and(|key| key.is_valid_at(now)))
    }

    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.token.as_ref()
    }

    /// The headers of these names that may be forwarded: without credential headers, and without any value that repeats
    /// the token or key with which the caller authenticated.
    pub(crate) fn forwardable_headers<'a>(
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
            let opened = CredentialMask::from_secrets(&self.presented_credentials());
            headers.retain(|(_, value)| !opened.occurs_in(value.as_bytes()));
        }
        headers
    }

    /// The credentials with which the caller authenticated. A key is found only in the header that carried it.
    fn presented_credentials(&self) -> Vec<SecretString> {
        let shown = self.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown =
            shown.map(|text| text.split_once(' ').map_or(text, |(_, credential)| credential));
        self.token.iter().cloned().chain(shown.map(SecretString::from)).collect()
    }
}

impl fmt::Debug for RequestCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestCredentials").finish_non_exhaustive()
    }
}

/// How a caller authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthMethod {
    /// A token of a trusted issuer.
    Token,
    /// An API key.
    Key {
        /// The id of the key.
        id: KeyId,
        /// Whether the key itself grants admin rights.
        admin: bool,
    },
    /// No credential, where anonymous callers are allowed.
    Anonymous,
}

/// Why a caller could not be authenticated.
#[derive(Debug, thiserror::Error)]
pub enum AuthenticationError {
    /// The request has no credential.
    #[error("a credential is needed: send `Authorization: Bearer …` with a token or an API key")]
    NoCredential,
    /// No issuer of tokens is configured.
    #[error("no issuer of tokens is trusted here: use an API key")]
    NoIssuer,
    /// The token is rejected.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The key is unknown, revoked or expired.
    #[error("the API key is unknown, revoked or expired")]
    Key,
}

impl CallerIdentity {
    /// A caller without a credential.
    pub fn anonymous() -> Self {
        let claims = Map::from_iter([("anonymous".to_owned(), Value::Bool(true))]);
        let agent = Agent::new("anonymous", Arc::new(Claims::from(claims)));
        Self {
            agent,
            auth_method: AuthMethod::Anonymous,
            request_credentials: RequestCredentials::default(),
            providers: RequestProviders::default(),
        }
    }

    /// The agent that a verified token identifies.
    pub fn from_token(agent: Agent, token: &str) -> Self {
        Self {
            agent,
            auth_method: AuthMethod::Token,
            request_credentials: RequestCredentials::with_token(token),
            providers: RequestProviders::default(),
        }
    }

    /// The holder of this API key.
    pub fn from_api_key(key: &ApiKey) -> Self {
        let claims = Arc::clone(&key.profile.claims);
        let agent = Agent::new(format!("key:{}", key.id), claims);
        let means = AuthMethod::Key { id: key.id.clone(), admin: key.profile.admin };
        Self {
            agent,
            auth_method: means,
            request_credentials: RequestCredentials {
                key: Some(key.id.clone()),
                ..RequestCredentials::default()
            },
            providers: RequestProviders::default(),
        }
    }

    /// Adds the headers of the request.
    pub fn with_headers(self, headers: Arc<HeaderMap>) -> Self {
        Self { request_credentials: self.request_credentials.with_headers(headers), ..self }
    }

    /// Adds code whose tools exist only for this request.
    pub fn with_providers(self, providers: RequestProviders) -> Self {
        Self { providers, ..self }
    }

    /// Sets the user that the surrounding program names.
    pub fn with_user(self, user: Arc<str>) -> Self {
        Self { agent: Agent { user: Some(user), ..self.agent }, ..self }
    }

    /// The identity as it is now, with the user and the providers of the earlier request.
    pub fn continue_request(self, request: &Self) -> Self {
        let agent = Agent { user: request.agent.user.clone(), ..self.agent };
        Self { agent, providers: request.providers.clone(), ..self }
    }

    /// The actor name under which the journal records changes by the caller.
    pub fn actor_name(&self) -> String {
        let subject = &self.agent.subject;
        match &self.auth_method {
            AuthMethod::Key { .. } | AuthMethod::Anonymous => subject.to_string(),
            AuthMethod::Token => match self.agent.issuer() {
                Some(issuer) => format!("token:{issuer}:{subject}"),
                None => format!("token:{subject}"),
            },
        }
    }
}
