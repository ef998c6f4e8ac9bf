//! The values of a JSON text, counted while it comes: whoever waits for all of it has it in memory by then.

/// How many values a text has, as far as it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    count: usize,
    within: Within,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Structure,
    Text,
    Escape,
}

/// An object takes as much memory as several other values.
const OBJECT: usize = 4;

impl Parts {
    /// By what they take.
    pub fn weighed() -> Self {
        Self { count: 1, within: Within::Structure }
    }

    /// How much a whole text weighs.
    pub fn weight(text: &[u8]) -> usize {
        let mut parts = Self::weighed();
        parts.exceed(usize::MAX, text);
        parts.count
    }

    /// Takes what has come. Whether there are more than that now; once there are, nothing more is counted.
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
