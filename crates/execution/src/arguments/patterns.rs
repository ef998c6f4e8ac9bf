//! Regular expressions of a schema: matched by an engine with linear run time, or not checked.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex};
use jsonschema_regex::to_rust_regex;
use regex_automata::nfa::thompson::NFA;
use serde_json::json;

/// The maximum size of a compiled pattern, and of all patterns of a schema together, in KiB.
const LIMIT: usize = 256;
const ALL: usize = 8 * 1024;
/// The peak memory of compiling a pattern, relative to its compiled size.
const BUILDING: usize = 3;
/// The maximum length of a pattern, and of all patterns of a schema together, in bytes.
const LENGTH: usize = 1024;
const LENGTHS: usize = 32 * 1024;
/// The maximum number of bytes parsed: a pattern is parsed again for each `\w`, `\d` and `\s`, which are expanded.
const READ: usize = 500_000;
const GROWTH: usize = 12;

/// The remaining limits of a schema's patterns, and the compiled size of each pattern, or `None` if it is not usable.
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
    /// A budget with this many bytes of patterns.
    pub(super) fn within(bytes: usize) -> Self {
        Self { bytes_left: bytes, reading_left: READ, kib_left: ALL, sizes: HashMap::new() }
    }

    /// Accepts a pattern, unless it has look-around or back-references, exceeds a limit, or is invalid.
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
        // A repeated pattern is compiled again.
        let Some(left) = size.and_then(|size| self.kib_left.checked_sub(size)) else {
            return false;
        };
        self.kib_left = left;
        true
    }

    /// The maximum compiled size of a pattern, in KiB. An unknown pattern is outside of any schema position and gets
    /// the largest size.
    pub(super) fn size_of(&self, pattern: &str) -> usize {
        self.sizes.get(pattern).copied().flatten().unwrap_or(LIMIT)
    }

    /// The maximum compiled size of all accepted patterns, in KiB.
    pub(super) fn size(&self) -> usize {
        ALL - self.kib_left
    }
}

pub(super) fn options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(LIMIT * 1024)
}

/// The compiled size of a pattern in KiB, or `None` if it cannot be compiled.
fn size_of(pattern: &str) -> Option<usize> {
    if folds_much(pattern) {
        return None;
    }
    let limit = NFA::config().nfa_size_limit(Some(LIMIT * 1024));
    let size = {
        let translated = to_rust_regex(pattern).ok()?;
        NFA::compiler().configure(limit).build(&translated).ok()?.memory_usage()
    };
    // The validator also compiles the pattern in reverse.
    let options = jsonschema::options().with_pattern_options(options());
    options.build(&json!({"pattern": pattern})).ok()?;
    Some((1 + BUILDING * size.div_ceil(1024)).min(LIMIT))
}

/// The number of bytes parsed for a pattern: the whole pattern once, and again for each class such as `\w`.
fn reading(pattern: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    let classes = pairs.filter(|pair| pair[0] == b'\\' && b"dDsSwW".contains(&pair[1])).count();
    (1 + classes) * (pattern.len() + GROWTH * classes / 2)
}

/// Whether a case-insensitive pattern is slow to parse: the parser looks up every character of a class. Classes written
/// in ASCII are small.
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
    fn the_compiled_size_of_patterns_is_known() {
        let mut patterns = Patterns::default();
        let some = ["^[a-z]+$", "^[0-9a-f]{64}$", "^[01]*1[01]{3000}[23]$"];
        assert!(some.iter().all(|pattern| patterns.take(pattern)));
        let sizes = some.map(|pattern| patterns.size_of(pattern));
        assert!(sizes[0] < 8 && (8..16).contains(&sizes[1]) && 128 < sizes[2], "{sizes:?}");
        assert_eq!(patterns.size_of("of a default, perhaps"), LIMIT);
        assert_eq!(patterns.size(), sizes.iter().sum::<usize>());
    }

    #[test]
    fn patterns_that_are_slow_to_parse_are_rejected() {
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
    fn long_patterns_and_too_many_patterns_are_rejected() {
        let mut patterns = Patterns::default();
        assert!(!patterns.take(&"(a|b|ab|\\w)*".repeat(100)));
        assert!(!patterns.take("(?=a)b") && !patterns.take("("));
        let of_many = (0..10_000).filter(|it| patterns.take(&format!("^a{it}$"))).count();
        assert!((1_000..=ALL / BUILDING).contains(&of_many), "{of_many}");
        // The limit also applies to short patterns, and to repetitions of the same one.
        let mut patterns = Patterns::default();
        let of_large = (0..1_000).filter(|_| patterns.take("^[01]{3000}$")).count();
        assert!((1..=ALL / 64).contains(&of_large), "{of_large}");
    }
}
