//! Search among an agent's own tools, by the table of requirement A7.
//!
//! Nothing outside the toolset is looked at, so nothing about it can be learnt from what is found, how often or how fast.

use std::time::Instant;

use execution::distance;
use model::Visibility;

use super::{AgentView, ViewedTool};

/// How much of a query counts.
const LETTERS: usize = 1_000;
const WORDS: usize = 32;
/// The most that is found at once.
const MOST: usize = 100;
/// Words less alike than this are not alike.
const ALIKE: f64 = 0.6;
/// What a word that is nearly right is worth, times how alike it is.
const FUZZY: f64 = 0.4;

/// A tool that was found.
#[derive(Clone)]
pub struct Hit {
    /// Which.
    pub tool: ViewedTool,
    /// How well it fits, from 0 to 1.
    pub score: f64,
}

impl AgentView {
    /// The listed and the searchable tools that fit, best first. An empty query finds them all.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit> {
        let start = Instant::now();
        let query: String = query.trim().chars().take(LETTERS).collect();
        let query = query.to_lowercase();
        let mut found: Vec<Hit> = self
            .searchable()
            .map(|tool| Hit { score: score(&query, &tool), tool })
            .filter(|hit| query.is_empty() || 0.0 < hit.score)
            .collect();
        // The tools come in a fixed order, and a sort that is stable keeps it among equals.
        found.sort_by(|one, two| two.score.total_cmp(&one.score));
        found.truncate(limit.min(MOST));
        self.crib.telemetry().searched(found.len(), start.elapsed());
        found
    }

    fn searchable(&self) -> impl Iterator<Item = ViewedTool> {
        let tools = self.toolset.tools().iter().filter(|slot| {
            self.toolset.visibility(*slot).is_some_and(|seen| seen != Visibility::Hidden)
        });
        let mut tools: Vec<_> = tools.filter_map(|slot| self.snapshot.tool_at(slot)).collect();
        tools.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
        tools.into_iter().map(|entry| self.viewed(entry)).chain(self.provided())
    }
}

/// The mean of the scores of its words.
fn score(query: &str, tool: &ViewedTool) -> f64 {
    let name = tool.name().to_lowercase();
    let description = tool.description().to_lowercase();
    let keywords: Vec<String> = tool.keywords().iter().map(|word| word.to_lowercase()).collect();
    let words: Vec<&str> = query.split_whitespace().take(WORDS).collect();
    let scores = words.iter().map(|word| word_score(word, &name, &keywords, &description));
    scores.sum::<f64>() / words.len().max(1) as f64
}

fn word_score(word: &str, name: &str, keywords: &[String], description: &str) -> f64 {
    let in_description = || description.split(|c: char| !c.is_alphanumeric()).any(|w| w == word);
    if name == word {
        1.0
    } else if name.starts_with(word) {
        0.9
    } else if keywords.iter().any(|keyword| keyword == word) {
        0.85
    } else if name.contains(word) {
        0.8
    } else if keywords.iter().any(|keyword| keyword.contains(word)) {
        0.7
    } else if in_description() {
        0.6
    } else if description.contains(word) {
        0.5
    } else {
        let (here, there) = (word.chars().count(), name.chars().count());
        let longer = here.max(there).max(1);
        // What differs so much in length cannot be alike.
        if (longer - here.min(there)) as f64 > (1.0 - ALIKE) * longer as f64 {
            return 0.0;
        }
        let alike = 1.0 - distance(word, name) as f64 / longer as f64;
        if alike < ALIKE { 0.0 } else { FUZZY * alike }
    }
}
