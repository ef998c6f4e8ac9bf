//! Hints: what an agent executed after it had searched, it finds sooner the next time. Off unless an operator wants it.
//!
//! Each identity is for itself: nothing of what one agent asks or does makes a difference to another. Nothing is written
//! down, words are kept as hashes, and all of it is bounded.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use catalog::search::gist;
use model::{Agent, Cache, ToolId};

use crate::view::{Hit, rounded};

/// How many identities are remembered, and for how long after the last search.
const IDENTITIES: u64 = 2_000;
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many uses of each.
const USES: usize = 64;
/// How long after a search a call has to do with it.
const AFTER: Duration = Duration::from_secs(10 * 60);
/// Which part of what a score lacks is added, for the very same question.
const WORTH: f64 = 0.3;
/// Questions with less in common have nothing to do with each other.
const ALIKE: f64 = 0.5;

/// What agents executed after they had searched.
pub(crate) struct Hints {
    habits: Cache<Box<str>, Arc<Mutex<Habits>>>,
    hasher: RandomState,
}

type Words = BTreeSet<u64>;

/// Of one identity.
#[derive(Default)]
struct Habits {
    /// What was asked last, when, and what was found.
    asked: Option<(Words, Instant, Vec<ToolId>)>,
    /// The newest last.
    uses: VecDeque<(Words, ToolId)>,
}

impl Default for Hints {
    fn default() -> Self {
        let habits = Cache::new(IDENTITIES).lasting_unused(REMEMBERED);
        Self { habits, hasher: RandomState::new() }
    }
}

impl Hints {
    /// Raises what the agent used after similar questions, and keeps this one in mind. A question of one word is worth
    /// what the table says.
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

    /// A tool did what it was called for.
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
    /// How much the most similar question had in common after which the tool was used.
    fn share(&self, words: &Words, tool: &ToolId) -> f64 {
        let of_tool = self.uses.iter().filter(|(_, used)| used == tool);
        let shares = of_tool.map(|(other, _)| {
            let shared = words.intersection(other).count() as f64;
            shared / words.union(other).count().max(1) as f64
        });
        shares.filter(|share| ALIKE <= *share).fold(0.0, f64::max)
    }
}

/// Who it is, among all issuers. Those who show nothing are nobody in particular.
fn identity(agent: &Agent) -> Option<Box<str>> {
    if agent.claims.get("anonymous").is_some() {
        return None;
    }
    Some(format!("{}\n{}", agent.issuer().unwrap_or_default(), agent.subject).into())
}
