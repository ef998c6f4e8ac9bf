//! An incremental parser for server-sent events (HTML standard, section 9.2.6), with limits on each event.

use tokio::time::Instant;
use upstream::chunked::{ChunkedBuffer, MessageBounds, TailBuffer};

use super::json_rpc::BrokenMessage;

/// An event with data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The event type; empty means `message`.
    pub(crate) name: String,
    /// The data, or an error as soon as an event exceeds a limit. The error is repeated if the end of the event names
    /// the call it answers.
    pub(crate) data: Result<ChunkedBuffer, BrokenMessage>,
}

impl SseEvent {
    fn rejected(no_message: BrokenMessage) -> Self {
        Self { name: String::new(), data: Err(no_message) }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.as_ref().map_or(0, ChunkedBuffer::len)
    }

    pub(crate) fn has_empty_data(&self) -> bool {
        self.data.as_ref().is_ok_and(ChunkedBuffer::is_empty)
    }
}

/// The state of the parser.
pub(crate) struct SseParser {
    /// The buffered part of a line that is not known to be data.
    line: Vec<u8>,
    is_in_line: bool,
    /// Whether the rest of the line is data.
    is_data: bool,
    name: String,
    data: ChunkedBuffer,
    has_data: bool,
    /// The current event exceeds a limit, which was reported; with the end of its data.
    oversized: Option<(BrokenMessage, TailBuffer)>,
    /// The pending event id, which takes effect when the event is complete.
    pending_id: Option<String>,
    /// The last byte was `\r`, so a following `\n` belongs to the same line end.
    after_return: bool,
    at_start: bool,
    event_started: Option<Instant>,
    bounds: MessageBounds,
    useless_bytes: usize,
    /// The id of the last complete event, to resume the stream from.
    pub(crate) last_id: Option<String>,
    /// The reconnect delay that the server requested, in milliseconds.
    pub(crate) retry: Option<u64>,
}

/// The byte order mark, which may precede the first line of a stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const DATA_FIELD: &[u8] = b"data:";
const MAX_FIELD_BYTES: usize = 1024;
/// A longer line is data or of no use.
const MAX_BUFFERED_LINE: usize = MAX_FIELD_BYTES + 16;

impl SseParser {
    pub(crate) fn new(bounds: MessageBounds) -> Self {
        Self {
            line: Vec::new(),
            is_in_line: false,
            is_data: false,
            name: String::new(),
            data: ChunkedBuffer::default(),
            has_data: false,
            oversized: None,
            pending_id: None,
            after_return: false,
            at_start: true,
            event_started: None,
            bounds,
            useless_bytes: 0,
            last_id: None,
            retry: None,
        }
    }

    /// Resumes with a new stream. An incomplete event is dropped.
    pub(crate) fn restart(&mut self) {
        let (last_id, retry) = (self.last_id.take(), self.retry);
        *self = Self { last_id, retry, ..Self::new(self.bounds) };
    }

    /// When the current incomplete event began.
    pub(crate) fn event_started(&self) -> Option<Instant> {
        self.event_started
    }

