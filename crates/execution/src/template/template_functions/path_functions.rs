//! Functions for the path: `simple`, `label` and `matrix`.
//!
//! A path parameter is always required: an empty segment would change the path.

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, State, Value};
use serde_json::Value as Json;

use super::flag_option;
use crate::template::encoded_piece::{EncodedPiece, TemplatePosition};
use crate::template::template_context::{MISSING, argument_failure, value_argument};
use crate::template::value_style::{ValueEncoding, ValueShape};

pub(super) fn register_path_functions(environment: &mut Environment<'_>) {
    environment.add_function("simple", encode_simple);
    environment.add_function("label", encode_label);
    environment.add_function("matrix", encode_matrix);
    environment.add_function(TemplatePosition::Address.function_name(), in_address);
}

fn encode_simple(
    state: &State<'_, '_>,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let explode = flag_option(&options, "explode", false)?;
    options.assert_all_used()?;
    let text = required_shape(state, &value)?.to_flat_text(",", explode);
    Ok(EncodedPiece::Path(text.unwrap_or_default()))
}

fn encode_label(
    state: &State<'_, '_>,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let explode = flag_option(&options, "explode", false)?;
    options.assert_all_used()?;
    let separator = if explode { "." } else { "," };
    let text = required_shape(state, &value)?.to_flat_text(separator, explode);
    Ok(EncodedPiece::Path(format!(".{}", text.unwrap_or_default())))
}

fn encode_matrix(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let explode = flag_option(&options, "explode", false)?;
    options.assert_all_used()?;
    let pairs = required_shape(state, &value)?.to_pairs(
        &ValueEncoding::Percent.encode_name(name),
        ",",
        explode,
    );
    Ok(EncodedPiece::Path(format!(";{}", pairs.join(";"))))
}

/// Accepts the pieces that a URL can contain. A plain value is one segment, or one value of a query.
fn in_address(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Path(_) | EncodedPiece::Query(_) | EncodedPiece::Nothing)) => {
            Ok(piece.clone())
        }
        Some(_) => Err(argument_failure("is not encoded for an address")),
        None => path_segment(value_argument(state, &value)?.as_ref()).map_err(argument_failure),
    }
}

/// Encodes a plain value in a path.
pub(in crate::template) fn path_segment(
    value: Option<&Json>,
) -> Result<EncodedPiece, &'static str> {
    Ok(EncodedPiece::Path(non_empty_shape(value)?.to_flat_text(",", false).unwrap_or_default()))
}

fn required_shape(state: &State<'_, '_>, value: &Value) -> Result<ValueShape, Error> {
    non_empty_shape(value_argument(state, value)?.as_ref()).map_err(argument_failure)
}

fn non_empty_shape(value: Option<&Json>) -> Result<ValueShape, &'static str> {
    let value = value.ok_or(MISSING)?;
    match ValueShape::from_value(Some(value), ValueEncoding::Percent) {
        ValueShape::Nothing => Err("is empty"),
        ValueShape::One(text) if text.is_empty() => Err("is empty"),
        shape @ (ValueShape::One(_) | ValueShape::List(_) | ValueShape::Object(_)) => Ok(shape),
    }
}
