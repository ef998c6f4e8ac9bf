//! Keys of a caller: for ownership, and for limits per agent or per person.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use model::Agent;
use serde_json::json;

/// A unique text key of the principal behind an agent.
pub fn principal_key(agent: &Agent) -> Box<str> {
    let known = agent.identity();
    match &agent.user {
        Some(user) => json!((known, user)).to_string().into(),
        None => known.into(),
    }
}

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A hash of the principal, stable while this process runs.
pub fn principal_hash(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.identity(), &agent.user))
}

/// A hash of the subject that an agent acts for, regardless of its client.
pub fn subject_hash(agent: &Agent) -> u64 {
    HASHER.hash_one((agent.issuer(), &agent.subject, &agent.user))
}
