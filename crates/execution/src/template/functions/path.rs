//! Functions for the path: `simple`, `label` and `matrix`.
//!
//! A path parameter is always required: an empty segment would change the path.

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, State, Value};
use serde_json::Value as Json;

use super::flag;
use crate::template::context::{MISSING, failed, given};
use crate::template::piece::{Piece, Place};
use crate::template::style::{Encoding, Shape};

pub(super) fn register(environment: &mut Environment<'_>) {
    environment.add_function("simple", simple);
    environment.add_function("label", label);
    environment.add_function("matrix", matrix);
    environment.add_function(Place::Address.function(), in_address);
}

fn simple(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Piece, Error> {
    let explode = flag(&options, "explode", false)?;
    options.assert_all_used()?;
    let text = shape(state, &value)?.flat(",", explode);
    Ok(Piece::Path(text.unwrap_or_default()))
}

fn label(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Piece, Error> {
    let explode = flag(&options, "explode", false)?;
    options.assert_all_used()?;
    let separator = if explode { "." } else { "," };
    let text = shape(state, &value)?.flat(separator, explode);
    Ok(Piece::Path(format!(".{}", text.unwrap_or_default())))
}

fn matrix(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<Piece, Error> {
    let explode = flag(&options, "explode", false)?;
    options.assert_all_used()?;
    let pairs = shape(state, &value)?.pairs(&Encoding::Percent.name(name), ",", explode);
    Ok(Piece::Path(format!(";{}", pairs.join(";"))))
}

/// Accepts the pieces that a URL can contain. A plain value is one segment, or one value of a query.
fn in_address(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Path(_) | Piece::Query(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(failed("is not encoded for an address")),
        None => segment(given(state, &value)?.as_ref()).map_err(failed),
    }
}

/// Encodes a plain value in a path.
pub(in crate::template) fn segment(value: Option<&Json>) -> Result<Piece, &'static str> {
    Ok(Piece::Path(shape_of(value)?.flat(",", false).unwrap_or_default()))
}

fn shape(state: &State<'_, '_>, value: &Value) -> Result<Shape, Error> {
    shape_of(given(state, value)?.as_ref()).map_err(failed)
}

fn shape_of(value: Option<&Json>) -> Result<Shape, &'static str> {
    let value = value.ok_or(MISSING)?;
    match Shape::of(Some(value), Encoding::Percent) {
        Shape::Nothing => Err("is empty"),
        Shape::One(text) if text.is_empty() => Err("is empty"),
        shape @ (Shape::One(_) | Shape::List(_) | Shape::Object(_)) => Ok(shape),
    }
}
