//! Formats an error with its causes for people.

use std::error::Error;

/// The message and its causes on one line, outermost first; skips a cause that is already part of the text.
pub fn format_error_chain(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !sentence.contains(&more) {
            sentence = format!("{sentence}: {more}");
        }
        cause = error.source();
    }
    sentence
}
