//! Functions for queries and form bodies: `form` and its variants make pairs, `query` and `pairs` join them.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use percent_encoding::utf8_percent_encode;
use serde_json::Value as Json;

use super::flag;
use crate::template::context::{failed, given, literal};
use crate::template::piece::Piece;
use crate::template::style::{Encoding, NOT_IN_QUERIES, Shape, text};

/// The maximum total length of all names of a deep object, in bytes.
const NESTED: usize = 1024 * 1024;

pub(super) fn register(environment: &mut Environment<'_>) {
    let delimited = |separator: &'static str, explode: bool| {
        move |state: &State<'_, '_>, name: &str, value: Value, options: Kwargs| {
            let explode = flag(&options, "explode", explode)?;
            delimited(state, Parameter { name, value, separator, explode }, &options)
        }
    };
    environment.add_function("form", delimited(",", true));
    environment.add_function("space_delimited", delimited("%20", false));
    environment.add_function("pipe_delimited", delimited("%7C", false));
    environment.add_function("deep_object", deep_object);
    environment.add_function("json_pair", json_pair);
    environment.add_function("query", query);
    environment.add_function("pairs", pairs);
}

struct Parameter<'a> {
    name: &'a str,
    value: Value,
    separator: &'static str,
    explode: bool,
}

fn delimited(
    state: &State<'_, '_>,
    parameter: Parameter<'_>,
    options: &Kwargs,
) -> Result<Piece, Error> {
    let encoding = encoding(options)?;
    let whole = flag(options, "whole", false)?;
    options.assert_all_used()?;
    let value = given(state, &parameter.value)?;
    let name = encoding.name(parameter.name);
    let shape = match whole {
        true => Shape::whole(value.as_ref(), encoding),
        false => Shape::of(value.as_ref(), encoding),
    };
    Ok(pair(&shape.pairs(&name, parameter.separator, parameter.explode)))
}

/// `a[b]=x`, and deeper where OpenAPI defines nothing: `a[b][c]=x`, `a[b][0]=x`. Brackets are percent-encoded.
fn deep_object(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<Piece, Error> {
    let encoding = encoding(&options)?;
    options.assert_all_used()?;
    let mut nest = Nest { encoding, pairs: Vec::new(), left: NESTED };
    if let Some(value) = given(state, &value)? {
        nest.add(&encoding.name(name), &value)?;
    }
    Ok(pair(&nest.pairs))
}

struct Nest {
    encoding: Encoding,
    pairs: Vec<String>,
    /// The remaining bytes of names. Every pair repeats the names of its parents, so a small value can become a large
    /// one.
    left: usize,
}

impl Nest {
    fn add(&mut self, name: &str, value: &Json) -> Result<(), Error> {
        let left = self.left.checked_sub(name.len());
        self.left = left.ok_or_else(|| failed("is too large to send"))?;
        match value {
            Json::Null => {}
            Json::Object(members) => {
                for (member, value) in members {
                    self.add(&format!("{name}%5B{}%5D", self.encoding.name(member)), value)?;
                }
            }
            Json::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.add(&format!("{name}%5B{index}%5D"), value)?;
                }
            }
            Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                self.pairs.push(format!("{name}={}", self.encoding.value(&text(value))));
            }
        }
        Ok(())
    }
}

fn json_pair(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<Piece, Error> {
    let encoding = encoding(&options)?;
    options.assert_all_used()?;
    let value = given(state, &value)?.filter(|value| !value.is_null());
    let pairs: Vec<_> = value
        .iter()
        .map(|value| format!("{}={}", encoding.name(name), encoding.value(&value.to_string())))
        .collect();
    Ok(pair(&pairs))
}

fn query(pieces: Rest<Value>) -> Result<Piece, Error> {
    Ok(joined(&pieces)?.map_or(Piece::Nothing, question))
}

/// A query of joined pairs.
pub(in crate::template) fn question(pairs: String) -> Piece {
    if pairs.is_empty() { Piece::Nothing } else { Piece::Query(format!("?{pairs}")) }
}

fn pairs(pieces: Rest<Value>) -> Result<Piece, Error> {
    Ok(joined(&pieces)?.map_or(Piece::Nothing, |pairs| Piece::Body(pairs.into_bytes())))
}

fn joined(pieces: &[Value]) -> Result<Option<String>, Error> {
    let mut texts = Vec::new();
    for piece in pieces {
        match (Piece::of(piece), literal(piece)) {
            (Some(Piece::Pair(text)), _) => texts.push(text.clone()),
            (Some(Piece::Nothing), _) | (None, Some("")) => {}
            (None, Some(fixed)) => {
                texts.push(utf8_percent_encode(fixed, NOT_IN_QUERIES).to_string());
            }
            (Some(_), _) | (None, None) => return Err(failed("is not encoded for a query")),
        }
    }
    Ok(Some(texts.join("&")).filter(|joined| !joined.is_empty()))
}

fn pair(pairs: &[String]) -> Piece {
    if pairs.is_empty() { Piece::Nothing } else { Piece::Pair(pairs.join("&")) }
}

fn encoding(options: &Kwargs) -> Result<Encoding, Error> {
    Ok(Encoding::of_query(flag(options, "reserved", false)?))
}
