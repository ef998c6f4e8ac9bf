//! Matches many expressions in one pass with a lazy DFA.
//!
//! `regex::bytes::RegexSet` would take three times the memory, for automata that are never used here. This one is built
//! on first use and can be released.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind, PatternSet};

/// Cache capacity of the lazy DFA in bytes; a smaller cache would rebuild the same states repeatedly.
const CACHE_CAPACITY: usize = 32 << 20;
/// Number of idle caches that are kept for reuse.
const IDLE_CACHES: usize = 2;

pub(super) struct MultiPatternMatcher {
    expressions: fn() -> Vec<String>,
    compiled: Mutex<Option<CompiledPatterns>>,
    is_used: AtomicBool,
}

struct CompiledPatterns {
    automaton: Arc<DFA>,
    idle_caches: Vec<Cache>,
}

impl MultiPatternMatcher {
    /// A matcher for expressions over bytes; compiles nothing yet.
    pub(super) const fn new(expressions: fn() -> Vec<String>) -> Self {
        Self { expressions, compiled: Mutex::new(None), is_used: AtomicBool::new(false) }
    }

    /// The indexes of the expressions that match somewhere in a text.
    pub(super) fn matches(&self, text: &[u8]) -> Vec<usize> {
        self.is_used.store(true, Relaxed);
        let (states, kept) = {
            let mut made = self.lock_compiled();
            let made = made.get_or_insert_with(|| CompiledPatterns::compile(&(self.expressions)()));
            (Arc::clone(&made.automaton), made.idle_caches.pop())
        };
        let mut cache = kept.unwrap_or_else(|| states.create_cache());
        let mut found = PatternSet::new(states.pattern_len());
        states
            .try_which_overlapping_matches(&mut cache, &Input::new(text), &mut found)
            .expect("it neither quits nor gives up");
        if let Some(made) =
            self.lock_compiled().as_mut().filter(|made| Arc::ptr_eq(&made.automaton, &states))
            && made.idle_caches.len() < IDLE_CACHES
        {
            made.idle_caches.push(cache);
        }
        found.iter().map(|pattern| pattern.as_usize()).collect()
    }

    /// Releases the automaton if it was not used since the last call.
    pub(super) fn release_if_unused(&self) {
        if !self.is_used.swap(false, Relaxed) {
            *self.lock_compiled() = None;
        }
    }

    fn lock_compiled(&self) -> MutexGuard<'_, Option<CompiledPatterns>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompiledPatterns {
    fn compile(expressions: &[String]) -> Self {
        let made = DFA::builder()
            .configure(DFA::config().match_kind(MatchKind::All).cache_capacity(CACHE_CAPACITY))
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .thompson(thompson::Config::new().utf8(false).which_captures(WhichCaptures::None))
            .build_many(expressions);
        let states = Arc::new(made.expect("the signs are regular expressions"));
        Self { automaton: states, idle_caches: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_rebuilt_after_a_release() {
        static WORDS: MultiPatternMatcher =
            MultiPatternMatcher::new(|| vec!["ab".to_owned(), "b+".to_owned()]);
        assert_eq!(WORDS.matches(b"xabbx"), [0, 1]);
        WORDS.release_if_unused();
        assert!(WORDS.lock_compiled().is_some(), "it was used a moment ago");
        WORDS.release_if_unused();
        assert!(WORDS.lock_compiled().is_none());
        assert_eq!(WORDS.matches(b"b"), [1]);
    }
}
