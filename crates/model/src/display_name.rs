//! A display name given by a person; never used as an id.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest name, in bytes.
const LIMIT: usize = 200;

/// One to 200 bytes of printable text without white space around it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("minLength" = 1, "maxLength" = 200))]
pub struct DisplayName(Box<str>);

/// The error for a string that is not a display name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {LIMIT} bytes of printable text and is not only white space")]
pub struct InvalidName;

impl DisplayName {
    /// The name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for DisplayName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let text = text.trim();
        if text.is_empty() || LIMIT < text.len() || text.chars().any(char::is_control) {
            return Err(InvalidName);
        }
        Ok(Self(text.into()))
    }
}
impl TryFrom<String> for DisplayName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}
impl From<DisplayName> for String {
    fn from(name: DisplayName) -> Self {
        name.0.into()
    }
}
impl fmt::Display for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for DisplayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_trimmed_and_printable() {
        assert_eq!("  Pet store ".parse::<DisplayName>().unwrap().as_str(), "Pet store");
        for text in ["", "  ", "a\u{1b}[31m", &"x".repeat(201)] {
            assert_eq!(text.parse::<DisplayName>(), Err(InvalidName));
        }
    }
}
