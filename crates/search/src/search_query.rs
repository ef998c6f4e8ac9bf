//! A parsed query within size limits: its significant words, each once.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::word_splitting::for_each_word;

/// Upper bounds for the characters and words of a query; the rest is ignored.
const QUERY_CHARACTERS: usize = 4_000;
const QUERY_WORDS: usize = 64;
/// Length of the longest filler, in bytes.
const LONGEST_FILLER: usize = 8;

/// A parsed query.
pub(super) struct SearchQuery {
    /// The text in lower case, cut and trimmed.
    pub(super) text: String,
    /// Its significant words; all its words if none is significant.
    pub(super) words: Vec<String>,
    /// Each two adjacent words as one: `qr code` may be `qrcode` in a tool.
    pub(super) pairs: Vec<String>,
}

impl SearchQuery {
    pub(super) fn new(text: &str) -> Self {
        let text: String = text.trim().chars().take(QUERY_CHARACTERS).collect();
        let mut all: Vec<String> = Vec::new();
        for_each_word(&text, |word| all.push(word.to_owned()));
        let pairs = all.windows(2).map(|pair| pair.concat()).take(QUERY_WORDS).collect();
        let has_sense = all.iter().any(|word| !is_filler(word));
        let mut words: Vec<String> = Vec::new();
        for word in all {
            if (!has_sense || !is_filler(&word))
                && !words.contains(&word)
                && words.len() < QUERY_WORDS
            {
                words.push(word);
            }
        }
        Self { text: text.to_lowercase(), words, pairs }
    }

    pub(super) fn is_one_word(&self) -> bool {
        !self.text.is_empty() && !self.text.contains(char::is_whitespace)
    }

    /// True for one word without parts: not for `read_file`.
    pub(super) fn is_plain_word(&self) -> bool {
        self.is_one_word() && self.words.len() <= 1
    }
}

/// Filler words, which say nothing about the purpose of a tool: function words, and common openings of requests.
#[rustfmt::skip]
const FILLERS: &[&str] = &[
    "a", "about", "above", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "but", "by", "can", "cannot", "could", "d", "did", "do", "does", "doing", "don", "each",
    "few", "for", "from", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his", "how", "i", "if", "in",
    "into", "is", "it", "its", "just", "ll", "m", "may", "me", "might", "more", "most", "must", "my", "no", "nor", "not",
    "of", "on", "once", "only", "or", "other", "our", "ours", "out", "own", "please", "re", "s", "same", "shall", "she",
    "should", "so", "some", "such", "t", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "those", "through", "to", "too", "up", "us", "ve", "very", "via", "was", "we", "were", "what", "when", "where",
    "whether", "which", "while", "who", "whom", "whose", "why", "will", "with", "within", "without", "would", "you", "your",
    "yours", "want", "need", "like", "help", "hello", "hi", "hey", "thanks", "thank", "let", "tell", "know", "wish", "kindly",
];

pub(super) fn is_filler(word: &str) -> bool {
    static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| FILLERS.iter().copied().collect());
    word.len() <= LONGEST_FILLER && SET.contains(word)
}
