//! Texts of many tools on their way into a lexicon. There each is looked up once, however many have it.

use std::collections::HashMap;
use std::sync::Arc;

use super::postings::Posting;

/// Names a text until the lexicon has given it an id.
pub(super) type Number = u32;

/// Texts, and the tools that have them.
#[derive(Default)]
pub(super) struct Additions {
    numbers: HashMap<Arc<str>, Number>,
    texts: Vec<Arc<str>>,
    /// Of every text in the order of slots.
    postings: Vec<(Number, Posting)>,
}

impl Additions {
    /// The number of a text, a new one if need be. A text that no tool is said to have goes nowhere.
    pub(super) fn number(&mut self, text: &str) -> Number {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = Number::try_from(self.texts.len()).expect("what is too long is cut in time");
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), number);
        self.texts.push(text);
        number
    }

    /// Says that a tool has a text: once of each, and one tool after the other.
    pub(super) fn add(&mut self, number: Number, posting: Posting) {
        self.postings.push((number, posting));
    }

    /// How many texts have a number.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// How much there is to keep.
    pub(super) fn len(&self) -> usize {
        self.texts.len() + self.postings.len()
    }

    /// Calls `each` with every text that somebody has, and with who has it.
    pub(super) fn each(mut self, mut each: impl FnMut(Number, Arc<str>, &[(Number, Posting)])) {
        // Stable: the order of slots stays.
        self.postings.sort_by_key(|(number, _)| *number);
        for run in self.postings.chunk_by(|one, two| one.0 == two.0) {
            if let Some((number, _)) = run.first() {
                each(*number, Arc::clone(&self.texts[*number as usize]), run);
            }
        }
    }
}
