//! Writes the URL of an operation as a template: literal text, and an expression for each path parameter.
//!
//! A query in the path is part of every request. A fragment only distinguishes operations and is dropped.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use url::Url;

use super::parameter::Parameter;
use super::server::{Piece, literal_path, pieces};
use super::template::{argument, push_expression, push_literal, quoted};

/// The parts of an operation's URL.
pub(super) struct Address<'a> {
    pub base: &'a str,
    pub path: &'a str,
    /// By the name in the path: the parameter and its argument.
    pub in_path: BTreeMap<&'a str, (&'a Parameter<'a>, &'a str)>,
    /// The expressions that write the query parameters.
    pub queries: Vec<String>,
}

/// Splits a path into the path itself and its fixed query.
fn parts(path: &str) -> (&str, &str) {
    let path = path.split_once('#').map_or(path, |(path, _)| path);
    path.split_once('?').unwrap_or((path, ""))
}

/// The parameter names in a path.
pub(super) fn path_names(path: &str) -> impl Iterator<Item = &str> {
    let (path, fixed) = parts(path);
    pieces(path).chain(pieces(fixed)).filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) => None,
    })
}

/// Whether a URL parser leaves the URL unchanged; it would resolve the segments `.`, `..` and `%2e`.
pub(super) fn is_readable(base: &str, path: &str) -> bool {
    let (path, _) = parts(path);
    let host = if base.contains("://") { "" } else { "https://host.invalid" };
    let mut written = format!("{host}{base}{}", first_slash(path));
    for piece in pieces(path) {
        match piece {
            Piece::Text(text) => written.push_str(&literal_path(text)),
            Piece::Name(_) => written.push('x'),
        }
    }
    Url::parse(&written).is_ok_and(|url| url.as_str() == written)
}

fn first_slash(path: &str) -> &'static str {
    if path.starts_with('/') { "" } else { "/" }
}

impl Address<'_> {
    pub(super) fn template(&self) -> String {
        let (path, fixed) = parts(self.path);
        let mut template = String::new();
        push_literal(&mut template, self.base);
        template.push_str(first_slash(path));
        for piece in pieces(path) {
            match piece {
                Piece::Text(text) => push_literal(&mut template, &literal_path(text)),
                Piece::Name(name) => {
                    let (parameter, argument_name) = self.in_path[name];
                    push_expression(&mut template, &parameter.expression(argument_name));
                }
            }
        }
        let pairs = fixed.split('&').filter(|pair| !pair.is_empty()).map(|pair| self.fixed(pair));
        let pairs: Vec<String> = pairs.chain(self.queries.iter().cloned()).collect();
        if !pairs.is_empty() {
            push_expression(&mut template, &format!("query({})", pairs.join(", ")));
        }
        template
    }

    /// The expression for a pair of the path's own query.
    fn fixed(&self, pair: &str) -> String {
        if !pieces(pair).any(|piece| matches!(piece, Piece::Name(_))) {
            return quoted(&literal_path(pair));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        format!("form({}, {})", self.joined(name), self.joined(value))
    }

    /// The expression for unencoded text with arguments in it.
    fn joined(&self, text: &str) -> String {
        let part = |piece| match piece {
            Piece::Text(text) => quoted(&percent_decode_str(text).decode_utf8_lossy()),
            Piece::Name(name) => argument(self.in_path[name].1),
        };
        let parts: Vec<String> = pieces(text).map(part).collect();
        format!("join({})", parts.join(", "))
    }
}
