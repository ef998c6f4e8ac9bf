//! Patterns for names, paths and methods: a case-insensitive glob, or a regular expression after `regex:`.
//!
//! A pattern is parsed once and always matches the whole string. Globs are translated to the linear-time engine of the
//! `regex` crate, by characters and not by bytes, so `?` matches `é` as well.

use std::fmt;
use std::iter::Peekable;
use std::str::{Chars, FromStr};
use std::sync::Arc;

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest pattern, in bytes.
const PATTERN_LIMIT: usize = 1024;
/// Memory limit of a compiled pattern, in bytes.
const COMPILED_LIMIT: usize = 256 * 1024;
const REGEX_PREFIX: &str = "regex:";

/// A condition on a whole text.
///
/// A glob ignores case: `*` stands for any characters (`/` too), `?` for one, `[a-z]` and `[!a-z]` for one of a set,
/// `{a,b}` for either, and `\` takes the meaning from the next character. Braces without a comma stand for themselves,
/// so the path `/pets/{id}` is written as it is.
///
/// After `regex:` comes a regular expression that minds case (begin it with `(?i)` if it should not) and must match from
/// the first character to the last.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("minLength" = 1, "maxLength" = 1024))]
pub struct Pattern(Arc<CompiledPattern>);

struct CompiledPattern {
    text: Box<str>,
    shortcut: Option<GlobShortcut>,
    regex: Regex,
}

/// A glob simple enough to match ASCII strings without a regular expression. The literals are ASCII.
enum GlobShortcut {
    Anything,
    Equals(Box<str>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
}

/// The error for a string that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern: {problem}")]
pub struct InvalidPattern {
    /// The rejected string, cut to a readable length.
    pub pattern: String,
    /// The problem, and what to write instead.
    pub problem: String,
}

impl Pattern {
    /// Whether the whole string matches.
    pub fn matches(&self, text: &str) -> bool {
        match &self.0.shortcut {
            Some(GlobShortcut::Anything) => true,
            // Outside ASCII, only the regex engine folds case correctly: `k` also matches U+212A, the kelvin sign.
            Some(shortcut) if text.is_ascii() => shortcut.matches(text.as_bytes()),
            Some(_) | None => self.0.regex.is_match(text),
        }
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        match compile_pattern(text) {
            Ok(compiled) => Ok(Self(Arc::new(compiled))),
            Err(problem) => {
                Err(InvalidPattern { pattern: text.chars().take(80).collect(), problem })
            }
        }
    }
}

fn compile_pattern(text: &str) -> Result<CompiledPattern, String> {
    if PATTERN_LIMIT < text.len() {
        return Err(format!("it is longer than {PATTERN_LIMIT} bytes; use several shorter ones"));
    }
    if text.is_empty() || text == REGEX_PREFIX {
        return Err("it is empty; write `*` for any text, or leave it out".to_owned());
    }
    let (shortcut, regex) = match text.strip_prefix(REGEX_PREFIX) {
        Some(regex) => (None, compile_anchored(regex)?),
        None => (GlobShortcut::from_glob(text), compile_anchored(&regex_of_glob(text)?)?),
    };
    Ok(CompiledPattern { text: text.into(), shortcut, regex })
}

/// Compiles an expression that must match the whole string.
fn compile_anchored(expression: &str) -> Result<Regex, String> {
    let build = |source: &str| RegexBuilder::new(source).size_limit(COMPILED_LIMIT).build();
    // Compile it alone first: `a)|(b` is invalid, but would become valid and unanchored inside our brackets.
    build(expression).and_then(|_| build(&format!(r"\A(?:{expression})\z"))).map_err(|error| {
        match error {
            regex::Error::CompiledTooBig(_) => {
                "it takes too much memory; make it shorter or repeat less".to_owned()
            }
            // The engine shows the expression on several lines; the last line is the reason.
            regex::Error::Syntax(drawing) => {
                let reason =
                    drawing.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("{reason}; mend the expression")
            }
            other => other.to_string(),
        }
    })
}

impl GlobShortcut {
    fn from_glob(glob: &str) -> Option<Self> {
        let after_stars = glob.trim_start_matches('*');
        let literal = after_stars.trim_end_matches('*');
        if !literal.is_ascii() || literal.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return None;
        }
        if literal.is_empty() {
            return Some(Self::Anything);
        }
        let open_start = after_stars.len() < glob.len();
        let open_end = literal.len() < after_stars.len();
        Some(match (open_start, open_end) {
            (false, false) => Self::Equals(literal.into()),
            (false, true) => Self::StartsWith(literal.into()),
            (true, false) => Self::EndsWith(literal.into()),
            (true, true) => Self::Contains(literal.into()),
        })
    }

    fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Anything => true,
            Self::Equals(literal) => text.eq_ignore_ascii_case(literal.as_bytes()),
            Self::StartsWith(literal) => text
                .get(..literal.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(literal.as_bytes())),
            Self::EndsWith(literal) => {
                let start = text.len().checked_sub(literal.len());
                start.is_some_and(|start| text[start..].eq_ignore_ascii_case(literal.as_bytes()))
            }
            Self::Contains(literal) => text
                .windows(literal.len())
                .any(|part| part.eq_ignore_ascii_case(literal.as_bytes())),
        }
    }
}

/// A `{` that is not closed yet.
struct OpenBrace {
    /// Where its content begins in the expression.
    start: usize,
    has_comma: bool,
}

fn regex_of_glob(glob: &str) -> Result<String, String> {
    let mut regex = "(?is)".to_owned();
    let mut braces: Vec<OpenBrace> = Vec::new();
    let mut chars = glob.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, braces.last_mut()) {
            ('*', _) => regex.push_str(".*"),
            ('?', _) => regex.push('.'),
            ('[', _) => push_set(&mut regex, &mut chars)?,
            ('\\', _) => {
                push_literal(
                    &mut regex,
                    chars.next().ok_or(r"it ends with a lone `\`; write `\\` for the character")?,
                );
            }
            ('{', _) => braces.push(OpenBrace { start: regex.len(), has_comma: false }),
            (',', Some(brace)) => {
                brace.has_comma = true;
                regex.push('|');
            }
            ('}', _) => {
                let brace =
                    braces.pop().ok_or(r"a `}` has no `{`; write `\}` for the character")?;
                // Without a comma it is not a choice: these are the braces of a path like `/pets/{id}`.
                let (open, close) = if brace.has_comma { ("(?:", ")") } else { (r"\{", r"\}") };
                regex.insert_str(brace.start, open);
                regex.push_str(close);
            }
            (literal, _) => push_literal(&mut regex, literal),
        }
    }
    if !braces.is_empty() {
        return Err(r"a `{` is not closed; write `\{` for the character".to_owned());
    }
    Ok(regex)
}

/// Parses a set up to its `]`. A first `]` and a first or last `-` are literal.
fn push_set(regex: &mut String, chars: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut members = Vec::new();
    loop {
        match chars.next() {
            None => return Err(r"a `[` is not closed; write `\[` for the character".to_owned()),
            Some(']') if !members.is_empty() => break,
            Some(member) => members.push(member),
        }
    }
    regex.push_str(if negated { "[^" } else { "[" });
    let mut rest = members.as_slice();
    while let [first, after @ ..] = rest {
        push_literal(regex, *first);
        rest = after;
        if let ['-', last, after @ ..] = rest {
            regex.push('-');
            push_literal(regex, *last);
            rest = after;
        }
    }
    regex.push(']');
    Ok(())
}

fn push_literal(regex: &mut String, c: char) {
    regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}
impl Eq for Pattern {}
impl TryFrom<String> for Pattern {
    type Error = InvalidPattern;

    fn try_from(text: String) -> Result<Self, InvalidPattern> {
        text.parse()
    }
}
impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.as_str().to_owned()
    }
}
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
