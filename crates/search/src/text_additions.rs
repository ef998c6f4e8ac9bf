//! Texts of many tools, collected for a lexicon, which then looks up each text once, however many tools have it.

use std::collections::HashMap;
use std::sync::Arc;

use super::postings::ToolPosting;

/// Identifies a text until the lexicon assigns its id.
pub(super) type TextNumber = u32;

/// Texts with the tools that have them.
#[derive(Default)]
pub(super) struct TextAdditions {
    numbers: HashMap<Arc<str>, TextNumber>,
    texts: Vec<Arc<str>>,
    /// Postings of all texts; those of one text are in the order of slots.
    postings: Vec<(TextNumber, ToolPosting)>,
}

impl TextAdditions {
    /// The number of a text, new if necessary. A text without postings is not added to the lexicon.
    pub(super) fn number_of(&mut self, text: &str) -> TextNumber {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number =
            TextNumber::try_from(self.texts.len()).expect("what is too long is cut in time");
        let text: Arc<str> = text.into();
        self.numbers.insert(Arc::clone(&text), number);
        self.texts.push(text);
        number
    }

    /// Records that a tool has a text. Callers add each pair once and complete one tool before the next.
    pub(super) fn add_posting(&mut self, number: TextNumber, posting: ToolPosting) {
        self.postings.push((number, posting));
    }

    /// Number of different texts.
    pub(super) fn text_count(&self) -> usize {
        self.texts.len()
    }

    /// Number of texts and postings.
    pub(super) fn len(&self) -> usize {
        self.texts.len() + self.postings.len()
    }

    /// Calls `each` with every text that has postings, and with these.
    pub(super) fn for_each_text(
        mut self,
        mut each: impl FnMut(TextNumber, Arc<str>, &[(TextNumber, ToolPosting)]),
    ) {
        // The sort is stable, so the order of slots is kept.
        self.postings.sort_by_key(|(number, _)| *number);
        for run in self.postings.chunk_by(|one, two| one.0 == two.0) {
            if let Some((number, _)) = run.first() {
                each(*number, Arc::clone(&self.texts[*number as usize]), run);
            }
        }
    }
}
