//! Usage hints: a tool that an agent called after a search ranks higher in similar searches. Off by default.
//!
//! Hints are kept per identity: the searches and calls of one agent do not affect another. Nothing is persisted, words
//! are kept as hashes, and everything is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use limits::LruCache;
use model::{Agent, ToolId};
use search::query_stems;

use crate::search_hit::{ToolHit, round_score};

/// Maximum number of identities, and how long they are kept after the last search.
const MAX_IDENTITIES: u64 = 2_000;
const IDLE_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of uses per identity.
const MAX_USES: usize = 64;
/// Maximum time between a search and a call that belongs to it.
const MAX_TIME_TO_CALL: Duration = Duration::from_secs(10 * 60);
/// The share of the missing score that is added for an identical query.
const BOOST_SHARE: f64 = 0.3;
/// Minimum similarity (Jaccard index) of two queries for a boost.
const MIN_SIMILARITY: f64 = 0.5;

/// The calls that agents made after their searches.
pub(crate) struct UsageHints {
    habits: LruCache<Box<str>, Arc<Mutex<AgentHabits>>>,
    hasher: RandomState,
}

type WordHashes = BTreeSet<u64>;

/// The hints of one identity.
#[derive(Default)]
struct AgentHabits {
    /// The words, time and hits of the last search.
    last_search: Option<(WordHashes, Instant, Vec<ToolId>)>,
    /// Queries with the tool that was called after them, newest last.
    uses: VecDeque<(WordHashes, ToolId)>,
}

impl Default for UsageHints {
    fn default() -> Self {
        let habits = LruCache::new(MAX_IDENTITIES).with_idle_timeout(IDLE_TTL);
        Self { habits, hasher: RandomState::new() }
    }
}

impl UsageHints {
    /// Raises the hits that the agent used after similar queries, and remembers this query. A query of a single word
    /// gets no boost: there, the ranking itself decides.
    pub(crate) fn boost_hits(&self, agent: &Agent, query: &str, hits: &mut [ToolHit]) {
        let Some(who) = agent_identity(agent) else { return };
        let words = self.hash_words(query);
        let habits = self.habits.get_with(who, Arc::default);
        let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
        if query.contains(char::is_whitespace) {
            for hit in hits.iter_mut() {
                let share = habits.usage_similarity(&words, &hit.tool.reported_id());
                hit.score = round_score(hit.score + (1.0 - hit.score) * BOOST_SHARE * share);
            }
            hits.sort_by(|one, two| two.score.total_cmp(&one.score));
        }
        let found = hits.iter().map(|hit| hit.tool.reported_id()).collect();
        habits.last_search = Some((words, Instant::now(), found));
    }

    /// Records a successful call.
    pub(crate) fn record_use(&self, agent: &Agent, tool: &ToolId) {
        let Some(habits) = agent_identity(agent).and_then(|who| self.habits.get(&who)) else {
            return;
        };
        let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((words, at, found)) = &habits.last_search else { return };
        if MAX_TIME_TO_CALL < at.elapsed() || !found.contains(tool) {
            return;
        }
        let used = (words.clone(), tool.clone());
        habits.uses.retain(|other| *other != used);
        if MAX_USES <= habits.uses.len() {
            habits.uses.pop_front();
        }
        habits.uses.push_back(used);
    }

    fn hash_words(&self, query: &str) -> WordHashes {
        query_stems(query).iter().map(|word| self.hasher.hash_one(word)).collect()
    }
}

impl AgentHabits {
    /// The highest similarity to an earlier query after which the tool was called.
    fn usage_similarity(&self, words: &WordHashes, tool: &ToolId) -> f64 {
        let of_tool = self.uses.iter().filter(|(_, used)| used == tool);
        let shares = of_tool.map(|(other, _)| {
            let shared = words.intersection(other).count() as f64;
            shared / words.union(other).count().max(1) as f64
        });
        shares.filter(|share| MIN_SIMILARITY <= *share).fold(0.0, f64::max)
    }
}

/// The identity of an agent across all issuers; `None` for anonymous agents, which are indistinguishable.
fn agent_identity(agent: &Agent) -> Option<Box<str>> {
    if agent.claims.get("anonymous").is_some() {
        return None;
    }
    Some(format!("{}\n{}", agent.issuer().unwrap_or_default(), agent.subject).into())
}