    /// The buffered bytes of the current incomplete event.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.data.len()
    }

    /// The number of bytes outside events since the last call, in whole kilobytes, because every event has a few around
    /// it.
    pub(crate) fn take_useless_bytes(&mut self) -> usize {
        let rest = self.useless_bytes % 1024;
        std::mem::replace(&mut self.useless_bytes, rest) - rest
    }

    /// Parses up to the end of the next event, or until it exceeds a limit. The rest of the bytes stays for the next
    /// call.
    pub(crate) fn next_event(&mut self, bytes: &mut &[u8]) -> Option<SseEvent> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                *bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            *bytes = rest;
            if !line.is_empty() {
                self.is_in_line = true;
                let refused = self.continue_line(line);
                if refused.is_some() {
                    return refused;
                }
            }
            if let Some((byte, rest)) = rest.split_first() {
                *bytes = rest;
                self.after_return = *byte == b'\r';
                self.is_in_line = false;
                let event = self.finish_line();
                if event.is_some() {
                    self.event_started = None;
                    return event;
                }
            }
        }
        let is_within = self.has_data || self.is_in_line;
        self.event_started = is_within.then(|| self.event_started.unwrap_or_else(Instant::now));
        None
    }

    fn continue_line(&mut self, more: &[u8]) -> Option<SseEvent> {
        if self.is_data {
            return self.append_data(more);
        }
        let room = MAX_BUFFERED_LINE - self.line.len();
        let (kept, rest) = more.split_at(room.min(more.len()));
        self.line.extend_from_slice(kept);
        let line = std::mem::take(&mut self.line);
        match strip_byte_order_mark(&line, self.at_start).strip_prefix(DATA_FIELD) {
            // One more byte is needed, because a space after the colon is not part of the data.
            Some(data) if !data.is_empty() => {
                self.is_data = true;
                let refused = self.begin_data(data);
                self.append_data(rest).or(refused)
            }
            _ => {
                self.useless_bytes += more.len();
                self.line = line;
                None
            }
        }
    }

    /// Starts a data line with the text after its colon.
    fn begin_data(&mut self, said: &[u8]) -> Option<SseEvent> {
        let is_next = std::mem::replace(&mut self.has_data, true);
        let refused = self.append_data(if is_next { b"\n" } else { b"" });
        self.append_data(said.strip_prefix(b" ").unwrap_or(said)).or(refused)
    }

    fn append_data(&mut self, more: &[u8]) -> Option<SseEvent> {
        if let Some((_, end)) = &mut self.oversized {
            self.useless_bytes += more.len();
            end.push_tail(more);
            return None;
        }
        let too_much = self.data.extend(more, self.bounds).err()?;
        let data = std::mem::take(&mut self.data);
        let no_message = BrokenMessage::too_large(too_much, data.leading_bytes());
        self.oversized = Some((no_message, data.trailing_bytes()));
        Some(SseEvent::rejected(no_message))
    }

    fn finish_line(&mut self) -> Option<SseEvent> {
        let at_start = std::mem::take(&mut self.at_start);
        if std::mem::take(&mut self.is_data) {
            return None;
        }
        self.useless_bytes += 1;
        let line = std::mem::take(&mut self.line);
        let text = strip_byte_order_mark(&line, at_start);
        if text.is_empty() {
            return self.finish_event();
        }
        let colon = text.iter().position(|byte| *byte == b':');
        let (field, said) = text.split_at(colon.unwrap_or(text.len()));
        let said = said.strip_prefix(b":").unwrap_or(said);
        let value = said.strip_prefix(b" ").unwrap_or(said);
        match field {
            b"data" => return self.begin_data(said),
            b"event" if value.len() <= MAX_FIELD_BYTES => {
                self.name = String::from_utf8_lossy(value).into_owned()
            }
            b"id" if !value.contains(&0) && value.len() <= MAX_FIELD_BYTES => {
                self.pending_id = String::from_utf8(value.to_vec()).ok().or(self.pending_id.take());
            }
            b"retry" => {
                let digits = std::str::from_utf8(value).ok();
                self.retry = digits.and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            // A comment, which keeps the connection alive, or an unknown field.
            _ => {}
        }
        None
    }

    fn finish_event(&mut self) -> Option<SseEvent> {
        if let Some(id) = self.pending_id.take() {
            // An empty id resets the last event id.
            self.last_id = Some(id).filter(|id| !id.is_empty());
        }
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        let has_data = std::mem::take(&mut self.has_data);
        match self.oversized.take() {
            None => has_data.then_some(SseEvent { name, data: Ok(data) }),
            Some((no_message, end)) => {
                let ended = no_message.with_tail(end.bytes());
                (ended != no_message).then(|| SseEvent::rejected(ended))
            }
        }
    }
}

