//! Server-sent events, read as they come (HTML standard, section 9.2.6), within a bound for each.

use tokio::time::Instant;

use crate::pieces::{Bounds, Pieces, TooMuch};

/// One event with something in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// `message` if it is not said.
    pub(crate) name: String,
    pub(crate) data: Pieces,
}

/// What was read so far.
pub(crate) struct Sse {
    /// What there is of a line that is not known to be data.
    line: Vec<u8>,
    line_length: usize,
    /// What comes next of the line is data.
    is_data: bool,
    event: Event,
    has_data: bool,
    /// The last byte was `\r`: a `\n` now belongs to it.
    after_return: bool,
    at_start: bool,
    begun: Option<Instant>,
    bounds: Bounds,
    /// The id of the last event, to go on from.
    pub(crate) last_id: Option<String>,
    /// How long to wait before going on, in milliseconds, as the server wishes.
    pub(crate) retry: Option<u64>,
}

/// May stand before the first line of a stream.
const MARK: &[u8] = b"\xef\xbb\xbf";
const DATA: &[u8] = b"data:";
const MAX_WORD: usize = 1024;
/// A longer line is data or of no use.
const MAX_LINE: usize = MAX_WORD + 16;

impl Sse {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            line: Vec::new(),
            line_length: 0,
            is_data: false,
            event: Event::default(),
            has_data: false,
            after_return: false,
            at_start: true,
            begun: None,
            bounds,
            last_id: None,
            retry: None,
        }
    }

    /// A new stream that goes on where the last one ended: what was begun there is dropped.
    pub(crate) fn restart(&mut self) {
        let (last_id, retry) = (self.last_id.take(), self.retry);
        *self = Self { last_id, retry, ..Self::new(self.bounds) };
    }

    /// Since when an event is under way that has not ended.
    pub(crate) fn begun(&self) -> Option<Instant> {
        self.begun
    }

    /// How much of an event that has not ended is kept.
    pub(crate) fn held(&self) -> usize {
        self.event.data.len()
    }

    /// How it begins.
    pub(crate) fn first(&self) -> &[u8] {
        self.event.data.first()
    }

    /// Takes what came. Events that end in it are handed over, unless one, or a line beside them, is too much.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<Vec<Event>, TooMuch> {
        let mut events = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', bytes);
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.go_on(line)?;
            bytes = rest;
            if let Some((byte, rest)) = rest.split_first() {
                self.after_return = *byte == b'\r';
                events.extend(self.end_of_line()?);
                bytes = rest;
            }
        }
        let is_within = self.has_data || 0 < self.line_length;
        let before = self.begun.filter(|_| events.is_empty());
        self.begun = is_within.then(|| before.unwrap_or_else(Instant::now));
        Ok(events)
    }

    fn go_on(&mut self, more: &[u8]) -> Result<(), TooMuch> {
        self.line_length += more.len();
        if self.is_data {
            return self.event.data.extend(more, self.bounds);
        }
        self.bounds.take(self.line_length)?;
        let room = MAX_LINE - self.line.len();
        let (kept, rest) = more.split_at(room.min(more.len()));
        self.line.extend_from_slice(kept);
        let line = std::mem::take(&mut self.line);
        match unmarked(&line, self.at_start).strip_prefix(DATA) {
            // It takes one more byte to know where they begin.
            Some(data) if !data.is_empty() => {
                self.is_data = true;
                self.add_data(data)?;
                self.event.data.extend(rest, self.bounds)
            }
            _ => {
                self.line = line;
                Ok(())
            }
        }
    }

    /// What a line says after its colon.
    fn add_data(&mut self, said: &[u8]) -> Result<(), TooMuch> {
        if std::mem::replace(&mut self.has_data, true) {
            self.event.data.extend(b"\n", self.bounds)?;
        }
        self.event.data.extend(said.strip_prefix(b" ").unwrap_or(said), self.bounds)
    }

    fn end_of_line(&mut self) -> Result<Option<Event>, TooMuch> {
        self.line_length = 0;
        let at_start = std::mem::take(&mut self.at_start);
        if std::mem::take(&mut self.is_data) {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        let text = unmarked(&line, at_start);
        if text.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let colon = text.iter().position(|byte| *byte == b':');
        let (field, said) = text.split_at(colon.unwrap_or(text.len()));
        let said = said.strip_prefix(b":").unwrap_or(said);
        let value = said.strip_prefix(b" ").unwrap_or(said);
        match field {
            b"data" => self.add_data(said)?,
            b"event" if value.len() <= MAX_WORD => {
                self.event.name = String::from_utf8_lossy(value).into_owned()
            }
            b"id" if !value.contains(&0) && value.len() <= MAX_WORD => {
                self.last_id = String::from_utf8(value.to_vec()).ok();
            }
            b"retry" => {
                let digits = std::str::from_utf8(value).ok();
                self.retry = digits.and_then(|digits| digits.parse().ok()).or(self.retry);
            }
            // A comment, which keeps the connection alive, or a field nobody knows.
            _ => {}
        }
        Ok(None)
    }
}

