//! Estimates the memory of a JSON text while it arrives: a reader can stop before the whole text is in memory.

/// Counts the weighted values of a JSON text incrementally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    count: usize,
    within: Within,
}

/// The lexical context of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Structure,
    Text,
    Escape,
}

/// Weight of an object: it takes as much memory as four other values.
const OBJECT: usize = 4;

impl Parts {
    /// A counter at the start of a text.
    pub fn weighed() -> Self {
        Self { count: 1, within: Within::Structure }
    }

    /// The weight of a whole text.
    pub fn weight(text: &[u8]) -> usize {
        let mut parts = Self::weighed();
        parts.exceed(usize::MAX, text);
        parts.count
    }

    /// Counts more bytes; returns whether the weight exceeds the limit. Counting stops once it does.
    pub fn exceed(&mut self, limit: usize, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while self.count <= limit && !rest.is_empty() {
            rest = match self.within {
                Within::Structure => self.structure(rest),
                Within::Text => self.text(rest),
                Within::Escape => {
                    self.within = Within::Text;
                    rest.get(1..).unwrap_or_default()
                }
            };
        }
        limit < self.count
    }

    fn structure<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let is_mark = |byte: &u8| matches!(byte, b'"' | b',' | b'[' | b'{');
        let Some(at) = bytes.iter().position(is_mark) else { return &[] };
        match bytes.get(at) {
            Some(b'"') => self.within = Within::Text,
            Some(b'{') => self.count += OBJECT,
            _ => self.count += 1,
        }
        bytes.get(at + 1..).unwrap_or_default()
    }

    fn text<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else { return &[] };
        self.within = match bytes.get(at) {
            Some(b'"') => Within::Structure,
            _ => Within::Escape,
        };
        bytes.get(at + 1..).unwrap_or_default()
    }
}
