//! The URL of a request. The compiled template fixes its origin; arguments only fill in path and query.
//!
//! The template must start with a complete, literal origin. After rendering, the URL must have the same origin and the
//! same number of segments, none of them empty, `.` or `..`, and a URL parser must leave it unchanged. Therefore the
//! checked URL is the URL that is sent.

use percent_encoding::utf8_percent_encode;
use upstream::egress::MAX_URL;
use url::{Position, Url};

use super::TemplateError;
use super::compiled_template::{CompiledPart, CompiledTemplate, TemplateExpression};
use super::encoded_piece::{EncodedPiece, TemplatePosition};
use super::template_context::TemplateContext;
use super::value_style::{NOT_IN_PATHS, NOT_IN_QUERIES};

/// Approximate budget of argument bytes for a URL. The rendered URL is checked exactly, against [`MAX_URL`].
pub(super) const ADDRESS_BUDGET: usize = 64 * 1024;

pub(super) struct AddressTemplate {
    origin: Box<str>,
    /// The path, and a query that is fixed or ends the template.
    text: CompiledTemplate,
    /// The segments of the path, with `x` for every expression.
    segments: Vec<Box<str>>,
}

impl AddressTemplate {
    pub(super) fn compile(template: &str, place: TemplatePosition) -> Result<Self, TemplateError> {
        let mut text = CompiledTemplate::compile(template, place)?;
        let origin = take_origin(&mut text)?;
        cut_fragment(&mut text);
        encode_literals(&mut text)?;
        let shape = address_shape(&text)?;
        let written = format!("{origin}{shape}");
        if !Url::parse(&written).is_ok_and(|url| url.as_str() == written) {
            return Err(address_error("has a segment `.` or `..`, or cannot be read"));
        }
        let segments = path_of(&shape).split('/').map(Into::into).collect();
        Ok(Self { origin, text, segments })
    }

    pub(super) fn render(&self, seen: &TemplateContext<'_>) -> Result<Url, TemplateError> {
        let mut written = self.origin.to_string();
        for stretch in &self.text.parts {
            match stretch {
                CompiledPart::Literal(literal) => written.push_str(literal),
                CompiledPart::Expression(formula) => {
                    written.push_str(&render_expression(formula, seen)?)
                }
            }
        }
        if MAX_URL < written.len() {
            return Err(argument_error(&format!(
                "would make the address longer than {MAX_URL} bytes"
            )));
        }
        let (_, target) = written.split_at(self.origin.len());
        self.check_segments(path_of(target))?;
        match Url::parse(&written) {
            Ok(url) if url.as_str() == written && url[..Position::BeforePath] == *self.origin => {
                Ok(url)
            }
            Ok(_) | Err(_) => Err(address_error("would not be read as it is written")),
        }
    }

    fn check_segments(&self, path: &str) -> Result<(), TemplateError> {
        if path.split('/').count() != self.segments.len() {
            return Err(address_error("would have another number of segments"));
        }
        for (segment, shape) in path.split('/').zip(&self.segments) {
            if matches!(segment, "." | "..") || segment.is_empty() && !shape.is_empty() {
                return Err(argument_error("would make a segment of the path empty, `.` or `..`"));
            }
        }
        Ok(())
    }
}

/// The text of an expression. A missing value is only possible for a `query(…)` without pairs; others were rejected.
fn render_expression(
    formula: &TemplateExpression,
    seen: &TemplateContext<'_>,
) -> Result<String, TemplateError> {
    match formula.evaluate(seen)? {
        EncodedPiece::Path(text) | EncodedPiece::Query(text) => Ok(text),
        _ => Ok(String::new()),
    }
}

/// Removes the origin from the first literal and returns it in normalized form.
fn take_origin(text: &mut CompiledTemplate) -> Result<Box<str>, TemplateError> {
    let rule = "must begin with a fixed `http://` or `https://` origin, without a user and followed by `/` or `?`";
    let is_alone = text.parts.len() == 1;
    let Some(CompiledPart::Literal(literal)) = text.parts.first_mut() else {
        return Err(address_error(rule));
    };
    let (scheme, behind) = literal.split_once("://").ok_or(address_error(rule))?;
    let (authority, target) = match behind.find(['/', '?', '#']) {
        Some(end) => behind.split_at(end),
        None if is_alone => (behind, ""),
        None => return Err(address_error(rule)),
    };
    if !matches!(scheme, "http" | "https")
        || authority.contains(['@', '\\'])
        || authority.contains(char::is_whitespace)
    {
        return Err(address_error(rule));
    }
    let url = Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| address_error(rule))?;
    let slash = if target.starts_with('/') { "" } else { "/" };
    *literal = format!("{slash}{target}").into();
    Ok(url.origin().ascii_serialization().into())
}

/// Removes the fragment, which is never sent (RFC 9110, 7.1).
fn cut_fragment(text: &mut CompiledTemplate) {
    for index in 0..text.parts.len() {
        if let CompiledPart::Literal(literal) = &mut text.parts[index]
            && let Some((before, _)) = literal.split_once('#')
        {
            *literal = before.into();
            text.parts.truncate(index + 1);
            return;
        }
    }
}

fn encode_literals(text: &mut CompiledTemplate) -> Result<(), TemplateError> {
    let mut in_query = false;
    for stretch in &mut text.parts {
        let CompiledPart::Literal(literal) = stretch else { continue };
        if literal.contains(|c: char| c.is_control() || c == '\\') {
            return Err(address_error(r"has a control character or `\`"));
        }
        let (path, query) = match literal.split_once('?') {
            _ if in_query => ("", Some(&**literal)),
            Some((path, query)) => (path, Some(query)),
            None => (&**literal, None),
        };
        let mark = if in_query || query.is_none() { "" } else { "?" };
        let path = utf8_percent_encode(path, NOT_IN_PATHS);
        let tail = utf8_percent_encode(query.unwrap_or_default(), NOT_IN_QUERIES);
        in_query |= query.is_some();
        *literal = format!("{path}{mark}{tail}").into();
    }
    Ok(())
}

/// The literal text with `x` for every expression, without a final `query(…)`.
fn address_shape(text: &CompiledTemplate) -> Result<String, TemplateError> {
    let mut shape = String::new();
    let last = text.parts.len() - 1;
    for (index, stretch) in text.parts.iter().enumerate() {
        match stretch {
            CompiledPart::Literal(literal) => shape.push_str(literal),
            CompiledPart::Expression(formula) if !formula.uses_name("query") => shape.push('x'),
            CompiledPart::Expression(_) if index == last && !shape.contains('?') => {}
            CompiledPart::Expression(_) => {
                return Err(address_error(
                    "must end with `query(…)`, which also holds what is fixed",
                ));
            }
        }
    }
    Ok(shape)
}

fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

fn argument_error(problem: &str) -> TemplateError {
    let argument = "an argument".to_owned();
    TemplateError::Argument { argument, problem: problem.to_owned() }
}

fn address_error(rule: &'static str) -> TemplateError {
    TemplateError::Address { rule }
}
