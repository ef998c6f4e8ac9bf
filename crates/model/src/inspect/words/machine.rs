//! Matches many expressions in one pass with a lazy DFA.
//!
//! `regex::bytes::RegexSet` would take three times the memory, for automata that are never used here. This one is built
//! on first use and can be released.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Cache capacity of the lazy DFA in bytes; a smaller cache would rebuild the same states repeatedly.
const STATES: usize = 32 << 20;
/// Number of idle caches that are kept for reuse.
const KEPT: usize = 2;

pub(super) struct Machine {
    expressions: fn() -> Vec<String>,
    made: Mutex<Option<Made>>,
    is_used: AtomicBool,
}

struct Made {
    states: Arc<DFA>,
    kept: Vec<Cache>,
}

impl Machine {
    /// A matcher for expressions over bytes; compiles nothing yet.
    pub(super) const fn new(expressions: fn() -> Vec<String>) -> Self {
        Self { expressions, made: Mutex::new(None), is_used: AtomicBool::new(false) }
    }

    /// The indexes of the expressions that match somewhere in a text.
    pub(super) fn matches(&self, text: &[u8]) -> Vec<usize> {
        self.is_used.store(true, Relaxed);
        let (states, kept) = {
            let mut made = self.made();
            let made = made.get_or_insert_with(|| Made::of(&(self.expressions)()));
            (Arc::clone(&made.states), made.kept.pop())
        };
        let mut cache = kept.unwrap_or_else(|| states.create_cache());
        let mut found = PatternSet::new(states.pattern_len());
        states
            .try_which_overlapping_matches(&mut cache, &Input::new(text), &mut found)
            .expect("it neither quits nor gives up");
        if let Some(made) = self.made().as_mut().filter(|made| Arc::ptr_eq(&made.states, &states))
            && made.kept.len() < KEPT
        {
            made.kept.push(cache);
        }
        found.iter().map(|pattern| pattern.as_usize()).collect()
    }

    /// Releases the automaton if it was not used since the last call.
    pub(super) fn rest(&self) {
        if !self.is_used.swap(false, Relaxed) {
            *self.made() = None;
        }
    }

    fn made(&self) -> MutexGuard<'_, Option<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Made {
    fn of(expressions: &[String]) -> Self {
        let made = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::All).cache_capacity(STATES))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false).which_captures(WhichCaptures::None))
            .build_many(expressions);
        let states = Arc::new(made.expect("the signs are regular expressions"));
        Self { states, kept: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_rebuilt_after_a_release() {
        static WORDS: Machine = Machine::new(|| vec!["ab".to_owned(), "b+".to_owned()]);
        assert_eq!(WORDS.matches(b"xabbx"), [0, 1]);
        WORDS.rest();
        assert!(WORDS.made().is_some(), "it was used a moment ago");
        WORDS.rest();
        assert!(WORDS.made().is_none());
        assert_eq!(WORDS.matches(b"b"), [1]);
    }
}
