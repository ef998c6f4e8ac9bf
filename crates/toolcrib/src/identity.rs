//! Who is calling: a verified token, an API key, or nobody where that is allowed.

use std::sync::Arc;

use access::TokenError;
use catalog::key::Key;
use model::{Agent, Claims, KeyId};
use serde_json::{Map, Value};

/// An authenticated caller, and what it showed.
#[derive(Clone, Debug)]
pub struct Identity {
    /// What policies see.
    pub agent: Agent,
    /// What was shown.
    pub means: Means,
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
        let agent = Agent { subject: "anonymous".into(), claims: Arc::new(Claims::from(claims)) };
        Self { agent, means: Means::Nothing }
    }

    /// Whoever the token speaks of.
    pub(crate) fn of_token(agent: Agent) -> Self {
        Self { agent, means: Means::Token }
    }

    /// Whoever holds this key.
    pub(crate) fn of_key(key: &Key) -> Self {
        let claims = Arc::clone(&key.profile.claims);
        let agent = Agent { subject: format!("key:{}", key.id).into(), claims };
        Self { agent, means: Means::Key { id: key.id.clone(), admin: key.profile.admin } }
    }

    /// The name under which the journal records what the caller changes.
    pub fn actor(&self) -> String {
        let subject = &self.agent.subject;
        match &self.means {
            Means::Key { .. } | Means::Nothing => subject.to_string(),
            Means::Token => match self.agent.claims.get("iss").and_then(Value::as_str) {
                Some(issuer) => format!("token:{issuer}:{subject}"),
                None => format!("token:{subject}"),
            },
        }
    }
}
