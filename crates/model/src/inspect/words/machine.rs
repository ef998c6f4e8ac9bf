//! Which signs are in a text, found in one pass for all of them.
//!
//! A set of expressions of the crate `regex` would do the same with three times the memory: it keeps machines for questions
//! that are never asked here.

use std::sync::{LazyLock, Mutex, PoisonError};

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Room for its states: with less it would make the same ones again and again.
const STATES: usize = 32 << 20;
/// What was worked with is kept for so many who come next.
const KEPT: usize = 2;

pub(super) struct Machine {
    states: LazyLock<DFA>,
    kept: Mutex<Vec<Cache>>,
}

impl Machine {
    pub(super) const fn new(make: fn() -> DFA) -> Self {
        Self { states: LazyLock::new(make), kept: Mutex::new(Vec::new()) }
    }

    /// One for expressions over bytes.
    pub(super) fn of(expressions: &[String]) -> DFA {
        let made = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::All).cache_capacity(STATES))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false).which_captures(WhichCaptures::None))
            .build_many(expressions);
        made.expect("the signs are regular expressions")
    }

    /// The numbers of those that are in a text.
    pub(super) fn matches(&self, text: &[u8]) -> Vec<usize> {
        let states = &*self.states;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut cache = kept.unwrap_or_else(|| states.create_cache());
        let mut found = PatternSet::new(states.pattern_len());
        states
            .try_which_overlapping_matches(&mut cache, &Input::new(text), &mut found)
            .expect("it neither quits nor gives up");
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.push(cache);
        }
        drop(kept);
        found.iter().map(|pattern| pattern.as_usize()).collect()
    }
}
