//! Regular expressions of a schema: matched by an engine with linear run time, or not checked.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex};
use jsonschema_regex::to_rust_regex;
use regex_automata::nfa::thompson::NFA;
use serde_json::json;

/// The maximum size of a compiled pattern, and of all patterns of a schema together, in KiB.
const MAX_PATTERN_KIB: usize = 256;
const MAX_PATTERNS_KIB: usize = 8 * 1024;
/// The peak memory of compiling a pattern, relative to its compiled size.
const BUILD_MEMORY_FACTOR: usize = 3;
/// The maximum length of a pattern, and of all patterns of a schema together, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;
const MAX_PATTERNS_BYTES: usize = 32 * 1024;
/// The maximum number of bytes parsed: a pattern is parsed again for each `\w`, `\d` and `\s`, which are expanded.
const MAX_PARSED_BYTES: usize = 500_000;
const EXPANDED_CLASS_BYTES: usize = 12;

/// The remaining limits of a schema's patterns, and the compiled size of each pattern, or `None` if it is not usable.
#[derive(Debug)]
pub(super) struct PatternBudget {
    bytes_left: usize,
    reading_left: usize,
    kib_left: usize,
    sizes: HashMap<String, Option<usize>>,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self::with_bytes(MAX_PATTERNS_BYTES)
    }
}

impl PatternBudget {
    /// A budget with this many bytes of patterns.
    pub(super) fn with_bytes(bytes: usize) -> Self {
        Self {
            bytes_left: bytes,
            reading_left: MAX_PARSED_BYTES,
            kib_left: MAX_PATTERNS_KIB,
            sizes: HashMap::new(),
        }
    }

    /// Accepts a pattern, unless it has look-around or back-references, exceeds a limit, or is invalid.
    pub(super) fn accept(&mut self, pattern: &str) -> bool {
        if MAX_PATTERN_BYTES < pattern.len() || self.bytes_left < pattern.len() {
            return false;
        }
        self.bytes_left -= pattern.len();
        let Some(left) = self.reading_left.checked_sub(parsed_bytes(pattern)) else { return false };
        self.reading_left = left;
        let size = match self.sizes.get(pattern) {
            Some(size) => *size,
            None => {
                let size = compiled_kib(pattern);
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
    pub(super) fn pattern_kib(&self, pattern: &str) -> usize {
        self.sizes.get(pattern).copied().flatten().unwrap_or(MAX_PATTERN_KIB)
    }

    /// The maximum compiled size of all accepted patterns, in KiB.
    pub(super) fn total_kib(&self) -> usize {
        MAX_PATTERNS_KIB - self.kib_left
    }
}

pub(super) fn pattern_options() -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(MAX_PATTERN_KIB * 1024)
}

/// The compiled size of a pattern in KiB, or `None` if it cannot be compiled.
fn compiled_kib(pattern: &str) -> Option<usize> {
    if has_costly_case_folding(pattern) {
        return None;
    }
    let limit = NFA::config().nfa_size_limit(Some(MAX_PATTERN_KIB * 1024));
    let size = {
        let translated = to_rust_regex(pattern).ok()?;
        NFA::compiler().configure(limit).build(&translated).ok()?.memory_usage()
    };
    // The validator also compiles the pattern in reverse.
    let options = jsonschema::options().with_pattern_options(pattern_options());
    options.build(&json!({"pattern": pattern})).ok()?;
    Some((1 + BUILD_MEMORY_FACTOR * size.div_ceil(1024)).min(MAX_PATTERN_KIB))
}

/// The number of bytes parsed for a pattern: the whole pattern once, and again for each class such as `\w`.
fn parsed_bytes(pattern: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    let classes = pairs.filter(|pair| pair[0] == b'\\' && b"dDsSwW".contains(&pair[1])).count();
    (1 + classes) * (pattern.len() + EXPANDED_CLASS_BYTES * classes / 2)
}

/// Whether a case-insensitive pattern is slow to parse: the parser looks up every character of a class. Classes written
/// in ASCII are small.
fn has_costly_case_folding(pattern: &str) -> bool {
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
        let mut patterns = PatternBudget::default();
        let some = ["^[a-z]+$", "^[0-9a-f]{64}$", "^[01]*1[01]{3000}[23]$"];
        assert!(some.iter().all(|pattern| patterns.accept(pattern)));
        let sizes = some.map(|pattern| patterns.pattern_kib(pattern));
        assert!(sizes[0] < 8 && (8..16).contains(&sizes[1]) && 128 < sizes[2], "{sizes:?}");
        assert_eq!(patterns.pattern_kib("of a default, perhaps"), MAX_PATTERN_KIB);
        assert_eq!(patterns.total_kib(), sizes.iter().sum::<usize>());
    }

    #[test]
    fn patterns_that_are_slow_to_parse_are_rejected() {
        let mut patterns = PatternBudget::default();
        for pattern in [
            format!("(?i:{})", "[!-\u{29943}]".repeat(100)),
            r"(?i)[\x{21}-\x{29943}]".to_owned(),
            r"(?mi-s:\p{Any})".to_owned(),
            r"(?i)[\W]".to_owned(),
            r"\w".repeat(500),
        ] {
            assert!(!patterns.accept(&pattern), "{pattern}");
        }
        for pattern in [
            r"(?i)^[a-z0-9._%+-]+@\S+\.[\w-]{2,}$",
            r"^\(?i\)?$",
            r"^(?<id>[^\W]+)-\p{L}[!-𞥃]*$",
            r"^\d{3}-\d{2}-\d{4}$",
        ] {
            assert!(patterns.accept(pattern), "{pattern}");
        }
        let of_many = (0..1_000).filter(|it| patterns.accept(&format!(r"^\w+\d*\s?{it}$"))).count();
        assert!(1_000 <= of_many, "{of_many}");
    }

    #[test]
    fn long_patterns_and_too_many_patterns_are_rejected() {
        let mut patterns = PatternBudget::default();
        assert!(!patterns.accept(&"(a|b|ab|\\w)*".repeat(100)));
        assert!(!patterns.accept("(?=a)b") && !patterns.accept("("));
        let of_many = (0..10_000).filter(|it| patterns.accept(&format!("^a{it}$"))).count();
        assert!((1_000..=MAX_PATTERNS_KIB / BUILD_MEMORY_FACTOR).contains(&of_many), "{of_many}");
        // The limit also applies to short patterns, and to repetitions of the same one.
        let mut patterns = PatternBudget::default();
        let of_large = (0..1_000).filter(|_| patterns.accept("^[01]{3000}$")).count();
        assert!((1..=MAX_PATTERNS_KIB / 64).contains(&of_large), "{of_large}");
    }
}
