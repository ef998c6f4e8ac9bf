//! Functions for bodies: `json`, `rest`, `text`, `bytes`, `multipart`, and `join` and `object` for composed values.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use model::BodyEncoding;
use serde::Serializer as _;
use serde_json::Value as Json;

use super::flag;
use crate::template::attachment::Attachment;
use crate::template::context::{ARGUMENTS, failed, given};
use crate::template::multipart::{self, Part};
use crate::template::piece::{Piece, Place};
use crate::template::style;

pub(super) fn register(environment: &mut Environment<'_>) {
    environment.add_function("json", json);
    environment.add_function("rest", rest);
    environment.add_function("text", text);
    environment.add_function("bytes", bytes);
    environment.add_function("join", join);
    environment.add_function("object", object);
    environment.add_function("part", parts_of(multipart::fields));
    environment.add_function("file", parts_of(multipart::files));
    environment.add_function("multipart", multipart);
    environment.add_function(Place::Body(BodyEncoding::Json).function(), in_json);
    environment.add_function(Place::Body(BodyEncoding::Form).function(), in_form);
    environment.add_function(Place::Body(BodyEncoding::Text).function(), in_text);
    environment.add_function(Place::Body(BodyEncoding::Multipart).function(), in_multipart);
}

fn json(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    Ok(written(given(state, &value)?.as_ref()))
}

/// Encodes a value as JSON.
pub(in crate::template) fn written(value: Option<&Json>) -> Piece {
    let bytes = |value| serde_json::to_vec(value).expect("a value can be written");
    value.map_or(Piece::Nothing, |value| Piece::Json(bytes(value)))
}

/// Encodes borrowed fields as a JSON object.
pub(in crate::template) fn written_members(members: &[(&str, &Json)]) -> Piece {
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut bytes);
    writer.collect_map(members.iter().copied()).expect("values can be written");
    Piece::Json(bytes)
}

/// All arguments except the named ones. Without any, there is no body unless it is required.
fn rest(state: &State<'_, '_>, named: Rest<String>, options: Kwargs) -> Result<Value, Error> {
    let required = flag(&options, "required", false)?;
    options.assert_all_used()?;
    let arguments = state.lookup(ARGUMENTS).unwrap_or_default();
    let mut others = Vec::new();
    for name in arguments.try_iter()? {
        if !named.iter().any(|named| Some(named.as_str()) == name.as_str()) {
            others.push((name.clone(), arguments.get_item(&name)?));
        }
    }
    Ok(if others.is_empty() && !required { Value::UNDEFINED } else { Value::from_pairs(others) })
}

fn text(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    Ok(match given(state, &value)? {
        Some(value) => Piece::Body(style::text(&value).into_owned().into_bytes()),
        None => Piece::Nothing,
    })
}

/// The decoded bytes of a data URI, or the bytes of any other text.
fn bytes(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    let Some(value) = given(state, &value)? else { return Ok(Piece::Nothing) };
    let text = style::text(&value);
    Ok(Piece::Body(match Attachment::parse(&text) {
        Some(Ok(file)) => file.bytes,
        Some(Err(problem)) => return Err(failed(problem)),
        None => text.into_owned().into_bytes(),
    }))
}

/// A plain string for use in other functions: `json({"text": join("Hello ", args.name)})`.
fn join(state: &State<'_, '_>, pieces: Rest<Value>) -> Result<Value, Error> {
    let mut joined = String::new();
    for piece in pieces.iter() {
        let value = given(state, piece)?.ok_or_else(|| failed("is missing"))?;
        joined.push_str(&style::text(&value));
    }
    Ok(Value::from_safe_string(joined))
}

/// An object for use in other functions: `json(object("a", args.a, "b", 1))`. Fields with a missing value are omitted.
fn object(pieces: Rest<Value>) -> Result<Value, Error> {
    let mut members = Vec::new();
    for pair in pieces.chunks(2) {
        let [name, value] = pair else { return Err(failed("is a member without a value")) };
        if !value.is_undefined() && !matches!(Piece::of(value), Some(Piece::Nothing)) {
            members.push((name.clone(), value.clone()));
        }
    }
    Ok(Value::from_pairs(members))
}

/// How the value of a field becomes parts: as fields or as files.
type Making = fn(&str, &Json, Option<&str>) -> Result<Vec<Part>, &'static str>;

fn parts_of(
    making: Making,
) -> impl Fn(&State<'_, '_>, &str, Value, Kwargs) -> Result<Piece, Error> {
    move |state, name, value, options| {
        let content_type = options.get::<Option<String>>("type")?;
        options.assert_all_used()?;
        Ok(Piece::Part(match given(state, &value)? {
            Some(value) => making(name, &value, content_type.as_deref()).map_err(failed)?,
            None => Vec::new(),
        }))
    }
}

fn multipart(pieces: Rest<Value>) -> Result<Piece, Error> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces.iter() {
        match Piece::of(piece) {
            Some(Piece::Part(more)) => parts.extend(more.iter().cloned()),
            Some(_) | None => return Err(failed("is not a part of a body")),
        }
    }
    Ok(if parts.is_empty() { Piece::Nothing } else { Piece::Multipart(parts) })
}

/// Accepts JSON, and encodes a plain value as JSON.
fn in_json(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Json(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(failed("is not encoded for JSON")),
        None => present(json(state, value)?),
    }
}

fn in_form(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Body(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(Piece::Pair(pair)) => Ok(Piece::Body(pair.clone().into_bytes())),
        Some(_) => Err(failed("is not encoded for a form")),
        None => {
            let value = given(state, &value)?.ok_or_else(|| failed("is missing"))?;
            Ok(Piece::Body(style::percent_encoded(&style::text(&value)).into_bytes()))
        }
    }
}

fn in_text(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Body(_) | Piece::Json(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(failed("is not encoded for a body")),
        None => present(text(state, value)?),
    }
}

fn in_multipart(value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Multipart(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) | None => Err(failed("is not `multipart(…)`")),
    }
}

fn present(piece: Piece) -> Result<Piece, Error> {
    match piece {
        Piece::Nothing => Err(failed("is missing")),
        piece => Ok(piece),
    }
}
