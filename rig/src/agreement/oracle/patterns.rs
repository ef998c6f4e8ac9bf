//! Patterns of selectors (G2), and regular expressions that match a whole string.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::Regex;

/// Matches a case-insensitive glob, or `regex:` and a regular expression for the whole string.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    if let Some(expression) = pattern.strip_prefix("regex:") {
        return matches_whole_text(expression, text);
    }
    let lower = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    matches_glob(&lower(pattern), &lower(text))
}

/// True if a regular expression matches the string from its first character to its last.
pub(super) fn matches_whole_text(expression: &str, text: &str) -> bool {
    thread_local! {
        static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    COMPILED.with_borrow_mut(|compiled| {
        if !compiled.contains_key(expression) {
            let whole = format!(r"\A(?:{expression})\z");
            let regex = Regex::new(&whole).expect("worlds have valid expressions only");
            compiled.insert(expression.to_owned(), regex);
        }
        compiled[expression].is_match(text)
    })
}

/// Matches a glob. Braces without a comma are literal, because paths contain them: `/orders/{id}`.
fn matches_glob(pattern: &[char], text: &[char]) -> bool {
    let Some((first, rest)) = pattern.split_first() else { return text.is_empty() };
    match first {
        '*' => (0..=text.len()).any(|skipped| matches_glob(rest, &text[skipped..])),
        '?' => !text.is_empty() && matches_glob(rest, &text[1..]),
        '[' => {
            let (class, rest) = split_at_delimiter(']', rest);
            !text.is_empty() && is_in_class(class, text[0]) && matches_glob(rest, &text[1..])
        }
        '{' if split_at_delimiter('}', rest).0.contains(&',') => {
            let (choices, rest) = split_at_delimiter('}', rest);
            choices.split(|c| *c == ',').any(|choice| matches_glob(&[choice, rest].concat(), text))
        }
        literal => text.first() == Some(literal) && matches_glob(rest, &text[1..]),
    }
}

fn split_at_delimiter(end: char, pattern: &[char]) -> (&[char], &[char]) {
    let place = pattern.iter().position(|c| *c == end).expect("worlds have valid patterns only");
    (&pattern[..place], &pattern[place + 1..])
}

fn is_in_class(class: &[char], c: char) -> bool {
    if let ['!', others @ ..] = class {
        return !is_in_class(others, c);
    }
    match class {
        [] => false,
        [from, '-', to, others @ ..] => (from..=to).contains(&&c) || is_in_class(others, c),
        [one, others @ ..] => *one == c || is_in_class(others, c),
    }
}
