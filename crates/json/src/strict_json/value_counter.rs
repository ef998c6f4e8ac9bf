//! Estimates the memory of a JSON text while it arrives: a reader can stop before the whole text is in memory.

/// Counts the weighted values of a JSON text incrementally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueCounter {
    count: usize,
    context: LexicalContext,
}

/// The lexical context of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexicalContext {
    Structure,
    Text,
    Escape,
}

/// Weight of an object: it takes as much memory as four other values.
const OBJECT_WEIGHT: usize = 4;

impl ValueCounter {
    /// A counter at the start of a text.
    pub fn at_start() -> Self {
        Self { count: 1, context: LexicalContext::Structure }
    }

    /// The weight of a whole text.
    pub fn text_weight(text: &[u8]) -> usize {
        let mut parts = Self::at_start();
        parts.count_and_check(usize::MAX, text);
        parts.count
    }

    /// Counts more bytes; returns whether the weight exceeds the limit. Counting stops once it does.
    pub fn count_and_check(&mut self, limit: usize, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while self.count <= limit && !rest.is_empty() {
            rest = match self.context {
                LexicalContext::Structure => self.skip_to_token(rest),
                LexicalContext::Text => self.skip_string(rest),
                LexicalContext::Escape => {
                    self.context = LexicalContext::Text;
                    rest.get(1..).unwrap_or_default()
                }
            };
        }
        limit < self.count
    }

    fn skip_to_token<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let is_mark = |byte: &u8| matches!(byte, b'"' | b',' | b'[' | b'{');
        let Some(at) = bytes.iter().position(is_mark) else { return &[] };
        match bytes.get(at) {
            Some(b'"') => self.context = LexicalContext::Text,
            Some(b'{') => self.count += OBJECT_WEIGHT,
            _ => self.count += 1,
        }
        bytes.get(at + 1..).unwrap_or_default()
    }

    fn skip_string<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else { return &[] };
        self.context = match bytes.get(at) {
            Some(b'"') => LexicalContext::Structure,
            _ => LexicalContext::Escape,
        };
        bytes.get(at + 1..).unwrap_or_default()
    }
}
