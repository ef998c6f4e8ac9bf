//! A label, set on tools by an admin.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DisplayName;

/// What an admin says of a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelProfile {
    /// For people.
    pub name: DisplayName,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// How it is drawn.
    #[serde(default)]
    pub colour: LabelColour,
}

/// `#rrggbb`
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("title" = "a colour, `#rrggbb`", "pattern" = "^#[0-9A-Fa-f]{6}$"))]
pub struct LabelColour(u32);

/// The error for a string that is not a colour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a colour is written `#rrggbb`")]
pub struct InvalidColour;

impl Default for LabelColour {
    fn default() -> Self {
        Self(0x80_80_80)
    }
}
impl FromStr for LabelColour {
    type Err = InvalidColour;

    fn from_str(text: &str) -> Result<Self, InvalidColour> {
        let digits = text.strip_prefix('#').ok_or(InvalidColour)?;
        if digits.len() != 6 || !digits.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(InvalidColour);
        }
        u32::from_str_radix(digits, 16).map(Self).map_err(|_| InvalidColour)
    }
}
impl TryFrom<String> for LabelColour {
    type Error = InvalidColour;

    fn try_from(text: String) -> Result<Self, InvalidColour> {
        text.parse()
    }
}
impl From<LabelColour> for String {
    fn from(colour: LabelColour) -> Self {
        colour.to_string()
    }
}
impl fmt::Display for LabelColour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06x}", self.0)
    }
}
impl fmt::Debug for LabelColour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_six_hexadecimal_digits() {
        assert_eq!("#00ff7F".parse::<LabelColour>().unwrap().to_string(), "#00ff7f");
        for text in ["red", "#fff", "#gggggg", "00ff7f", "#+0ff7f"] {
            assert_eq!(text.parse::<LabelColour>(), Err(InvalidColour), "{text}");
        }
    }
}
