//! Writes the URL of an operation as a template: literal text, and an expression for each path parameter.
//!
//! A query in the path is part of every request. A fragment only distinguishes operations and is dropped.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use url::Url;

use super::parameter::OpenApiParameter;
use super::servers::{PathPiece, encode_literal_path, split_pieces};
use super::template_writer::{argument_expression, push_expression, push_literal, string_literal};

/// The parts of an operation's URL.
pub(super) struct OperationUrl<'a> {
    pub base: &'a str,
    pub path: &'a str,
    /// By the name in the path: the parameter and its argument.
    pub in_path: BTreeMap<&'a str, (&'a OpenApiParameter<'a>, &'a str)>,
    /// The expressions that write the query parameters.
    pub queries: Vec<String>,
}

/// Splits a path into the path itself and its fixed query.
fn split_fixed_query(path: &str) -> (&str, &str) {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    path.split_once('?').unwrap_or((path, ""))
}

/// The parameter names in a path.
pub(super) fn path_names(path: &str) -> impl Iterator<Item = &str> {
    let (path, fixed) = split_fixed_query(path);
    split_pieces(path).chain(split_pieces(fixed)).filter_map(|piece| match piece {
        PathPiece::Name(name) => Some(name),
        PathPiece::Text(_) => None,
    })
}

/// Whether a URL parser leaves the URL unchanged; it would resolve the segments `.`, `..` and `%2e`.
pub(super) fn survives_url_parsing(base: &str, path: &str) -> bool {
    let (path, _) = split_fixed_query(path);
    let host = if base.contains("://") { "" } else { "https://host.invalid" };
    let mut written = format!("{host}{base}{}", leading_slash(path));
    for piece in split_pieces(path) {
        match piece {
            PathPiece::Text(text) => written.push_str(&encode_literal_path(text)),
            PathPiece::Name(_) => written.push('x'),
        }
    }
    Url::parse(&written).is_ok_and(|url| url.as_str() == written)
}

fn leading_slash(path: &str) -> &'static str {
    if path.starts_with('/') { "" } else { "/" }
}

impl OperationUrl<'_> {
    pub(super) fn to_template(&self) -> String {
        let (path, fixed) = split_fixed_query(self.path);
        let mut template = String::new();
        push_literal(&mut template, self.base);
        template.push_str(leading_slash(path));
        for piece in split_pieces(path) {
            match piece {
                PathPiece::Text(text) => push_literal(&mut template, &encode_literal_path(text)),
                PathPiece::Name(name) => {
                    let (parameter, argument_name) = self.in_path[name];
                    push_expression(&mut template, &parameter.to_expression(argument_name));
                }
            }
        }
        let pairs =
            fixed.split('&').filter(|pair| !pair.is_empty()).map(|pair| self.fixed_pair(pair));
        let pairs: Vec<String> = pairs.chain(self.queries.iter().cloned()).collect();
        if !pairs.is_empty() {
            push_expression(&mut template, &format!("query({})", pairs.join(", ")));
        }
        template
    }

    /// The expression for a pair of the path's own query.
    fn fixed_pair(&self, pair: &str) -> String {
        if !split_pieces(pair).any(|piece| matches!(piece, PathPiece::Name(_))) {
            return string_literal(&encode_literal_path(pair));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        format!("form({}, {})", self.join_expression(name), self.join_expression(value))
    }

    /// The expression for unencoded text with arguments in it.
    fn join_expression(&self, text: &str) -> String {
        let part = |piece| match piece {
            PathPiece::Text(text) => string_literal(&percent_decode_str(text).decode_utf8_lossy()),
            PathPiece::Name(name) => argument_expression(self.in_path[name].1),
        };
        let parts: Vec<String> = split_pieces(text).map(part).collect();
        format!("join({})", parts.join(", "))
    }
}
