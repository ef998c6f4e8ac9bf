//! The body of a request in its encoding.

use model::BodyEncoding;
use serde_json::Value as Json;

use super::compiled_template::{CompiledPart, CompiledTemplate};
use super::encoded_piece::{EncodedPiece, TemplatePosition};
use super::template_context::TemplateContext;
use super::{TemplateError, multipart};

/// The maximum number of argument bytes in a body.
pub(super) const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct BodyTemplate {
    text: CompiledTemplate,
    encoding: BodyEncoding,
}

pub(super) struct RenderedBody {
    pub(super) bytes: Vec<u8>,
    /// The default media type of the encoding; a header template can set a more exact one.
    pub(super) content_type: &'static str,
    pub(super) boundary: Option<String>,
}

impl BodyTemplate {
    pub(super) fn compile(template: &str, encoding: BodyEncoding) -> Result<Self, TemplateError> {
        let body = Self {
            text: CompiledTemplate::compile(template, TemplatePosition::Body(encoding))?,
            encoding,
        };
        match encoding {
            BodyEncoding::Json if !body.is_json() => Err(TemplateError::Body {
                rule: "is no JSON: an expression in it is written as JSON, with its quotes",
            }),
            BodyEncoding::Multipart if body.text.parts.len() != 1 => {
                Err(TemplateError::Body { rule: "must be `multipart(…)` alone" })
            }
            BodyEncoding::Json
            | BodyEncoding::Form
            | BodyEncoding::Multipart
            | BodyEncoding::Text
            | BodyEncoding::Bytes => Ok(body),
        }
    }

    /// Whether the template is valid JSON with a string for every expression. Then no expression is inside a JSON
    /// string, where its value could end that string.
    fn is_json(&self) -> bool {
        let mut probe = String::new();
        for stretch in &self.text.parts {
            match stretch {
                CompiledPart::Literal(literal) => probe.push_str(literal),
                CompiledPart::Expression(_) => probe.push_str("\"x\""),
            }
        }
        serde_json::from_str::<Json>(&probe).is_ok()
    }

    pub(super) fn uses_name(&self, name: &str) -> bool {
        self.text.uses_name(name)
    }

    fn rendered_body(&self, bytes: Vec<u8>, boundary: Option<String>) -> RenderedBody {
        RenderedBody { bytes, content_type: self.content_type(), boundary }
    }

    fn content_type(&self) -> &'static str {
        match self.encoding {
            BodyEncoding::Json => "application/json",
            BodyEncoding::Form => "application/x-www-form-urlencoded",
            BodyEncoding::Multipart => "multipart/form-data",
            BodyEncoding::Text => "text/plain; charset=utf-8",
            BodyEncoding::Bytes => "application/octet-stream",
        }
    }

    /// The rendered body, or `None` if there is nothing to send.
    pub(super) fn render(
        &self,
        seen: &TemplateContext<'_>,
    ) -> Result<Option<RenderedBody>, TemplateError> {
        let mut bytes = Vec::new();
        let is_alone = self.text.parts.len() == 1;
        for stretch in &self.text.parts {
            match stretch {
                CompiledPart::Literal(literal) => bytes.extend(literal.bytes()),
                CompiledPart::Expression(formula) => match formula.evaluate(seen)? {
                    EncodedPiece::Json(more) | EncodedPiece::Body(more) => bytes.extend(more),
                    EncodedPiece::Multipart(parts) => {
                        let (bytes, boundary) = multipart::encode_parts(&parts);
                        return Ok(Some(self.rendered_body(bytes, Some(boundary))));
                    }
                    _ if is_alone => return Ok(None),
                    _ => {
                        let problem = "is missing".to_owned();
                        return Err(TemplateError::Argument {
                            argument: formula.argument_name(),
                            problem,
                        });
                    }
                },
            }
        }
        Ok(Some(self.rendered_body(bytes, None)))
    }
}
