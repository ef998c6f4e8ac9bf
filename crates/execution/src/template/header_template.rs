//! The template of a header: whether arguments may set it, and its value.

use model::header_names::{is_header_name, is_reserved_header};

use super::TemplateError;
use super::compiled_template::{CompiledPart, CompiledTemplate};
use super::encoded_piece::{EncodedPiece, TemplatePosition};
use super::template_context::TemplateContext;

/// The maximum number of argument bytes in a header.
pub(super) const MAX_HEADER_BYTES: usize = 64 * 1024;

pub(super) struct HeaderTemplate {
    pub(super) name: Box<str>,
    text: CompiledTemplate,
}

impl HeaderTemplate {
    pub(super) fn compile(name: &str, template: &str) -> Result<Self, TemplateError> {
        let refused = |rule| TemplateError::Header { name: name.escape_debug().collect(), rule };
        if !is_header_name(name) {
            return Err(refused("has a character that no name of a header can have"));
        }
        let is_cookie = name.eq_ignore_ascii_case("cookie");
        let place =
            if is_cookie { TemplatePosition::CookieHeader } else { TemplatePosition::Header };
        let text = CompiledTemplate::compile(template, place)?;
        let is_filled_in = text.expressions().next().is_some();
        if is_filled_in && is_reserved_header(name) {
            return Err(refused("cannot be set from arguments"));
        }
        if is_cookie && is_filled_in && text.parts.len() != 1 {
            return Err(refused("must be `cookies(…)` alone"));
        }
        let is_broken = |stretch: &CompiledPart| matches!(stretch, CompiledPart::Literal(text) if !is_header_text(text));
        if text.parts.iter().any(is_broken) {
            return Err(refused("has a character that no header can have"));
        }
        Ok(Self { name: name.into(), text })
    }

    /// The value of the header, or `None` if one of its values is missing.
    pub(super) fn render(
        &self,
        seen: &TemplateContext<'_>,
    ) -> Result<Option<String>, TemplateError> {
        let mut value = String::new();
        for stretch in &self.text.parts {
            match stretch {
                CompiledPart::Literal(literal) => value.push_str(literal),
                CompiledPart::Expression(formula) => match formula.evaluate(seen)? {
                    EncodedPiece::Header(text) | EncodedPiece::Cookies(text) => {
                        value.push_str(&text)
                    }
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
