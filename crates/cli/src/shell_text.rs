//! Texts that users copy or that may hold secrets.

use execution::escape_for_terminal;

/// Quotes a word for a POSIX shell, because users copy it.
pub(crate) fn shell_quote(word: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./:".contains(c);
    match !word.is_empty() && word.chars().all(is_safe) {
        true => word.to_owned(),
        false => format!("'{}'", escape_for_terminal(word).replace('\'', "'\\''")),
    }
}

/// The target without the query of a URL, which may hold secrets.
pub(crate) fn display_target(target: &str) -> String {
    match (target, target.split_once(['?', '#'])) {
        ("-", _) => "standard input".to_owned(),
        (target, Some((before, _))) if is_url(target) => before.to_owned(),
        (target, _) => target.to_owned(),
    }
}

pub(crate) fn is_url(target: &str) -> bool {
    target.contains("://")
}
