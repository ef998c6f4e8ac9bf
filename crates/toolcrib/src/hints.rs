//! Usage hints: a tool that an agent called after a search ranks higher in similar searches. Off by default.
//!
//! Hints are kept per identity: the searches and calls of one agent do not affect another. Nothing is persisted, words
//! are kept as hashes, and everything is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::search::gist;
use model::{Agent, Cache, ToolId};

use crate::view::{Hit, rounded};

/// Maximum number of identities, and how long they are kept after the last search.
const IDENTITIES: u64 = 2_000;
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Maximum number of uses per identity.
const USES: usize = 64;
/// Maximum time between a search and a call that belongs to it.
const AFTER: Duration = Duration::from_secs(10 * 60);
/// The share of the missing score that is added for an identical query.
const WORTH: f64 = 0.3;
/// Minimum similarity (Jaccard index) of two queries for a boost.
const ALIKE: f64 = 0.5;

/// The calls that agents made after their searches.
pub(crate) struct Hints {
    habits: Cache<Box<str>, Arc<Mutex<Habits>>>,
    hasher: RandomState,
}

type Words = BTreeSet<u64>;

/// The hints of one identity.
#[derive(Default)]
struct Habits {
    /// The words, time and hits of the last search.
    asked: Option<(Words, Instant, Vec<ToolId>)>,
    /// Queries with the tool that was called after them, newest last.
    uses: VecDeque<(Words, ToolId)>,
}

impl Default for Hints {
    fn default() -> Self {
        let habits = Cache::new(IDENTITIES).lasting_unused(REMEMBERED);
        Self { habits, hasher: RandomState::new() }
    }
}

impl Hints {
    /// Raises the hits that the agent used after similar queries, and remembers this query. A query of a single word
    /// gets no boost: there, the ranking itself decides.
    pub(crate) fn apply(&self, agent: &Agent, query: &str, hits: &mut [Hit]) {
        let Some(who) = identity(agent) else { return };
        let words = self.words(query);
        let habits = self.habits.get_with(who, Arc::default);
        let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
        if query.contains(char::is_whitespace) {
            for hit in hits.iter_mut() {
                let share = habits.share(&words, &hit.tool.known_as());
                hit.score = rounded(hit.score + (1.0 - hit.score) * WORTH * share);
            }
            hits.sort_by(|one, two| two.score.total_cmp(&one.score));
        }
        let found = hits.iter().map(|hit| hit.tool.known_as()).collect();
        habits.asked = Some((words, Instant::now(), found));
    }

    /// Records a successful call.
    pub(crate) fn used(&self, agent: &Agent, tool: &ToolId) {
        let Some(habits) = identity(agent).and_then(|who| self.habits.get(&who)) else { return };
        let mut habits = habits.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((words, at, found)) = &habits.asked else { return };
        if AFTER < at.elapsed() || !found.contains(tool) {
            return;
        }
        let used = (words.clone(), tool.clone());
        habits.uses.retain(|other| *other != used);
        if USES <= habits.uses.len() {
            habits.uses.pop_front();
        }
        habits.uses.push_back(used);
    }

    fn words(&self, query: &str) -> Words {
        gist(query).iter().map(|word| self.hasher.hash_one(word)).collect()
    }
}

impl Habits {
    /// The highest similarity to an earlier query after which the tool was called.
    fn share(&self, words: &Words, tool: &ToolId) -> f64 {
        let of_tool = self.uses.iter().filter(|(_, used)| used == tool);
        let shares = of_tool.map(|(other, _)| {
            let shared = words.intersection(other).count() as f64;
            shared / words.union(other).count().max(1) as f64
        });
        shares.filter(|share| ALIKE <= *share).fold(0.0, f64::max)
    }
}

/// The identity of an agent across all issuers; `None` for anonymous agents, which are indistinguishable.
fn identity(agent: &Agent) -> Option<Box<str>> {
    if agent.claims.get("anonymous").is_some() {
        return None;
    }
    Some(format!("{}\n{}", agent.issuer().unwrap_or_default(), agent.subject).into())
}
