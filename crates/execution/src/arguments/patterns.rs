//! Regular expressions of a schema: checked by an engine that takes linear time, or not at all.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex};
use jsonschema_regex::to_rust_regex;
use regex_automata::nfa::thompson::NFA;
use serde_json::json;

/// How large a compiled pattern may be, in KiB, and how large all of a schema may be.
const LIMIT: usize = 256;
const ALL: usize = 8 * 1024;
/// While it is compiled, a pattern takes about so many times what it takes then.
const BUILDING: usize = 3;
/// How long one may be, and all of a schema together, in bytes.
const LENGTH: usize = 1024;
const LENGTHS: usize = 32 * 1024;
/// How much may be read, in bytes: a pattern is read once for each `\w`, `\d` and `\s` in it, which grow at that.
const READ: usize = 500_000;
const GROWTH: usize = 12;

/// The patterns of a schema: how many more there may be, and how large they are once they are compiled, or none if they
/// cannot be.
#[derive(Debug)]
pub(super) struct Patterns {
    bytes_left: usize,
    reading_left: usize,
    kib_left: usize,
    sizes: HashMap<String, Option<usize>>,
}

impl Default for Patterns {
    fn default() -> Self {
        Self::within(LENGTHS)
    }
}

impl Patterns {
    /// None yet, and all together no longer than this.
    pub(super) fn within(bytes: usize) -> Self {
        Self { bytes_left: bytes, reading_left: READ, kib_left: ALL, sizes: HashMap::new() }
    }

    /// Takes one more, unless it looks ahead or back, refers back, is too large or one too many, or is no pattern.
    pub(super) fn take(&mut self, pattern: &str) -> bool {
        if LENGTH < pattern.len() || self.bytes_left < pattern.len() {
            return false;
        }
        self.bytes_left -= pattern.len();
        let Some(left) = self.reading_left.checked_sub(reading(pattern)) else { return false };
        self.reading_left = left;
        let size = match self.sizes.get(pattern) {
            Some(size) => *size,
            None => {
                let size = size_of(pattern);
                self.sizes.insert(pattern.to_owned(), size);
                size
            }
        };
        // One that stands twice is compiled twice.
        let Some(left) = size.and_then(|size| self.kib_left.checked_sub(size)) else {
            return false;
        };
        self.kib_left = left;
        true
    }

    /// How large one is at most, in KiB. One that was not taken stands where no schema is looked for, and may be as large
    /// as any.
    pub(super) fn size_of(&self, pattern: &str) -> usize {
        self.sizes.get(pattern).copied().flatten().unwrap_or(LIMIT)
    }

    /// How large all are at most, in KiB.
    pub(super) fn size(&self) -> usize {
        ALL - self.kib_left
    }
}

pub(super) fn options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(LIMIT * 1024)
}

/// How large a pattern is once it is compiled, in KiB; none if it cannot be.
fn size_of(pattern: &str) -> Option<usize> {
    if folds_much(pattern) {
        return None;
    }
    let limit = NFA::config().nfa_size_limit(Some(LIMIT * 1024));
    let size = {
        let translated = to_rust_regex(pattern).ok()?;
        NFA::compiler().configure(limit).build(&translated).ok()?.memory_usage()
    };
    // The validator compiles it backwards too.
    let options = jsonschema::options().with_pattern_options(options());
    options.build(&json!({"pattern": pattern})).ok()?;
    Some((1 + BUILDING * size.div_ceil(1024)).min(LIMIT))
}

/// How much is read of a pattern: once all of it, and once more for each class of characters that is written as one letter.
fn reading(pattern: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    let classes = pairs.filter(|pair| pair[0] == b'\\' && b"dDsSwW".contains(&pair[1])).count();
    (1 + classes) * (pattern.len() + GROWTH * classes / 2)
}

/// Whether it takes long to read a pattern that is not to tell small letters from capitals: every character that a class
/// may mean is looked up. Those that can be written in ASCII are few.
fn folds_much(pattern: &str) -> bool {
    let flags = pattern.split("(?").skip(1);
    let is_flag = |c: char| c.is_ascii_alphabetic() || c == '-';
    if !flags
        .map(|rest| rest.split(|c| !is_flag(c)).next())
        .any(|flags| flags.is_some_and(|flags| flags.contains('i')))
    {
        return false;
    }
    let (mut is_in_class, mut is_escaped) = (false, false);
    pattern.chars().any(|c| {
        if is_escaped {
            is_escaped = false;
            return matches!(c, 'p' | 'P' | 'u' | 'U' | 'x')
                || is_in_class && matches!(c, 'D' | 'S' | 'W');
        }
        match c {
            '\\' => is_escaped = true,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            _ => {}
        }
        !c.is_ascii()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_of_patterns_how_large_they_are() {
        let mut patterns = Patterns::default();
        let some = ["^[a-z]+$", "^[0-9a-f]{64}$", "^[01]*1[01]{3000}[23]$"];
        assert!(some.iter().all(|pattern| patterns.take(pattern)));
        let sizes = some.map(|pattern| patterns.size_of(pattern));
        assert!(sizes[0] < 8 && (8..16).contains(&sizes[1]) && 128 < sizes[2], "{sizes:?}");
        assert_eq!(patterns.size_of("of a default, perhaps"), LIMIT);
        assert_eq!(patterns.size(), sizes.iter().sum::<usize>());
    }

    #[test]
    fn what_takes_long_to_read_is_not_taken() {
        let mut patterns = Patterns::default();
        for pattern in [
            format!("(?i:{})", "[!-\u{29943}]".repeat(100)),
            r"(?i)[\x{21}-\x{29943}]".to_owned(),
            r"(?mi-s:\p{Any})".to_owned(),
            r"(?i)[\W]".to_owned(),
            r"\w".repeat(500),
        ] {
            assert!(!patterns.take(&pattern), "{pattern}");
        }
        for pattern in [
            r"(?i)^[a-z0-9._%+-]+@\S+\.[\w-]{2,}$",
            r"^\(?i\)?$",
            r"^(?<id>[^\W]+)-\p{L}[!-𞥃]*$",
            r"^\d{3}-\d{2}-\d{4}$",
        ] {
            assert!(patterns.take(pattern), "{pattern}");
        }
        let of_many = (0..1_000).filter(|it| patterns.take(&format!(r"^\w+\d*\s?{it}$"))).count();
        assert!(1_000 <= of_many, "{of_many}");
    }

    #[test]
    fn long_patterns_and_too_many_are_not_taken() {
        let mut patterns = Patterns::default();
        assert!(!patterns.take(&"(a|b|ab|\\w)*".repeat(100)));
        assert!(!patterns.take("(?=a)b") && !patterns.take("("));
        let of_many = (0..10_000).filter(|it| patterns.take(&format!("^a{it}$"))).count();
        assert!((1_000..=ALL / BUILDING).contains(&of_many), "{of_many}");
        // However short they are, and the same one again.
        let mut patterns = Patterns::default();
        let of_large = (0..1_000).filter(|_| patterns.take("^[01]{3000}$")).count();
        assert!((1..=ALL / 64).contains(&of_large), "{of_large}");
    }
}
