//! Regular expressions of a schema: checked by an engine that takes linear time, or not at all.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Regex};
use serde_json::json;

/// How large a compiled pattern may be, in KiB, the sizes that are told apart, and how large all of a schema may be.
const LIMIT: usize = 256;
const SIZES: [usize; 7] = [4, 8, 16, 32, 64, 128, LIMIT];
const ALL: usize = 8 * 1024;
/// How long one may be, and all of a schema together, in bytes: to compile one takes a time that grows with its square.
const LENGTH: usize = 1024;
const LENGTHS: usize = 32 * 1024;

/// The patterns of a schema: how many more there may be, and how large they are once they are compiled.
#[derive(Debug)]
pub(super) struct Patterns {
    bytes_left: usize,
    kib_left: usize,
    sizes: HashMap<String, usize>,
}

impl Default for Patterns {
    fn default() -> Self {
        Self::within(LENGTHS)
    }
}

impl Patterns {
    /// None yet, and all together no longer than this.
    pub(super) fn within(bytes: usize) -> Self {
        Self { bytes_left: bytes, kib_left: ALL, sizes: HashMap::new() }
    }

    /// Takes one more, unless it looks ahead or back, refers back, is too large or one too many, or is no pattern.
    pub(super) fn take(&mut self, pattern: &str) -> bool {
        if LENGTH < pattern.len() || self.bytes_left < pattern.len() {
            return false;
        }
        self.bytes_left -= pattern.len();
        let size = match self.sizes.get(pattern) {
            Some(size) => Some(*size),
            None => SIZES.into_iter().find(|size| fits(pattern, *size)),
        };
        // One that stands twice is compiled twice.
        let Some(left) = size.and_then(|size| self.kib_left.checked_sub(size)) else {
            return false;
        };
        self.kib_left = left;
        self.sizes.extend(size.map(|size| (pattern.to_owned(), size)));
        true
    }

    /// How large one is at most, in KiB. One that was not taken stands where no schema is looked for, and may be as large
    /// as any.
    pub(super) fn size_of(&self, pattern: &str) -> usize {
        self.sizes.get(pattern).copied().unwrap_or(LIMIT)
    }

    /// How large all are at most, in KiB.
    pub(super) fn size(&self) -> usize {
        ALL - self.kib_left
    }
}

pub(super) fn options() -> PatternOptions<Regex> {
    of_size(LIMIT)
}

fn of_size(size: usize) -> PatternOptions<Regex> {
    PatternOptions::regex().size_limit(size * 1024)
}

fn fits(pattern: &str, size: usize) -> bool {
    let schema = json!({"pattern": pattern});
    jsonschema::options().with_pattern_options(of_size(size)).build(&schema).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_of_patterns_how_large_they_are() {
        let mut patterns = Patterns::default();
        let some = ["^[a-z]+$", "^[0-9a-f]{64}$", "^[01]*1[01]{3000}[23]$"];
        assert!(some.iter().all(|pattern| patterns.take(pattern)));
        assert_eq!(some.map(|pattern| patterns.size_of(pattern)), [4, 8, 256]);
        assert_eq!(patterns.size_of("of a default, perhaps"), LIMIT);
        assert_eq!(patterns.size(), 4 + 8 + 256);
    }

    #[test]
    fn long_patterns_and_too_many_are_not_taken() {
        let mut patterns = Patterns::default();
        assert!(!patterns.take(&"(a|b|ab|\\w)*".repeat(100)));
        assert!(!patterns.take("(?=a)b") && !patterns.take("("));
        let of_many = (0..10_000).filter(|it| patterns.take(&format!("^a{it}$"))).count();
        assert!((1_000..=ALL / SIZES[0]).contains(&of_many), "{of_many}");
        // However short they are, and the same one again.
        let mut patterns = Patterns::default();
        let of_large = (0..1_000).filter(|_| patterns.take("^[01]{3000}$")).count();
        assert!((1..=ALL / 64).contains(&of_large), "{of_large}");
    }
}
