//! Who acts: agents call tools, actors change the catalog.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Claims, Digest};

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
}

impl Agent {
    /// Of whom nobody names a user.
    pub fn new(subject: impl Into<Arc<str>>, claims: Arc<Claims>) -> Self {
        Self { subject: subject.into(), claims, user: None }
    }
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
