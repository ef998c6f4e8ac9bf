//! The URL of a request. The compiled template fixes its origin; arguments only fill in path and query.
//!
//! The template must start with a complete, literal origin. After rendering, the URL must have the same origin and the
//! same number of segments, none of them empty, `.` or `..`, and a URL parser must leave it unchanged. Therefore the
//! checked URL is the URL that is sent.

use percent_encoding::utf8_percent_encode;
use upstream::egress::MAX_URL;
use url::{Position, Url};

use super::TemplateError;
use super::context::Seen;
use super::piece::{Piece, Place};
use super::style::{NOT_IN_PATHS, NOT_IN_QUERIES};
use super::text::{Formula, Stretch, Text};

/// Approximate budget of argument bytes for a URL. The rendered URL is checked exactly, against [`MAX_URL`].
pub(super) const BUDGET: usize = 64 * 1024;

pub(super) struct Address {
    origin: Box<str>,
    /// The path, and a query that is fixed or ends the template.
    text: Text,
    /// The segments of the path, with `x` for every expression.
    segments: Vec<Box<str>>,
}

impl Address {
    pub(super) fn compile(template: &str, place: Place) -> Result<Self, TemplateError> {
        let mut text = Text::compile(template, place)?;
        let origin = take_origin(&mut text)?;
        cut_fragment(&mut text);
        encode_literals(&mut text)?;
        let shape = shape(&text)?;
        let written = format!("{origin}{shape}");
        if !Url::parse(&written).is_ok_and(|url| url.as_str() == written) {
            return Err(broken("has a segment `.` or `..`, or cannot be read"));
        }
        let segments = path(&shape).split('/').map(Into::into).collect();
        Ok(Self { origin, text, segments })
    }

    pub(super) fn render(&self, seen: &Seen<'_>) -> Result<Url, TemplateError> {
        let mut written = self.origin.to_string();
        for stretch in &self.text.stretches {
            match stretch {
                Stretch::Literal(literal) => written.push_str(literal),
                Stretch::Formula(formula) => written.push_str(&filled(formula, seen)?),
            }
        }
        if MAX_URL < written.len() {
            return Err(refused(&format!("would make the address longer than {MAX_URL} bytes")));
        }
        let (_, target) = written.split_at(self.origin.len());
        self.check_segments(path(target))?;
        match Url::parse(&written) {
            Ok(url) if url.as_str() == written && url[..Position::BeforePath] == *self.origin => {
                Ok(url)
            }
            Ok(_) | Err(_) => Err(broken("would not be read as it is written")),
        }
    }

    fn check_segments(&self, path: &str) -> Result<(), TemplateError> {
        if path.split('/').count() != self.segments.len() {
            return Err(broken("would have another number of segments"));
        }
        for (segment, shape) in path.split('/').zip(&self.segments) {
            if matches!(segment, "." | "..") || segment.is_empty() && !shape.is_empty() {
                return Err(refused("would make a segment of the path empty, `.` or `..`"));
            }
        }
        Ok(())
    }
}

/// The text of an expression. A missing value is only possible for a `query(…)` without pairs; others were rejected.
fn filled(formula: &Formula, seen: &Seen<'_>) -> Result<String, TemplateError> {
    match formula.evaluate(seen)? {
        Piece::Path(text) | Piece::Query(text) => Ok(text),
        _ => Ok(String::new()),
    }
}

/// Removes the origin from the first literal and returns it in normalized form.
fn take_origin(text: &mut Text) -> Result<Box<str>, TemplateError> {
    let rule = "must begin with a fixed `http://` or `https://` origin, without a user and followed by `/` or `?`";
    let is_alone = text.stretches.len() == 1;
    let Some(Stretch::Literal(literal)) = text.stretches.first_mut() else {
        return Err(broken(rule));
    };
    let (scheme, behind) = literal.split_once("://").ok_or(broken(rule))?;
    let (authority, target) = match behind.find(['/', '?', '#']) {
        Some(end) => behind.split_at(end),
        None if is_alone => (behind, ""),
        None => return Err(broken(rule)),
    };
    if !matches!(scheme, "http" | "https")
        || authority.contains(['@', '\\'])
        || authority.contains(char::is_whitespace)
    {
        return Err(broken(rule));
    }
    let url = Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| broken(rule))?;
    let slash = if target.starts_with('/') { "" } else { "/" };
    *literal = format!("{slash}{target}").into();
    Ok(url.origin().ascii_serialization().into())
}

/// Removes the fragment, which is never sent (RFC 9110, 7.1).
fn cut_fragment(text: &mut Text) {
    for index in 0..text.stretches.len() {
        if let Stretch::Literal(literal) = &mut text.stretches[index]
            && let Some((before, _)) = literal.split_once('#')
        {
            *literal = before.into();
            text.stretches.truncate(index + 1);
            return;
        }
    }
}

fn encode_literals(text: &mut Text) -> Result<(), TemplateError> {
    let mut in_query = false;
    for stretch in &mut text.stretches {
        let Stretch::Literal(literal) = stretch else { continue };
        if literal.contains(|c: char| c.is_control() || c == '\\') {
            return Err(broken(r"has a control character or `\`"));
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
fn shape(text: &Text) -> Result<String, TemplateError> {
    let mut shape = String::new();
    let last = text.stretches.len() - 1;
    for (index, stretch) in text.stretches.iter().enumerate() {
        match stretch {
            Stretch::Literal(literal) => shape.push_str(literal),
            Stretch::Formula(formula) if !formula.uses("query") => shape.push('x'),
            Stretch::Formula(_) if index == last && !shape.contains('?') => {}
            Stretch::Formula(_) => {
                return Err(broken("must end with `query(…)`, which also holds what is fixed"));
            }
        }
    }
    Ok(shape)
}

fn path(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

fn refused(problem: &str) -> TemplateError {
    let argument = "an argument".to_owned();
    TemplateError::Argument { argument, problem: problem.to_owned() }
}

fn broken(rule: &'static str) -> TemplateError {
    TemplateError::Address { rule }
}
