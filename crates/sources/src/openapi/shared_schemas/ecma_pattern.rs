//! Detects which patterns are regular expressions of ECMA-262, the dialect that JSON Schema requires.

/// Whether a `pattern` is probably a regular expression of ECMA-262.
pub(super) fn is_ecma_pattern(pattern: &str) -> bool {
    if 10_000 < pattern.len() || has_foreign_syntax(pattern) {
        return false;
    }
    // ECMA-262 has look-around and back-references, but the linear-time parser does not: check only the brackets.
    if ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|around| pattern.contains(around)) {
        return has_balanced_brackets(pattern);
    }
    let parsed = regex_syntax::ast::parse::ParserBuilder::new().nest_limit(100).build();
    let mut parser = parsed;
    parser.parse(pattern).is_ok() || (has_back_reference(pattern) && has_balanced_brackets(pattern))
}

/// Whether a pattern uses constructs of PCRE, Python or Rust that ECMA-262 lacks.
fn has_foreign_syntax(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(', '[']) {
        let (_, from) = rest.split_at(at);
        let mut following = from.chars();
        let opening = following.next();
        let next = following.next();
        let after = following.next();
        let foreign = match (opening, next) {
            (Some('\\'), Some(c)) => {
                matches!(c, 'A' | 'z' | 'Z' | 'G' | 'Q' | 'E' | 'h' | 'R' | 'K' | 'X')
            }
            (Some('('), Some('?')) => !matches!(after, Some(':' | '=' | '!' | '<')),
            (Some('['), Some('[')) => after == Some(':'),
            _ => false,
        };
        if foreign {
            return true;
        }
        // Skip an escaped character.
        let step = match opening {
            Some('\\') => 1 + next.map_or(0, char::len_utf8),
            _ => 1,
        };
        rest = from.get(step..).unwrap_or_default();
    }
    ["*+", "++", "?+", "}+"].iter().any(|possessive| pattern.contains(possessive))
        && !pattern.contains('[')
}

fn has_back_reference(pattern: &str) -> bool {
    pattern.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && (b'1'..=b'9').contains(&pair[1]))
        || pattern.contains("\\k<")
}

/// Whether parentheses and brackets are balanced.
fn has_balanced_brackets(pattern: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0_i32, false, false);
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !in_class && !escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ecma_patterns_are_portable() {
        for pattern in [
            "^[a-z]+$",
            r"^\d{3}-\d{4}$",
            "(?=a)b",
            "(?<year>\\d+)",
            r"(a)\1",
            r"[\w.+-]+@x",
            "",
            "a|b",
        ] {
            assert!(is_ecma_pattern(pattern), "{pattern}");
        }
    }

    #[test]
    fn other_dialects_and_invalid_patterns_are_not_portable() {
        for pattern in [
            "^(?<year>\\d{4})(?i)x[[:alpha:]]$",
            "(?i)abc",
            "\\Aabc\\z",
            "[a-",
            "(",
            "a)",
            "(?P<n>x)",
            "(?>a)",
            "a++",
            "*a",
            "(?#c)",
            "(?=a",
            "[[:digit:]]",
        ] {
            assert!(!is_ecma_pattern(pattern), "{pattern}");
        }
    }
}
