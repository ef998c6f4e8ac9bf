//! Functions for queries and form bodies: `form` and its variants make pairs, `query` and `pairs` join them.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use percent_encoding::utf8_percent_encode;
use serde_json::Value as Json;

use super::flag_option;
use crate::template::encoded_piece::EncodedPiece;
use crate::template::template_context::{argument_failure, template_literal, value_argument};
use crate::template::value_style::{NOT_IN_QUERIES, ValueEncoding, ValueShape, value_text};

/// The maximum total length of all names of a deep object, in bytes.
const MAX_DEEP_NAMES_BYTES: usize = 1024 * 1024;

pub(super) fn register_query_functions(environment: &mut Environment<'_>) {
    let delimited = |separator: &'static str, explode: bool| {
        move |state: &State<'_, '_>, name: &str, value: Value, options: Kwargs| {
            let explode = flag_option(&options, "explode", explode)?;
            encode_delimited(state, QueryParameter { name, value, separator, explode }, &options)
        }
    };
    environment.add_function("form", delimited(",", true));
    environment.add_function("space_delimited", delimited("%20", false));
    environment.add_function("pipe_delimited", delimited("%7C", false));
    environment.add_function("deep_object", encode_deep_object);
    environment.add_function("json_pair", encode_json_pair);
    environment.add_function("query", build_query);
    environment.add_function("pairs", build_pairs);
}

struct QueryParameter<'a> {
    name: &'a str,
    value: Value,
    separator: &'static str,
    explode: bool,
}

fn encode_delimited(
    state: &State<'_, '_>,
    parameter: QueryParameter<'_>,
    options: &Kwargs,
) -> Result<EncodedPiece, Error> {
    let encoding = query_encoding(options)?;
    let whole = flag_option(options, "whole", false)?;
    options.assert_all_used()?;
    let value = value_argument(state, &parameter.value)?;
    let name = encoding.encode_name(parameter.name);
    let shape = match whole {
        true => ValueShape::from_whole_value(value.as_ref(), encoding),
        false => ValueShape::from_value(value.as_ref(), encoding),
    };
    Ok(pair_piece(&shape.to_pairs(&name, parameter.separator, parameter.explode)))
}

/// `a[b]=x`, and deeper where OpenAPI defines nothing: `a[b][c]=x`, `a[b][0]=x`. Brackets are percent-encoded.
fn encode_deep_object(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let encoding = query_encoding(&options)?;
    options.assert_all_used()?;
    let mut nest =
        DeepObjectWriter { encoding, pairs: Vec::new(), remaining_bytes: MAX_DEEP_NAMES_BYTES };
    if let Some(value) = value_argument(state, &value)? {
        nest.add_value(&encoding.encode_name(name), &value)?;
    }
    Ok(pair_piece(&nest.pairs))
}

struct DeepObjectWriter {
    encoding: ValueEncoding,
    pairs: Vec<String>,
    /// The remaining bytes of names. Every pair repeats the names of its parents, so a small value can become a large
    /// one.
    remaining_bytes: usize,
}

impl DeepObjectWriter {
    fn add_value(&mut self, name: &str, value: &Json) -> Result<(), Error> {
        let left = self.remaining_bytes.checked_sub(name.len());
        self.remaining_bytes = left.ok_or_else(|| argument_failure("is too large to send"))?;
        match value {
            Json::Null => {}
            Json::Object(members) => {
                for (member, value) in members {
                    self.add_value(
                        &format!("{name}%5B{}%5D", self.encoding.encode_name(member)),
                        value,
                    )?;
                }
            }
            Json::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.add_value(&format!("{name}%5B{index}%5D"), value)?;
                }
            }
            Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                self.pairs
                    .push(format!("{name}={}", self.encoding.encode_value(&value_text(value))));
            }
        }
        Ok(())
    }
}

fn encode_json_pair(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let encoding = query_encoding(&options)?;
    options.assert_all_used()?;
    let value = value_argument(state, &value)?.filter(|value| !value.is_null());
    let pairs: Vec<_> = value
        .iter()
        .map(|value| {
            format!("{}={}", encoding.encode_name(name), encoding.encode_value(&value.to_string()))
        })
        .collect();
    Ok(pair_piece(&pairs))
}

fn build_query(pieces: Rest<Value>) -> Result<EncodedPiece, Error> {
    Ok(join_pairs(&pieces)?.map_or(EncodedPiece::Nothing, query_piece))
}

/// A query of joined pairs.
pub(in crate::template) fn query_piece(pairs: String) -> EncodedPiece {
    if pairs.is_empty() { EncodedPiece::Nothing } else { EncodedPiece::Query(format!("?{pairs}")) }
}

fn build_pairs(pieces: Rest<Value>) -> Result<EncodedPiece, Error> {
    Ok(join_pairs(&pieces)?
        .map_or(EncodedPiece::Nothing, |pairs| EncodedPiece::Body(pairs.into_bytes())))
}

fn join_pairs(pieces: &[Value]) -> Result<Option<String>, Error> {
    let mut texts = Vec::new();
    for piece in pieces {
        match (EncodedPiece::from_value(piece), template_literal(piece)) {
            (Some(EncodedPiece::Pair(text)), _) => texts.push(text.clone()),
            (Some(EncodedPiece::Nothing), _) | (None, Some("")) => {}
            (None, Some(fixed)) => {
                texts.push(utf8_percent_encode(fixed, NOT_IN_QUERIES).to_string());
            }
            (Some(_), _) | (None, None) => {
                return Err(argument_failure("is not encoded for a query"));
            }
        }
    }
    Ok(Some(texts.join("&")).filter(|joined| !joined.is_empty()))
}

fn pair_piece(pairs: &[String]) -> EncodedPiece {
    if pairs.is_empty() { EncodedPiece::Nothing } else { EncodedPiece::Pair(pairs.join("&")) }
}

fn query_encoding(options: &Kwargs) -> Result<ValueEncoding, Error> {
    Ok(ValueEncoding::for_query(flag_option(options, "reserved", false)?))
}