fn strip_byte_order_mark(line: &[u8], at_start: bool) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).filter(|_| at_start).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::json_rpc::AnswerTarget;
    use limits::low_priority::MAX_INLINE_BYTES;
    use upstream::chunked::MessageTooLarge;

    const MUCH: usize = 10 * MAX_INLINE_BYTES;

    fn within(bytes: usize) -> SseParser {
        SseParser::new(MessageBounds { bytes, values: 1000 })
    }

    fn read(sse: &mut SseParser, mut bytes: &[u8]) -> Vec<SseEvent> {
        std::iter::from_fn(|| sse.next_event(&mut bytes)).collect()
    }

    fn event(name: &str, data: &str) -> SseEvent {
        let mut pieces = ChunkedBuffer::default();
        pieces.extend(data.as_bytes(), MessageBounds { bytes: MUCH, values: 1000 }).unwrap();
        SseEvent { name: name.to_owned(), data: Ok(pieces) }
    }

    fn refused(what: &'static str, limit: usize, answers: AnswerTarget) -> SseEvent {
        SseEvent::rejected(BrokenMessage {
            target: answers,
            exceeded: Some(MessageTooLarge { what, limit }),
        })
    }

    #[test]
    fn events_are_parsed_with_any_line_ending() {
        let text =
            "\u{feff}data: a\ndata:b\n\nevent: endpoint\r\ndata: /m\r\n\r\n: beat\r\rdata\r\r";
        let read = read(&mut within(100), text.as_bytes());
        assert_eq!(read, [event("", "a\nb"), event("endpoint", "/m"), event("", "")]);
    }

    #[test]
    fn an_id_and_a_reconnect_delay_are_kept_without_an_event() {
        let mut sse = within(100);
        assert_eq!(read(&mut sse, b"id: 7\nretry: 500\n\n"), []);
        assert_eq!((sse.last_id.as_deref(), sse.retry), (Some("7"), Some(500)));
        read(&mut sse, b"id: 8\ndata: half");
        assert!(sse.event_started().is_some());
        sse.restart();
        assert_eq!(read(&mut sse, b"data: x\n\n"), [event("", "x")]);
        assert_eq!(sse.last_id.as_deref(), Some("7"), "the event with 8 was never whole");
        read(&mut sse, b"id: \xff\n\n");
        assert_eq!(sse.last_id.as_deref(), Some("7"));
        read(&mut sse, b"id\n\n");
        assert_eq!(sse.last_id, None);
    }

    #[test]
    fn long_data_is_parsed_in_chunks_of_any_size() {
        let (long, short) = ("long".repeat(MAX_INLINE_BYTES), "short");
        let text =
            format!("\u{feff}data: {long}\n:{long}\ndata:{short}\nid:{long}\ndata: {long}\n\n");
        for size in [
            1,
            2,
            7,
            MAX_INLINE_BYTES - 1,
            MAX_INLINE_BYTES,
            MAX_INLINE_BYTES + 1,
            3 * MAX_INLINE_BYTES,
            text.len(),
        ] {
            let mut sse = within(MUCH);
            let chunks = text.as_bytes().chunks(size);
            let read: Vec<SseEvent> = chunks.flat_map(|chunk| read(&mut sse, chunk)).collect();
            let data: Vec<_> = read.into_iter().map(|it| it.data.unwrap().into_bytes()).collect();
            assert!(data == [format!("{long}\n{short}\n{long}").into_bytes()], "{size}");
            let useless = sse.take_useless_bytes();
            assert_eq!(useless, 2 * long.len());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_start_of_a_slow_event_is_known() {
        let (mut sse, start, second) = (within(100), Instant::now(), Duration::from_secs(1));
        let mut since = Vec::new();
        for text in ["", "data: a", "b\n", "\ndata: c", "\n", "\n"] {
            read(&mut sse, text.as_bytes());
            since.push(sse.event_started().map(|begun| (begun - start).as_secs()));
            tokio::time::advance(second).await;
        }
        assert_eq!(since, [None, Some(1), Some(1), Some(3), Some(3), None]);
    }

    #[test]
    fn an_event_that_is_too_long_is_skipped_and_the_next_one_is_parsed() {
        let mut sse = within(30);
        assert_eq!(read(&mut sse, b"data: {\"id\": 7, \"result\""), []);
        assert_eq!(sse.buffered_bytes(), 18);
        let too_long = |answers| refused("bytes", 30, answers);
        let all = read(&mut sse, b": [1, 2, 3, 4, 5, 6");
        assert_eq!((all, sse.buffered_bytes()), (vec![too_long(AnswerTarget::Call(7))], 0));
        assert_eq!(read(&mut sse, b"]}\ndata: }\n\ndata: x\n\n"), [event("", "x")]);
        let long =
            |name: &str| format!("data: {{\"{name}\": \"{}\", \"id\":8}}\n\n", "x".repeat(40));
        let (long, asked) = (long("result"), long("params"));
        let all: Vec<_> = long.as_bytes().chunks(20).flat_map(|it| read(&mut sse, it)).collect();
        assert_eq!(all, [too_long(AnswerTarget::Unknown), too_long(AnswerTarget::Call(8))]);
        assert_eq!(read(&mut sse, asked.as_bytes()), [too_long(AnswerTarget::NotAnAnswer)]);
        assert_eq!(read(&mut sse, &b"data\n".repeat(40)), [too_long(AnswerTarget::Unknown)]);
    }

    #[test]
    fn values_are_counted_before_an_event_ends() {
        let mut sse = within(MUCH);
        read(&mut sse, b"data: ");
        let all = read(&mut sse, &[b"{},".repeat(250), vec![b' '; MAX_INLINE_BYTES]].concat());
        assert_eq!(all, [refused("values", 1000, AnswerTarget::Unknown)]);
        let mut sse = within(MUCH);
        let texts = br#"{},\"x"#.repeat(MAX_INLINE_BYTES);
        let all = read(&mut sse, &[b"data: \"", texts.as_slice(), b"\"\n\n"].concat());
        assert!(all.len() == 1 && all[0].data.is_ok());
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(
            text in "\u{feff}?((data|data:|data: |data:  )[a-c]{0,3}(\r\n|\r|\n)|(\r\n|\r|\n)|id: [0-9]\n|event: e\n|:x\n|z{1050}\n){0,12}",
            cuts in prop::collection::vec(0usize..60, 0..4),
        ) {
            let bytes = text.as_bytes();
            let mut whole = within(8);
            let expected = read(&mut whole, bytes);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let (mut sse, mut start, mut pieces) = (within(8), 0, Vec::new());
            for end in cuts.into_iter().chain([bytes.len()]) {
                pieces.extend(read(&mut sse, &bytes[start..end]));
                start = end;
            }
            prop_assert_eq!(expected, pieces);
            prop_assert_eq!(
                (whole.last_id.as_ref(), whole.buffered_bytes()),
                (sse.last_id.as_ref(), sse.buffered_bytes())
            );
        }
    }
}