fn unmarked(line: &[u8], at_start: bool) -> &[u8] {
    line.strip_prefix(MARK).filter(|_| at_start).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::aside::LONG;

    const MUCH: usize = 10 * LONG;

    fn within(bytes: usize) -> Sse {
        Sse::new(Bounds { bytes, parts: 1000 })
    }

    fn event(name: &str, data: &str) -> Event {
        let mut pieces = Pieces::default();
        pieces.extend(data.as_bytes(), Bounds { bytes: MUCH, parts: 1000 }).unwrap();
        Event { name: name.to_owned(), data: pieces }
    }

    #[test]
    fn events_are_read_whatever_ends_their_lines() {
        let text =
            "\u{feff}data: a\ndata:b\n\nevent: endpoint\r\ndata: /m\r\n\r\n: beat\r\rdata\r\r";
        let read = within(100).push(text.as_bytes()).unwrap();
        assert_eq!(read, [event("", "a\nb"), event("endpoint", "/m"), event("", "")]);
    }

    #[test]
    fn an_id_and_a_wish_to_wait_are_kept_without_an_event() {
        let mut sse = within(100);
        assert_eq!(sse.push(b"id: 7\nretry: 500\n\n").unwrap(), []);
        assert_eq!((sse.last_id.as_deref(), sse.retry), (Some("7"), Some(500)));
        sse.push(b"data: half").unwrap();
        assert!(sse.begun().is_some());
        sse.restart();
        assert_eq!(sse.push(b"data: x\n\n").unwrap(), [event("", "x")]);
        assert_eq!(sse.last_id.as_deref(), Some("7"));
    }

    #[test]
    fn what_is_long_is_read_however_it_comes() {
        let (long, short) = ("long".repeat(LONG), "short");
        let text =
            format!("\u{feff}data: {long}\n:{long}\ndata:{short}\nid:{long}\ndata: {long}\n\n");
        for size in [1, 2, 7, LONG - 1, LONG, LONG + 1, 3 * LONG, text.len()] {
            let mut sse = within(MUCH);
            let chunks = text.as_bytes().chunks(size);
            let read: Vec<Event> = chunks.flat_map(|chunk| sse.push(chunk).unwrap()).collect();
            let data: Vec<_> = read.into_iter().map(|it| it.data.into_bytes()).collect();
            assert!(data == [format!("{long}\n{short}\n{long}").into_bytes()], "{size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn however_slowly_an_event_comes_it_is_known_since_when() {
        let (mut sse, start, second) = (within(100), Instant::now(), Duration::from_secs(1));
        let mut since = Vec::new();
        for text in ["", "data: a", "b\n", "\ndata: c", "\n", "\n"] {
            sse.push(text.as_bytes()).unwrap();
            since.push(sse.begun().map(|begun| (begun - start).as_secs()));
            tokio::time::advance(second).await;
        }
        assert_eq!(since, [None, Some(1), Some(1), Some(3), Some(3), None]);
    }

    #[test]
    fn an_event_has_an_end() {
        let too_long = TooMuch { what: "bytes", limit: 10 };
        for text in ["data: 12345678901", ": 123456789", "data"] {
            let mut sse = within(10);
            sse.push(b"data: 1\n").unwrap();
            let line = format!("{text}\n");
            let more = std::iter::repeat_with(|| sse.push(line.as_bytes()));
            assert_eq!(more.take(10).find(Result::is_err), Some(Err(too_long)), "{text}");
        }
    }

    #[test]
    fn values_are_counted_before_an_event_ends() {
        let mut sse = within(MUCH);
        sse.push(b"data: ").unwrap();
        let chunk = [b"{},".repeat(250), vec![b' '; LONG]].concat();
        let too_many = TooMuch { what: "values", limit: 1000 };
        assert_eq!(sse.push(&chunk), Err(too_many));
        let mut sse = within(MUCH);
        let texts = br#"{},\"x"#.repeat(LONG);
        sse.push(&[b"data: \"", texts.as_slice(), b"\"\n\n"].concat()).unwrap();
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            text in "(data: [a-c]{0,3}(\r\n|\r|\n)|(\r\n|\r|\n)|id: [0-9]\n|:x\n){0,12}",
            cut in 0usize..60,
        ) {
            let bytes = text.as_bytes();
            let whole = within(1000).push(bytes).unwrap();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut sse = within(1000);
            let mut pieces = sse.push(first).unwrap();
            pieces.extend(sse.push(second).unwrap());
            prop_assert_eq!(whole, pieces);
        }
    }
}
