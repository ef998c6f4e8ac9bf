//! The one place that decides which tools an agent has, and caches the answer for as long as nothing changes.
//!
//! An answer is cached under the claims that policies read and the snapshot's generation. So it cannot be stale: every
//! change of a decision changes the key. The time to live only bounds how long an unused answer stays in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use access::{GrantKey, PolicySet};
use arc_swap::{ArcSwap, Guard};
use catalog::Snapshot;
use catalog::policy::Policy;
use limits::LruCache;
use model::{Claims, GroupId, PolicyId};

use crate::toolset::Toolset;

/// Limits of the cache of resolved toolsets.
#[derive(Clone, Copy, Debug)]
pub struct ToolsetCacheLimits {
    /// How long a resolved toolset stays in the cache. After a change it is never used, however long this is.
    pub time_to_live: Duration,
    /// The size of all resolved toolsets together, in bytes.
    pub max_bytes: u64,
}

impl Default for ToolsetCacheLimits {
    fn default() -> Self {
        Self { time_to_live: Duration::from_secs(300), max_bytes: 128 << 20 }
    }
}

/// Decides which tools agents have.
pub(crate) struct ToolsetResolver {
    compiled: ArcSwap<CompiledPolicies>,
    toolsets: LruCache<(u64, GrantKey), Arc<Toolset>>,
    /// Keyed by the serial of the whole toolset and the group.
    narrowed: LruCache<(u64, GroupId), Arc<Toolset>>,
}

/// The policies of a snapshot, compiled for evaluation.
#[derive(Default)]
struct CompiledPolicies {
    from: Arc<BTreeMap<PolicyId, Arc<Policy>>>,
    policies: PolicySet,
}

impl ToolsetResolver {
    pub(crate) fn new(limits: ToolsetCacheLimits) -> Self {
        let weight = |(_, key): &(u64, GrantKey), toolset: &Arc<Toolset>| {
            u32::try_from(toolset.memory_bytes() + key.memory_size() + 64).unwrap_or(u32::MAX)
        };
        let kept =
            LruCache::with_weight(limits.max_bytes, weight).with_time_to_live(limits.time_to_live);
        let weight = |_: &(u64, GroupId), toolset: &Arc<Toolset>| {
            u32::try_from(toolset.memory_bytes() + 128).unwrap_or(u32::MAX)
        };
        let narrowed = LruCache::with_weight(limits.max_bytes / 4, weight)
            .with_time_to_live(limits.time_to_live);
        Self { compiled: ArcSwap::default(), toolsets: kept, narrowed }
    }

    /// The part of a toolset that belongs to one of its groups.
    pub(crate) fn narrow_to_group(
        &self,
        snapshot: &Snapshot,
        toolset: &Toolset,
        group: &GroupId,
    ) -> Option<Arc<Toolset>> {
        let key = (toolset.serial(), group.clone());
        if let Some(kept) = self.narrowed.get(&key) {
            return Some(kept);
        }
        let part = Arc::new(toolset.narrow_to_group(snapshot, group)?);
        self.narrowed.insert(key, Arc::clone(&part));
        Some(part)
    }

    /// The tools of an agent with these claims.
    pub(crate) fn resolve_toolset(&self, snapshot: &Snapshot, claims: &Claims) -> Arc<Toolset> {
        let compiled = self.current_policies(snapshot);
        let key = (snapshot.generation(), compiled.policies.grant_key(claims));
        self.toolsets.get(&key).unwrap_or_else(|| {
            let toolset =
                Arc::new(Toolset::resolve(snapshot, compiled.policies.resolve_grant(claims)));
            self.toolsets.insert(key, Arc::clone(&toolset));
            toolset
        })
    }

    fn current_policies(&self, snapshot: &Snapshot) -> Guard<Arc<CompiledPolicies>> {
        let now = self.compiled.load();
        if Arc::ptr_eq(&now.from, snapshot.policies_by_id()) {
            return now;
        }
        let fresh = Arc::new(CompiledPolicies::from_snapshot(snapshot));
        self.compiled.store(Arc::clone(&fresh));
        Guard::from_inner(fresh)
    }
}

impl CompiledPolicies {
    fn from_snapshot(snapshot: &Snapshot) -> Self {
        Self { from: Arc::clone(snapshot.policies_by_id()), policies: active_policies(snapshot) }
    }
}

/// The active policies of a snapshot, compiled for evaluation.
pub(crate) fn active_policies(snapshot: &Snapshot) -> PolicySet {
    let active = snapshot.policies().filter(|policy| policy.active);
    PolicySet::compile(active.map(|policy| (&policy.id, &policy.rules)))
}

/// Resolves a toolset without any cache: for past snapshots, and for hypothetical ones.
pub(crate) fn resolve_uncached(snapshot: &Snapshot, claims: &Claims) -> Toolset {
    Toolset::resolve(snapshot, active_policies(snapshot).resolve_grant(claims))
}

/// Resolves a toolset without any cache, including the tools of its groups that are not served.
pub(crate) fn resolve_with_unserved(snapshot: &Snapshot, claims: &Claims) -> Toolset {
    let all = snapshot.tools().map(|entry| entry.slot).collect();
    Toolset::resolve_within(snapshot, active_policies(snapshot).resolve_grant(claims), &all)
}
