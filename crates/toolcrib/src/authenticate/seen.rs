//! Tokens that were verified a moment ago, so that the same one is not verified at every request.
//!
//! A token is known by the digest of all of it: one that shares its beginning or its end, or differs in its signature
//! only, is another token. Only what was verified is kept; what was refused would let strangers fill the memory.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{self, SHA256};
use jiff::Timestamp;
use model::Agent;
use moka::sync::Cache;

/// The most that are remembered.
const LIMIT: u64 = 10_000;
/// What nobody asks for is dropped after this by the machine's own clock, whatever was said about its end.
const AT_MOST: Duration = Duration::from_secs(60 * 60);

pub(super) type Digest = [u8; 32];

pub(super) struct Seen(Cache<Digest, Arc<SeenToken>>);

/// A token that was verified.
pub(super) struct SeenToken {
    pub(super) agent: Agent,
    /// Not longer than the token is valid.
    pub(super) until: Timestamp,
    /// Which of the issuers it is from.
    pub(super) issuer: usize,
    /// Which of its keys it was verified with.
    pub(super) generation: u64,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self(Cache::builder().max_capacity(LIMIT).time_to_live(AT_MOST).build())
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<SeenToken>> {
        self.0.get(digest)
    }

    pub(super) fn put(&self, digest: Digest, token: SeenToken) {
        self.0.insert(digest, Arc::new(token));
    }

    pub(super) fn forget(&self, digest: &Digest) {
        self.0.invalidate(digest);
    }
}

pub(super) fn digest(text: &str) -> Digest {
    let digest = digest::digest(&SHA256, text.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_remembered_than_the_limit() {
        let seen = Seen::new();
        let agent = Agent { subject: "a".into(), claims: Arc::default() };
        for count in 0..3 * LIMIT {
            let token =
                SeenToken { agent: agent.clone(), until: Timestamp::MAX, issuer: 0, generation: 0 };
            seen.put(digest(&count.to_string()), token);
        }
        seen.0.run_pending_tasks();
        assert!(seen.0.entry_count() <= LIMIT, "{}", seen.0.entry_count());
    }
}
