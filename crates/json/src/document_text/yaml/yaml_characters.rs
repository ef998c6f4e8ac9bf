//! The parser's input: the characters of a document, with three behaviours of the parser corrected.
//!
//! - A list or mapping in brackets may be a key (`[a, b]: c`), so the parser reads it to the end before it reports its
//!   start. That could be the whole document, so the text ends after `MAX_AHEAD` steps without an event.
//! - The parser requires closing brackets to be indented more than their key. That follows YAML (§8.2.3), but other
//!   parsers do not insist: a bracket at the start of a line is moved by a space.
//! - The parser takes NUL for the end of the text, and rejects U+FEFF in most texts: both are replaced.
//!
//! The parser reads each character several times, so some answers are computed from bytes.

use std::cell::Cell;

use saphyr_parser::Input;

/// The maximum number of parser steps between two events: two or three for each token, which takes about 200 bytes.
pub(super) const MAX_AHEAD: usize = 200_000;
/// The number of characters that the parser may look ahead. It also reserves as many for each plain scalar.
const LOOKAHEAD: usize = 16;

pub(super) struct YamlCharacters<'text, 'ahead> {
    text: &'text str,
    /// The next character, as a byte position in `text`.
    position: usize,
    ahead: &'ahead Cell<usize>,
    /// Whether a space that is not in the text precedes the next character.
    extra_space: bool,
    /// The position at which such a space was last inserted.
    moved: Option<usize>,
}

impl<'text, 'ahead> YamlCharacters<'text, 'ahead> {
    /// The characters of `text`; the consumer of the events resets `ahead` to 0.
    pub(super) fn new(text: &'text str, ahead: &'ahead Cell<usize>) -> Self {
        Self { text, position: 0, ahead, extra_space: false, moved: None }
    }

    #[inline]
    fn current_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline]
    fn char_at(&self, position: usize) -> Option<char> {
        match *self.text.as_bytes().get(position)? {
            0 => Some('\u{fffd}'),
            byte if byte.is_ascii() => Some(char::from(byte)),
            _ => match self.text.get(position..)?.chars().next()? {
                '\u{feff}' => Some('\u{2060}'),
                character => Some(character),
            },
        }
    }

    /// Takes one step: to the next character, to a space before it, or to the end.
    fn advance(&mut self, next: char) -> char {
        self.ahead.update(|ahead| ahead + 1);
        if MAX_AHEAD < self.ahead.get() {
            self.position = self.text.len();
            return '\0';
        }
        // Outside of brackets and text, none of these can start a line.
        let may_be_moved = matches!(next, ']' | '}' | ',') && self.moved != Some(self.position);
        if may_be_moved && self.starts_line() {
            self.moved = Some(self.position);
            self.extra_space = true;
        }
        if self.extra_space { ' ' } else { next }
    }

    /// Whether the next character is the first on its line, and not the first of a block scalar.
    fn starts_line(&self) -> bool {
        let before = self.text.get(..self.position).unwrap_or_default();
        let before = before.trim_end_matches([' ', '\t']);
        before.ends_with(['\n', '\r']) && !opens_block_scalar(before.trim_end())
    }
}

/// Whether a text ends in a block scalar header: `|` or `>`, indentation and chomping indicators, and a comment. Any
/// `#` may start the comment: a `#` in a quoted key has no header before it.
fn opens_block_scalar(text: &str) -> bool {
    let line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    let comments = line.match_indices('#').map(|(at, _)| at);
    comments.chain([line.len()]).any(|end| is_block_header(line.get(..end).unwrap_or_default()))
}

fn is_block_header(text: &str) -> bool {
    let text = text.trim_end();
    text.trim_end_matches(|c: char| matches!(c, '+' | '-' | '0'..='9')).ends_with(['|', '>'])
}

/// The length in bytes of a UTF-8 character that starts with this byte.
#[inline]
fn char_length(byte: u8) -> usize {
    match byte {
        0x00..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..=0xff => 4,
    }
}

impl Input for YamlCharacters<'_, '_> {
    fn lookahead(&mut self, _: usize) {}

    fn buflen(&self) -> usize {
        LOOKAHEAD
    }

    fn bufmaxlen(&self) -> usize {
        LOOKAHEAD
    }

    /// Called at every step between tokens, and rarely within a token.
    #[inline]
    fn look_ch(&mut self) -> char {
        match self.peek() {
            blank @ (' ' | '\t' | '\n' | '\r') => blank,
            next => self.advance(next),
        }
    }

    #[inline]
    fn peek_opt(&self) -> Option<char> {
        self.char_at(self.position)
    }

    #[inline]
    fn peek(&self) -> char {
        self.char_at(self.position).unwrap_or('\0')
    }

    #[inline]
    fn peek_nth(&self, n: usize) -> char {
        let mut position = self.position;
        for _ in 0..n {
            let Some(byte) = self.text.as_bytes().get(position) else { return '\0' };
            position += char_length(*byte);
        }
        self.char_at(position).unwrap_or('\0')
    }

    #[inline]
    fn next_is_blank_or_breakz(&self) -> bool {
        matches!(self.current_byte(), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
    }

    #[inline]
    fn next_can_be_plain_scalar(&self, in_flow: bool) -> bool {
        match self.current_byte() {
            Some(b':') => match self.peek_nth(1) {
                ' ' | '\t' | '\n' | '\r' | '\0' => false,
                ',' | '[' | ']' | '{' | '}' => !in_flow,
                _ => true,
            },
            Some(b',' | b'[' | b']' | b'{' | b'}') => !in_flow,
            _ => true,
        }
    }

    #[inline]
    fn skip(&mut self) {
        match self.current_byte() {
            None => {}
            Some(_) if self.extra_space => self.extra_space = false,
            Some(byte) => self.position += char_length(byte),
        }
    }

    fn skip_n(&mut self, count: usize) {
        for _ in 0..count {
            self.skip();
        }
    }

    /// Skips a comment without counting steps.
    fn skip_while_non_breakz(&mut self) -> usize {
        let mut count = 0;
        while self.raw_read_non_breakz_ch().is_some() {
            count += 1;
        }
        count
    }

    fn raw_read_ch(&mut self) -> char {
        let character = self.peek();
        self.skip();
        character
    }

    fn raw_read_non_breakz_ch(&mut self) -> Option<char> {
        let character = self.peek_opt().filter(|character| !matches!(character, '\n' | '\r'))?;
        self.skip();
        Some(character)
    }
}
