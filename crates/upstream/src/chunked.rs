//! A message while it arrives, stored in chunks. Moving a long message or finding contiguous memory for it takes long,
//! and it may still exceed its limit.

use json::strict_json::ValueCounter;
use limits::low_priority::{MAX_INLINE_BYTES, run_low_priority};

/// The limits on one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageBounds {
    pub bytes: usize,
    /// JSON values; an object counts as four.
    pub values: usize,
}

/// A message exceeds one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageTooLarge {
    /// The unit of the limit: `bytes` or `values`.
    pub what: &'static str,
    pub limit: usize,
}

impl MessageBounds {
    pub fn check_bytes(self, bytes: usize) -> Result<(), MessageTooLarge> {
        match bytes <= self.bytes {
            true => Ok(()),
            false => Err(MessageTooLarge { what: "bytes", limit: self.bytes }),
        }
    }

    fn too_many_values(self) -> MessageTooLarge {
        MessageTooLarge { what: "values", limit: self.values }
    }
}

/// A buffer made of chunks. Its bytes are copied into contiguous memory only when the message is parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkedBuffer {
    full_chunks: Vec<Vec<u8>>,
    last_chunk: Vec<u8>,
    length: usize,
    /// The values counted in the full chunks.
    values: ValueCounter,
}

impl Default for ChunkedBuffer {
    fn default() -> Self {
        Self {
            full_chunks: Vec::new(),
            last_chunk: Vec::new(),
            length: 0,
            values: ValueCounter::at_start(),
        }
    }
}

impl ChunkedBuffer {
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn extend(&mut self, bytes: &[u8], bounds: MessageBounds) -> Result<(), MessageTooLarge> {
        self.length += bytes.len();
        self.last_chunk.extend_from_slice(bytes);
        self.finish_chunk(bounds)
    }

    /// Like `extend`, but takes a chunk without copying it.
    pub(crate) fn append(
        &mut self,
        piece: Vec<u8>,
        bounds: MessageBounds,
    ) -> Result<(), MessageTooLarge> {
        if !self.last_chunk.is_empty() {
            return self.extend(&piece, bounds);
        }
        self.length += piece.len();
        self.last_chunk = piece;
        self.finish_chunk(bounds)
    }

    fn finish_chunk(&mut self, bounds: MessageBounds) -> Result<(), MessageTooLarge> {
        bounds.check_bytes(self.length)?;
        if self.last_chunk.len() < MAX_INLINE_BYTES {
            return Ok(());
        }
        let is_more = self.values.count_and_check(bounds.values, &self.last_chunk);
        self.last_chunk.shrink_to_fit();
        self.full_chunks.push(std::mem::take(&mut self.last_chunk));
        if is_more { Err(bounds.too_many_values()) } else { Ok(()) }
    }

    /// The first bytes: the whole message if it is short.
    pub fn leading_bytes(&self) -> &[u8] {
        self.full_chunks.first().unwrap_or(&self.last_chunk)
    }

    pub fn trailing_bytes(&self) -> TailBuffer {
        let mut end = TailBuffer::default();
        self.full_chunks
            .last()
            .into_iter()
            .chain([&self.last_chunk])
            .for_each(|piece| end.push_tail(piece));
        end
    }

    /// The message in contiguous memory. Copying many chunks takes long.
    pub fn into_bytes(mut self) -> Vec<u8> {
        if self.full_chunks.is_empty() {
            return self.last_chunk;
        }
        self.full_chunks.push(self.last_chunk);
        self.full_chunks.concat()
    }
}

/// The last bytes of a message that is not kept.
#[derive(Debug, Default)]
pub struct TailBuffer(Vec<u8>);

/// How many bytes of the beginning and of the end are kept for diagnosis.
pub(crate) const EXCERPT_BYTES: usize = 256;

impl TailBuffer {
    pub fn push_tail(&mut self, bytes: &[u8]) {
        let (_, last) = bytes.split_at(bytes.len().saturating_sub(EXCERPT_BYTES));
        self.0.extend_from_slice(last);
        self.0.drain(..self.0.len().saturating_sub(EXCERPT_BYTES));
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A complete message.
pub enum MessageText<'a> {
    Short(&'a [u8]),
    Long(ChunkedBuffer),
}

impl MessageText<'_> {
    /// Parses the message, on the low-priority pool if it is long.
    pub async fn parse_with<T: Send + 'static>(
        self,
        read: impl FnOnce(&[u8]) -> T + Send + 'static,
    ) -> T {
        match self {
            Self::Short(bytes) => read(bytes),
            Self::Long(pieces) if pieces.len() <= MAX_INLINE_BYTES => read(&pieces.into_bytes()),
            Self::Long(pieces) => run_low_priority(move || read(&pieces.into_bytes())).await,
        }
    }

