//! The authenticated caller of a tool (`Agent`) and the author of a catalog change (`Actor`).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Claims, Digest};

/// Claims that name the client application a token was issued to, as authorization servers spell them: RFC 9068, OpenID
/// Connect, Okta, Entra v1.
const CLIENT_CLAIMS: [&str; 4] = ["client_id", "azp", "cid", "appid"];
/// The `act` claim: the party that acts for the subject, with its own chain of delegation (RFC 8693).
const ACTOR_CLAIM: &str = "act";

/// The authenticated caller.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The subject, as written to the call log.
    pub subject: Arc<str>,
    /// Verified claims of its token.
    pub claims: Arc<Claims>,
    /// The end user, if the embedding program names one. Policies do not see it. Users with the same token stay
    /// isolated: requests, long-running calls and upstream connections are separated by it.
    pub user: Option<Arc<str>>,
    /// The caller's own claims while an admin tries out another set of claims; `identity` uses these.
    pub caller_claims: Option<Arc<Claims>>,
}

impl Agent {
    /// Makes an agent without a named user.
    pub fn new(subject: impl Into<Arc<str>>, claims: Arc<Claims>) -> Self {
        Self { subject: subject.into(), claims, user: None, caller_claims: None }
    }

    /// A unique string for the caller by its token. It covers the client application as well as the subject.
    pub fn identity(&self) -> String {
        let (by, own) = (CLIENT_CLAIMS.iter().chain([&ACTOR_CLAIM]), self.identity_claims());
        let told = |name: &&str, claim: &Value| match *name {
            ACTOR_CLAIM => actor_identity(claim),
            _ => claim.clone(),
        };
        let by = by.filter_map(|name| Some(((*name).to_owned(), told(name, own.get(name)?))));
        let by = Some(by.collect::<Map<_, _>>()).filter(|by| !by.is_empty());
        // JSON keeps the parts apart, and sorted keys give one spelling: different callers never collide.
        Digest::canonical_json(&json!([own.get("iss"), self.subject, by]))
    }

    /// The client application that the token was issued to, if a claim names it.
    pub fn client(&self) -> Option<&str> {
        CLIENT_CLAIMS.iter().find_map(|name| self.identity_claims().get(name)?.as_str())
    }

    /// The `iss` claim.
    pub fn issuer(&self) -> Option<&str> {
        self.identity_claims().get("iss").and_then(Value::as_str)
    }

    fn identity_claims(&self) -> &Claims {
        self.caller_claims.as_ref().unwrap_or(&self.claims)
    }
}

/// The identifying claims of an actor and of its delegation chain; drops claims such as `iat` that differ per token.
fn actor_identity(claim: &Value) -> Value {
    let Value::Object(members) = claim else { return claim.clone() };
    let names = ["iss", "sub"].into_iter().chain(CLIENT_CLAIMS);
    let own = names.filter_map(|name| Some((name.to_owned(), members.get(name)?.clone())));
    let own: Map<_, _> = own.collect();
    if own.is_empty() {
        // None of the known claims: use the whole claim as the identity.
        return claim.clone();
    }
    let before =
        members.get(ACTOR_CLAIM).map(|before| (ACTOR_CLAIM.to_owned(), actor_identity(before)));
    Value::Object(own.into_iter().chain(before).collect())
}

/// Longest name of an actor, in characters.
const ACTOR_NAME_LIMIT: usize = 200;
/// Separates a shortened or escaped name from its digest.
const DIGEST_SEPARATOR: char = '#';

/// The author of a catalog change: `admin:alice`, `system:refresher`, `cli`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(Arc<str>);

impl Actor {
    /// Turns a name into a single line of at most 200 characters. Different names stay different: control characters
    /// are escaped, and an altered name ends with the start of its digest.
    pub fn new(name: &str) -> Self {
        let escape =
            |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        let line: String = name.chars().map(escape).collect();
        if line.chars().count() <= ACTOR_NAME_LIMIT
            && !line.contains(DIGEST_SEPARATOR)
            && line == name
        {
            return Self(line.into());
        }
        let digest = Digest::of_bytes(name).to_string();
        let (short, digits) = (line.chars().take(ACTOR_NAME_LIMIT - 17), digest.chars().take(16));
        Self(short.chain([DIGEST_SEPARATOR]).chain(digits).collect::<String>().into())
    }

    /// The actor's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_applications_acting_for_one_user_have_different_identities() {
        let agent = |more: Value| {
            let mut claims = Map::from_iter([("iss".to_owned(), json!("https://id.example"))]);
            claims.extend(more.as_object().cloned().unwrap());
            Agent::new("ada", Arc::new(claims.into()))
        };
        let desk = json!({"sub": "desk", "iss": "a"});
        let all = [
            json!({}),
            json!({"client_id": "desk"}),
            json!({"client_id": "phone"}),
            json!({"azp": "phone"}),
            json!({"cid": "desk"}),
            json!({"cid": "phone"}),
            json!({"appid": "desk"}),
            json!({"appid": "phone"}),
            json!({"act": desk}),
            json!({"act": {"sub": "phone", "iss": "a"}}),
            json!({"act": {"sub": "phone", "iss": "a", "act": desk}}),
            json!({"client_id": "desk", "act": desk}),
            json!({"act": {"email": "desk@id.example"}}),
            json!({"act": {"email": "phone@id.example"}}),
        ]
        .map(|claims| agent(claims).identity());
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len(), "{all:?}");
        let turned = agent(json!({"act": {"iss": "a", "sub": "desk"}}));
        assert!(all.contains(&turned.identity()), "the order of members says nothing");
        let again = agent(json!({"act": {"sub": "desk", "iss": "a", "iat": 7, "jti": "x"}}));
        assert_eq!(again.identity(), turned.identity(), "each token has other ones");
        assert_eq!(agent(json!({"cid": "desk", "scope": "a"})).client(), Some("desk"));
    }

    #[test]
    fn names_that_differ_stay_different() {
        assert_eq!(Actor::new("admin:alice").as_str(), "admin:alice");
        let long = "a".repeat(300);
        let names =
            ["alice", "alice\n", "ali\u{7}ce", "\0alice", "alice\\n", &long, &format!("{long}b")];
        let actors: std::collections::BTreeSet<_> =
            names.iter().map(|name| Actor::new(name).as_str().to_owned()).collect();
        assert_eq!(actors.len(), names.len());
        assert!(actors.iter().all(|actor| actor.chars().count() <= ACTOR_NAME_LIMIT));
        assert!(!actors.iter().any(|actor| actor.contains(char::is_control)));
    }
}
