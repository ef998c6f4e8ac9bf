//! An error and its causes, as people read them.

use std::error::Error;

/// The message and its causes in one line, from the outside to the innermost; what a message repeats is said once.
pub fn sentence(error: &dyn Error) -> String {
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
