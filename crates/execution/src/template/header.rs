//! The template of a header: whether arguments may set it, and its value.

use model::header::{is_ours, is_token};

use super::TemplateError;
use super::context::Seen;
use super::piece::{Piece, Place};
use super::text::{Stretch, Text};

/// The maximum number of argument bytes in a header.
pub(super) const LIMIT: usize = 64 * 1024;

pub(super) struct Header {
    pub(super) name: Box<str>,
    text: Text,
}

impl Header {
    pub(super) fn compile(name: &str, template: &str) -> Result<Self, TemplateError> {
        let refused = |rule| TemplateError::Header { name: name.escape_debug().collect(), rule };
        if !is_token(name) {
            return Err(refused("has a character that no name of a header can have"));
        }
        let is_cookie = name.eq_ignore_ascii_case("cookie");
        let place = if is_cookie { Place::CookieHeader } else { Place::Header };
        let text = Text::compile(template, place)?;
        let is_filled_in = text.formulas().next().is_some();
        if is_filled_in && is_ours(name) {
            return Err(refused("cannot be set from arguments"));
        }
        if is_cookie && is_filled_in && text.stretches.len() != 1 {
            return Err(refused("must be `cookies(…)` alone"));
        }
        let is_broken =
            |stretch: &Stretch| matches!(stretch, Stretch::Literal(text) if !is_header_text(text));
        if text.stretches.iter().any(is_broken) {
            return Err(refused("has a character that no header can have"));
        }
        Ok(Self { name: name.into(), text })
    }

    /// The value of the header, or `None` if one of its values is missing.
    pub(super) fn render(&self, seen: &Seen<'_>) -> Result<Option<String>, TemplateError> {
        let mut value = String::new();
        for stretch in &self.text.stretches {
            match stretch {
                Stretch::Literal(literal) => value.push_str(literal),
                Stretch::Formula(formula) => match formula.evaluate(seen)? {
                    Piece::Header(text) | Piece::Cookies(text) => value.push_str(&text),
                    _ => return Ok(None),
                },
            }
        }
        Ok(Some(value))
    }
}

/// Whether a text consists of visible ASCII and spaces.
pub(crate) fn is_header_text(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}