    /// Fails if the message has too many values: each value takes many times the memory of its text once parsed.
    pub fn check_values(&self, bounds: MessageBounds) -> Result<(), MessageTooLarge> {
        // No byte can count for more than an object does.
        if self.byte_len() < bounds.values / 4 {
            return Ok(());
        }
        let (mut parts, last) = match self {
            Self::Short(bytes) => (ValueCounter::at_start(), *bytes),
            Self::Long(pieces) => (pieces.values.clone(), pieces.last_chunk.as_slice()),
        };
        match parts.count_and_check(bounds.values, last) {
            true => Err(bounds.too_many_values()),
            false => Ok(()),
        }
    }

    /// The first bytes: the whole message if it is short.
    pub fn leading_bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            Self::Long(pieces) => pieces.leading_bytes(),
        }
    }

    pub fn trailing_bytes(&self) -> TailBuffer {
        match self {
            Self::Short(bytes) => {
                let mut end = TailBuffer::default();
                end.push_tail(bytes);
                end
            }
            Self::Long(pieces) => pieces.trailing_bytes(),
        }
    }

    pub fn byte_len(&self) -> usize {
        match self {
            Self::Short(bytes) => bytes.len(),
            Self::Long(pieces) => pieces.len(),
        }
    }

    /// Whether the message is only whitespace. A long message never counts as blank.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Short(bytes) => bytes.trim_ascii().is_empty(),
            Self::Long(_) => false,
        }
    }
}

impl From<ChunkedBuffer> for MessageText<'_> {
    fn from(pieces: ChunkedBuffer) -> Self {
        Self::Long(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: MessageBounds = MessageBounds { bytes: 10 * MAX_INLINE_BYTES, values: 1000 };

    #[test]
    fn a_buffer_grows_up_to_its_limit() {
        for size in [1, 1000, MAX_INLINE_BYTES, 3 * MAX_INLINE_BYTES] {
            let mut pieces = ChunkedBuffer::default();
            let chunk = vec![b'x'; size];
            let mut taken = 0;
            let error = loop {
                match pieces.extend(&chunk, BOUNDS) {
                    Ok(()) => taken += size,
                    Err(error) => break error,
                }
            };
            assert_eq!(error, MessageTooLarge { what: "bytes", limit: 10 * MAX_INLINE_BYTES });
            assert!(taken <= BOUNDS.bytes && BOUNDS.bytes < taken + size);
        }
    }

    #[test]
    fn too_many_values_are_noticed_before_the_message_is_complete() {
        let (values, rest) = (b"1,".repeat(600), vec![b' '; MAX_INLINE_BYTES]);
        let too_many = MessageTooLarge { what: "values", limit: 1000 };
        let mut pieces = ChunkedBuffer::default();
        pieces.extend(&values, BOUNDS).unwrap();
        pieces.extend(&rest, BOUNDS).unwrap();
        pieces.extend(&values, BOUNDS).unwrap();
        assert_eq!(pieces.extend(&rest, BOUNDS), Err(too_many));
        assert_eq!(MessageText::Short(&values.repeat(2)).check_values(BOUNDS), Err(too_many));
        assert_eq!(MessageText::Short(&values).check_values(BOUNDS), Ok(()));
    }

    #[test]
    fn a_string_may_continue_in_the_next_chunk() {
        let mut pieces = ChunkedBuffer::default();
        pieces
            .extend(&[b"\"".as_slice(), &b"x".repeat(MAX_INLINE_BYTES)].concat(), BOUNDS)
            .unwrap();
        pieces.extend(&b"{},".repeat(MAX_INLINE_BYTES), BOUNDS).unwrap();
        pieces.extend(b"\"", BOUNDS).unwrap();
        assert_eq!(MessageText::from(pieces).check_values(BOUNDS), Ok(()));
    }
}
