//! The characters of a document, as the parser asks for them, with three of its habits corrected.
//!
//! - A list or mapping in brackets may turn out to be a key (`[a, b]: c`), so the parser reads it to its end before it
//!   reports its start. That could be the whole document: the text ends after `MAX_AHEAD` steps without an event.
//! - It wants closing brackets further to the right than the key they belong to. By the letter of YAML (§8.2.3) it is
//!   right, but nobody else insists: one that starts a line is moved by a space.
//! - It takes a NUL for the end, and refuses U+FEFF in most texts: it gets what Unicode has in their place.
//!
//! The parser asks several times for each character, so some answers are given from bytes.

use std::cell::Cell;

use saphyr_parser::Input;

/// How many steps the parser may take between two events: two or three for each token, which it keeps in some 200 bytes.
pub(super) const MAX_AHEAD: usize = 200_000;
/// How many characters the parser may ask for at once. It also makes room for as many in each plain scalar.
const LOOKAHEAD: usize = 16;

pub(super) struct Characters<'text, 'ahead> {
    text: &'text str,
    /// The next character, as a byte of `text`.
    position: usize,
    ahead: &'ahead Cell<usize>,
    /// Whether a space that is not in the text comes before the next character.
    extra_space: bool,
    /// Where such a space was put last.
    moved: Option<usize>,
}

impl<'text, 'ahead> Characters<'text, 'ahead> {
    /// The characters of `text`; whoever takes the events sets `ahead` back to 0.
    pub(super) fn new(text: &'text str, ahead: &'ahead Cell<usize>) -> Self {
        Self { text, position: 0, ahead, extra_space: false, moved: None }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline]
    fn at(&self, position: usize) -> Option<char> {
        match *self.text.as_bytes().get(position)? {
            0 => Some('\u{fffd}'),
            byte if byte.is_ascii() => Some(char::from(byte)),
            _ => match self.text.get(position..)?.chars().next()? {
                '\u{feff}' => Some('\u{2060}'),
                character => Some(character),
            },
        }
    }

    /// One step further: to the next character, to a space before it, or to the end.
    fn step(&mut self, next: char) -> char {
        self.ahead.update(|ahead| ahead + 1);
        if MAX_AHEAD < self.ahead.get() {
            self.position = self.text.len();
            return '\0';
        }
        // None of them can start a line outside of brackets and text.
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

/// Whether a text ends in `|` or `>`, with how to indent and end the block scalar, and a comment. Any `#` may begin the
/// comment: one in the quotes of a key does not, and has no header before it.
fn opens_block_scalar(text: &str) -> bool {
    let line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    let comments = line.match_indices('#').map(|(at, _)| at);
    comments.chain([line.len()]).any(|end| is_header(line.get(..end).unwrap_or_default()))
}

fn is_header(text: &str) -> bool {
    let text = text.trim_end();
    text.trim_end_matches(|c: char| matches!(c, '+' | '-' | '0'..='9')).ends_with(['|', '>'])
}

/// How many bytes a character takes that starts with this one.
#[inline]
fn length(byte: u8) -> usize {
    match byte {
        0x00..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..=0xff => 4,
    }
}

impl Input for Characters<'_, '_> {
    fn lookahead(&mut self, _: usize) {}

    fn buflen(&self) -> usize {
        LOOKAHEAD
    }

    fn bufmaxlen(&self) -> usize {
        LOOKAHEAD
    }

    /// What the parser asks at every step from one token to the next, and seldom within a token.
    #[inline]
    fn look_ch(&mut self) -> char {
        match self.peek() {
            blank @ (' ' | '\t' | '\n' | '\r') => blank,
            next => self.step(next),
        }
    }

    #[inline]
    fn peek_opt(&self) -> Option<char> {
        self.at(self.position)
    }

    #[inline]
    fn peek(&self) -> char {
        self.at(self.position).unwrap_or('\0')
    }

    #[inline]
    fn peek_nth(&self, n: usize) -> char {
        let mut position = self.position;
        for _ in 0..n {
            let Some(byte) = self.text.as_bytes().get(position) else { return '\0' };
            position += length(*byte);
        }
        self.at(position).unwrap_or('\0')
    }

    #[inline]
    fn next_is_blank_or_breakz(&self) -> bool {
        matches!(self.byte(), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
    }

    #[inline]
    fn next_can_be_plain_scalar(&self, in_flow: bool) -> bool {
        match self.byte() {
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
        match self.byte() {
            None => {}
            Some(_) if self.extra_space => self.extra_space = false,
            Some(byte) => self.position += length(byte),
        }
    }

    fn skip_n(&mut self, count: usize) {
        for _ in 0..count {
            self.skip();
        }
    }

    /// Comments are text, not steps.
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
