//! The error of a command: one sentence for the user.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct XtaskError(String);

impl XtaskError {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for XtaskError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<std::io::Error> for XtaskError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}
