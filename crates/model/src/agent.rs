//! Who acts: agents call tools, actors change the catalog.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Claims, Digest};

/// The claims that name the application that a token was given to, as authorization servers call them: RFC 9068, OpenID
/// Connect, Okta, the first version of Entra.
const CLIENT: [&str; 4] = ["client_id", "azp", "cid", "appid"];
/// Who acts for the subject, with all whom they act for in turn (RFC 8693).
const ACTOR: &str = "act";

/// The authenticated caller.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Who it is, for the record.
    pub subject: Arc<str>,
    /// Verified content of its token.
    pub claims: Arc<Claims>,
    /// Which of its users the program around us names, if it does. No policy sees it; it keeps what goes on during a request
    /// and after it, here and at upstreams, from others who show the same.
    pub user: Option<Arc<str>>,
    /// The claims that say who it is, if it tries what somebody with others has.
    pub named_by: Option<Arc<Claims>>,
}

impl Agent {
    /// Of whom nobody names a user.
    pub fn new(subject: impl Into<Arc<str>>, claims: Arc<Claims>) -> Self {
        Self { subject: subject.into(), claims, user: None, named_by: None }
    }

    /// Who it is by its token, in one word that nobody else has. The application counts as well as whom it acts for.
    pub fn identity(&self) -> String {
        let (by, own) = (CLIENT.iter().chain([&ACTOR]), self.own());
        let told = |name: &&str, claim: &Value| match *name {
            ACTOR => actor(claim),
            _ => claim.clone(),
        };
        let by = by.filter_map(|name| Some(((*name).to_owned(), told(name, own.get(name)?))));
        let by = Some(by.collect::<Map<_, _>>()).filter(|by| !by.is_empty());
        // As JSON, so that no two can be written alike, and one in one way alone.
        Digest::sorted(&json!([own.get("iss"), self.subject, by]))
    }

    /// The application that its token was given to, if that says so.
    pub fn client(&self) -> Option<&str> {
        CLIENT.iter().find_map(|name| self.own().get(name)?.as_str())
    }

    /// Whoever said all that.
    pub fn issuer(&self) -> Option<&str> {
        self.own().get("iss").and_then(Value::as_str)
    }

    fn own(&self) -> &Claims {
        self.named_by.as_ref().unwrap_or(&self.claims)
    }
}

/// What of an actor says who it is, with those it acts for in turn: when it signed in is new with each token.
fn actor(claim: &Value) -> Value {
    let Value::Object(members) = claim else { return claim.clone() };
    let names = ["iss", "sub"].into_iter().chain(CLIENT);
    let own = names.filter_map(|name| Some((name.to_owned(), members.get(name)?.clone())));
    let own: Map<_, _> = own.collect();
    if own.is_empty() {
        // It says who it is in words of its own.
        return claim.clone();
    }
    let before = members.get(ACTOR).map(|before| (ACTOR.to_owned(), actor(before)));
    Value::Object(own.into_iter().chain(before).collect())
}

/// The longest name of an actor, in characters.
const LIMIT: usize = 200;
/// Stands before the digest of a name that could not be taken as it is.
const CUT: char = '#';

/// Who changed the catalog: `admin:alice`, `system:refresher`, `cli`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(Arc<str>);

impl Actor {
    /// Takes a name on one line, of at most 200 characters. Two names that differ stay different: control characters are
    /// written out, and what is cut is told by its digest.
    pub fn new(name: &str) -> Self {
        let escape =
            |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
        let line: String = name.chars().map(escape).collect();
        if line.chars().count() <= LIMIT && !line.contains(CUT) && line == name {
            return Self(line.into());
        }
        let digest = Digest::of(name).to_string();
        let (short, digits) = (line.chars().take(LIMIT - 17), digest.chars().take(16));
        Self(short.chain([CUT]).chain(digits).collect::<String>().into())
    }

    /// The name.
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
    fn applications_that_act_for_one_user_are_two_whatever_their_claim_is_called() {
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
        assert!(actors.iter().all(|actor| actor.chars().count() <= LIMIT));
        assert!(!actors.iter().any(|actor| actor.contains(char::is_control)));
    }
}
