//! A cache of recently verified tokens, so that the same token is not verified at every request.
//!
//! The key is the digest of the whole token: one that shares a prefix or suffix, or differs only in its signature, is a
//! different token. Only verified tokens are cached; rejected ones would let strangers fill the memory.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use aws_lc_rs::digest::SHA256;
use jiff::Timestamp;
use limits::LruCache;
use model::Agent;
use serde_json::Value;

/// The approximate memory limit of the cache, in bytes.
const MAX_CACHE_BYTES: u64 = 64 << 20;
/// The approximate overhead of a value beside its text, in bytes.
const VALUE_OVERHEAD: usize = 80;

pub(super) type TokenDigest = [u8; 32];

pub(super) struct VerifiedTokens(LruCache<TokenDigest, Arc<VerifiedAgent>>);

/// The cached result of verifying a token.
pub(super) struct VerifiedAgent {
    pub(super) agent: Agent,
    /// At most until the token expires.
    pub(super) until: Timestamp,
    /// The index of its issuer.
    pub(super) issuer: usize,
    /// The generation of the issuer's keys that verified it.
    pub(super) generation: u64,
}

impl VerifiedTokens {
    /// Keeps each entry for at most this long, measured by the machine's monotonic clock.
    pub(super) fn new(time_to_live: Duration) -> Self {
        let weight = |_: &TokenDigest, token: &Arc<VerifiedAgent>| {
            let claims =
                token.agent.claims.iter().map(|(name, value)| name.len() + claim_bytes(value));
            u32::try_from(claims.sum::<usize>() + 4 * VALUE_OVERHEAD).unwrap_or(u32::MAX)
        };
        Self(LruCache::with_weight(MAX_CACHE_BYTES, weight).with_time_to_live(time_to_live))
    }

    pub(super) fn get(&self, digest: &TokenDigest) -> Option<Arc<VerifiedAgent>> {
        self.0.get(digest)
    }

    pub(super) fn insert(&self, digest: TokenDigest, token: VerifiedAgent) {
        self.0.insert(digest, Arc::new(token));
    }

    pub(super) fn remove(&self, digest: &TokenDigest) {
        self.0.remove(digest);
    }
}

fn claim_bytes(value: &Value) -> usize {
    VALUE_OVERHEAD
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(elements) => elements.iter().map(claim_bytes).sum(),
            Value::Object(members) => members
                .iter()
                .map(|(name, value)| VALUE_OVERHEAD + name.len() + claim_bytes(value))
                .sum(),
        }
}

pub(super) fn token_digest(text: &str) -> TokenDigest {
    let digest = digest::digest(&SHA256, text.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_by_memory() {
        let seen = VerifiedTokens::new(Duration::from_secs(60));
        let many = serde_json::json!({"groups": vec![0; 8_000]});
        let claims: Arc<model::Claims> = Arc::new(serde_json::from_value(many).unwrap());
        let agent = Agent::new("a", claims);
        for count in 0..1_000 {
            let token = VerifiedAgent {
                agent: agent.clone(),
                until: Timestamp::MAX,
                issuer: 0,
                generation: 0,
            };
            seen.insert(token_digest(&count.to_string()), token);
        }
        let kept = seen.0.entries().len() as u64;
        assert!(kept <= MAX_CACHE_BYTES / (8_000 * VALUE_OVERHEAD as u64), "{kept}");
    }
}
