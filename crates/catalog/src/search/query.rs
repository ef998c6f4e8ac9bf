//! What is asked, within bounds: words that say something, each once.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::words::each_word;

/// How much of a query counts: characters, and words.
const LONGEST: usize = 4_000;
const MOST_WORDS: usize = 64;
/// No filler has more bytes.
const LONGEST_FILLER: usize = 8;

/// A query as it is understood.
pub(super) struct Query {
    /// In lower case, cut, without space around it.
    pub(super) text: String,
    /// Its words that say something; all of them, if none does.
    pub(super) words: Vec<String>,
    /// Neighbours as one word: `qr code` may be `qrcode` elsewhere.
    pub(super) pairs: Vec<String>,
}

impl Query {
    pub(super) fn new(text: &str) -> Self {
        let text: String = text.trim().chars().take(LONGEST).collect();
        let mut all: Vec<String> = Vec::new();
        each_word(&text, |word| all.push(word.to_owned()));
        let pairs = all.windows(2).map(|pair| pair.concat()).take(MOST_WORDS).collect();
        let has_sense = all.iter().any(|word| !is_filler(word));
        let mut words: Vec<String> = Vec::new();
        for word in all {
            if (!has_sense || !is_filler(&word))
                && !words.contains(&word)
                && words.len() < MOST_WORDS
            {
                words.push(word);
            }
        }
        Self { text: text.to_lowercase(), words, pairs }
    }

    pub(super) fn is_one_word(&self) -> bool {
        !self.text.is_empty() && !self.text.contains(char::is_whitespace)
    }

    /// One word that has no parts: not `read_file`.
    pub(super) fn is_plain_word(&self) -> bool {
        self.is_one_word() && self.words.len() <= 1
    }
}

/// Words that say nothing about what a tool does: what holds sentences together, and what requests begin with.
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
