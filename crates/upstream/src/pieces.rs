//! A message while it arrives, stored in chunks. Moving a long message or finding contiguous memory for it takes long,
//! and it may still exceed its limit.

use model::strict_json::Parts;

use crate::aside::{LONG, aside};

/// The limits on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    /// JSON values; an object counts as four.
    pub(crate) parts: usize,
}

/// A message exceeds one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMuch {
    /// The unit of the limit: `bytes` or `values`.
    pub(crate) what: &'static str,
    pub(crate) limit: usize,
}

impl Bounds {
    pub(crate) fn take(self, bytes: usize) -> Result<(), TooMuch> {
        match bytes <= self.bytes {
            true => Ok(()),
            false => Err(TooMuch { what: "bytes", limit: self.bytes }),
        }
    }

    fn too_many(self) -> TooMuch {
        TooMuch { what: "values", limit: self.parts }
    }
}

/// A buffer made of chunks. Its bytes are copied into contiguous memory only when the message is parsed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    long: Vec<Vec<u8>>,
    last: Vec<u8>,
    length: usize,
    /// The values counted in the full chunks.
    parts: Parts,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { long: Vec::new(), last: Vec::new(), length: 0, parts: Parts::weighed() }
    }
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn extend(&mut self, bytes: &[u8], bounds: Bounds) -> Result<(), TooMuch> {
        self.length += bytes.len();
        self.last.extend_from_slice(bytes);
        self.end_piece(bounds)
    }

    /// Like `extend`, but takes a chunk without copying it.
    pub(crate) fn append(&mut self, piece: Vec<u8>, bounds: Bounds) -> Result<(), TooMuch> {
        if !self.last.is_empty() {
            return self.extend(&piece, bounds);
        }
        self.length += piece.len();
        self.last = piece;
        self.end_piece(bounds)
    }

    fn end_piece(&mut self, bounds: Bounds) -> Result<(), TooMuch> {
        bounds.take(self.length)?;
        if self.last.len() < LONG {
            return Ok(());
        }
        let is_more = self.parts.exceed(bounds.parts, &self.last);
        self.last.shrink_to_fit();
        self.long.push(std::mem::take(&mut self.last));
        if is_more { Err(bounds.too_many()) } else { Ok(()) }
    }

    /// The first bytes: the whole message if it is short.
    pub(crate) fn first(&self) -> &[u8] {
        self.long.first().unwrap_or(&self.last)
    }

    pub(crate) fn end(&self) -> End {
        let mut end = End::default();
        self.long.last().into_iter().chain([&self.last]).for_each(|piece| end.keep(piece));
        end
    }

    /// The message in contiguous memory. Copying many chunks takes long.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.long.is_empty() {
            return self.last;
        }
        self.long.push(self.last);
        self.long.concat()
    }
}

/// The last bytes of a message that is not kept.
#[derive(Debug, Default)]
pub(crate) struct End(Vec<u8>);

/// How many bytes of the beginning and of the end are kept for diagnosis.
pub(crate) const EDGE: usize = 256;

impl End {
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        let (_, last) = bytes.split_at(bytes.len().saturating_sub(EDGE));
        self.0.extend_from_slice(last);
        self.0.drain(..self.0.len().saturating_sub(EDGE));
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A complete message.
pub(crate) enum Text<'a> {
    Short(&'a [u8]),
    Long(Pieces),
}

impl Text<'_> {
    /// Parses the message, on the low-priority pool if it is long.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        read: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> T {
        match self {
            Self::Short(bytes) => read(bytes),
            Self::Long(pieces) if pieces.len() <= LONG => read(&pieces.into_bytes()),
            Self::Long(pieces) => aside(move || read(&pieces.into_bytes())).await,
        }
    }

    /// Fails if the message has too many values: each value takes many times the memory of its text once parsed.
    pub(crate) fn check(&self, bounds: Bounds) -> Result<(), TooMuch> {
        // No byte can count for more than an object does.
        if self.len() < bounds.parts / 4 {
            return Ok(());
        }
        let (mut parts, last) = match self {
            Self::Short(bytes) => (Parts::weighed(), *bytes),
            Self::Long(pieces) => (pieces.parts.clone(), pieces.last.as_slice()),
        };
        match parts.exceed(bounds.parts, last) {
            true => Err(bounds.too_many()),
            false => Ok(()),
        }
    }

    /// The first bytes: the whole message if it is short.
    pub(crate) fn first(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(pieces) => pieces.first(),
        }
    }

    pub(crate) fn end(&self) -> End {
        match self {
            Self::Short(bytes) => {
                let mut end = End::default();
                end.keep(bytes);
                end
            }
            Self::Long(pieces) => pieces.end(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Long(pieces) => pieces.len(),
        }
    }

    /// Whether the message is only whitespace. A long message never counts as blank.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Short(bytes) => bytes.trim_ascii().is_empty(),
            Self::Long(_) => false,
        }
    }
}

impl From<Pieces> for Text<'_> {
    fn from(pieces: Pieces) -> Self {
        Self::Long(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { bytes: 10 * LONG, parts: 1000 };

    #[test]
    fn a_buffer_grows_up_to_its_limit() {
        for size in [1, 1000, LONG, 3 * LONG] {
            let mut pieces = Pieces::default();
            let chunk = vec![b'x'; size];
            let mut taken = 0;
            let error = loop {
                match pieces.extend(&chunk, BOUNDS) {
                    Ok(()) => taken += size,
                    Err(error) => break error,
                }
            };
            assert_eq!(error, TooMuch { what: "bytes", limit: 10 * LONG });
            assert!(taken <= BOUNDS.bytes && BOUNDS.bytes < taken + size);
        }
    }

    #[test]
    fn too_many_values_are_noticed_before_the_message_is_complete() {
        let (values, rest) = (b"1,".repeat(600), vec![b' '; LONG]);
        let too_many = TooMuch { what: "values", limit: 1000 };
        let mut pieces = Pieces::default();
        pieces.extend(&values, BOUNDS).unwrap();
        pieces.extend(&rest, BOUNDS).unwrap();
        pieces.extend(&values, BOUNDS).unwrap();
        assert_eq!(pieces.extend(&rest, BOUNDS), Err(too_many));
        assert_eq!(Text::Short(&values.repeat(2)).check(BOUNDS), Err(too_many));
        assert_eq!(Text::Short(&values).check(BOUNDS), Ok(()));
    }

    #[test]
    fn a_string_may_continue_in_the_next_chunk() {
        let mut pieces = Pieces::default();
        pieces.extend(&[b"\"".as_slice(), &b"x".repeat(LONG)].concat(), BOUNDS).unwrap();
        pieces.extend(&b"{},".repeat(LONG), BOUNDS).unwrap();
        pieces.extend(b"\"", BOUNDS).unwrap();
        assert_eq!(Text::from(pieces).check(BOUNDS), Ok(()));
    }
}
