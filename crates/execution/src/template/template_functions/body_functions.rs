//! Functions for bodies: `json`, `rest`, `text`, `bytes`, `multipart`, and `join` and `object` for composed values.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use model::BodyEncoding;
use serde::Serializer as _;
use serde_json::Value as Json;

use super::flag_option;
use crate::template::attachment_uri::DataUriFile;
use crate::template::encoded_piece::{EncodedPiece, TemplatePosition};
use crate::template::multipart::MultipartPart;
use crate::template::template_context::{ARGUMENTS_VARIABLE, argument_failure, value_argument};
use crate::template::{multipart, value_style};

pub(super) fn register_body_functions(environment: &mut Environment<'_>) {
    environment.add_function("json", encode_json);
    environment.add_function("rest", other_arguments);
    environment.add_function("text", encode_text);
    environment.add_function("bytes", encode_bytes);
    environment.add_function("join", join_values);
    environment.add_function("object", build_object);
    environment.add_function("part", parts_function(multipart::field_parts));
    environment.add_function("file", parts_function(multipart::file_parts));
    environment.add_function("multipart", build_multipart);
    environment.add_function(TemplatePosition::Body(BodyEncoding::Json).function_name(), in_json);
    environment.add_function(TemplatePosition::Body(BodyEncoding::Form).function_name(), in_form);
    environment.add_function(TemplatePosition::Body(BodyEncoding::Text).function_name(), in_text);
    environment.add_function(
        TemplatePosition::Body(BodyEncoding::Multipart).function_name(),
        in_multipart,
    );
}

fn encode_json(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    Ok(json_piece(value_argument(state, &value)?.as_ref()))
}

/// Encodes a value as JSON.
pub(in crate::template) fn json_piece(value: Option<&Json>) -> EncodedPiece {
    let bytes = |value| serde_json::to_vec(value).expect("a value can be written");
    value.map_or(EncodedPiece::Nothing, |value| EncodedPiece::Json(bytes(value)))
}

/// Encodes borrowed fields as a JSON object.
pub(in crate::template) fn json_object_piece(members: &[(&str, &Json)]) -> EncodedPiece {
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::new(&mut bytes);
    writer.collect_map(members.iter().copied()).expect("values can be written");
    EncodedPiece::Json(bytes)
}

/// All arguments except the named ones. Without any, there is no body unless it is required.
fn other_arguments(
    state: &State<'_, '_>,
    named: Rest<String>,
    options: Kwargs,
) -> Result<Value, Error> {
    let required = flag_option(&options, "required", false)?;
    options.assert_all_used()?;
    let arguments = state.lookup(ARGUMENTS_VARIABLE).unwrap_or_default();
    let mut others = Vec::new();
    for name in arguments.try_iter()? {
        if !named.iter().any(|named| Some(named.as_str()) == name.as_str()) {
            others.push((name.clone(), arguments.get_item(&name)?));
        }
    }
    Ok(if others.is_empty() && !required { Value::UNDEFINED } else { Value::from_pairs(others) })
}

fn encode_text(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    Ok(match value_argument(state, &value)? {
        Some(value) => {
            EncodedPiece::Body(value_style::value_text(&value).into_owned().into_bytes())
        }
        None => EncodedPiece::Nothing,
    })
}

/// The decoded bytes of a data URI, or the bytes of any other text.
fn encode_bytes(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    let Some(value) = value_argument(state, &value)? else { return Ok(EncodedPiece::Nothing) };
    let text = value_style::value_text(&value);
    Ok(EncodedPiece::Body(match DataUriFile::parse(&text) {
        Some(Ok(file)) => file.bytes,
        Some(Err(problem)) => return Err(argument_failure(problem)),
        None => text.into_owned().into_bytes(),
    }))
}

/// A plain string for use in other functions: `json({"text": join("Hello ", args.name)})`.
fn join_values(state: &State<'_, '_>, pieces: Rest<Value>) -> Result<Value, Error> {
    let mut joined = String::new();
    for piece in pieces.iter() {
        let value = value_argument(state, piece)?.ok_or_else(|| argument_failure("is missing"))?;
        joined.push_str(&value_style::value_text(&value));
    }
    Ok(Value::from_safe_string(joined))
}

/// An object for use in other functions: `json(object("a", args.a, "b", 1))`. Fields with a missing value are omitted.
fn build_object(pieces: Rest<Value>) -> Result<Value, Error> {
    let mut members = Vec::new();
    for pair in pieces.chunks(2) {
        let [name, value] = pair else {
            return Err(argument_failure("is a member without a value"));
        };
        if !value.is_undefined()
            && !matches!(EncodedPiece::from_value(value), Some(EncodedPiece::Nothing))
        {
            members.push((name.clone(), value.clone()));
        }
    }
    Ok(Value::from_pairs(members))
}

/// How the value of a field becomes parts: as fields or as files.
type PartBuilder = fn(&str, &Json, Option<&str>) -> Result<Vec<MultipartPart>, &'static str>;

fn parts_function(
    making: PartBuilder,
) -> impl Fn(&State<'_, '_>, &str, Value, Kwargs) -> Result<EncodedPiece, Error> {
    move |state, name, value, options| {
        let content_type = options.get::<Option<String>>("type")?;
        options.assert_all_used()?;
        Ok(EncodedPiece::Part(match value_argument(state, &value)? {
            Some(value) => {
                making(name, &value, content_type.as_deref()).map_err(argument_failure)?
            }
            None => Vec::new(),
        }))
    }
}

fn build_multipart(pieces: Rest<Value>) -> Result<EncodedPiece, Error> {
    let mut parts: Vec<MultipartPart> = Vec::new();
    for piece in pieces.iter() {
        match EncodedPiece::from_value(piece) {
            Some(EncodedPiece::Part(more)) => parts.extend(more.iter().cloned()),
            Some(_) | None => return Err(argument_failure("is not a part of a body")),
        }
    }
    Ok(if parts.is_empty() { EncodedPiece::Nothing } else { EncodedPiece::Multipart(parts) })
}

/// Accepts JSON, and encodes a plain value as JSON.
fn in_json(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Json(_) | EncodedPiece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(argument_failure("is not encoded for JSON")),
        None => require_value(encode_json(state, value)?),
    }
}

fn in_form(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Body(_) | EncodedPiece::Nothing)) => Ok(piece.clone()),
        Some(EncodedPiece::Pair(pair)) => Ok(EncodedPiece::Body(pair.clone().into_bytes())),
        Some(_) => Err(argument_failure("is not encoded for a form")),
        None => {
            let value =
                value_argument(state, &value)?.ok_or_else(|| argument_failure("is missing"))?;
            Ok(EncodedPiece::Body(
                value_style::percent_encoded(&value_style::value_text(&value)).into_bytes(),
            ))
        }
    }
}

fn in_text(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Body(_) | EncodedPiece::Json(_) | EncodedPiece::Nothing)) => {
            Ok(piece.clone())
        }
        Some(_) => Err(argument_failure("is not encoded for a body")),
        None => require_value(encode_text(state, value)?),
    }
}

fn in_multipart(value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Multipart(_) | EncodedPiece::Nothing)) => Ok(piece.clone()),
        Some(_) | None => Err(argument_failure("is not `multipart(…)`")),
    }
}

fn require_value(piece: EncodedPiece) -> Result<EncodedPiece, Error> {
    match piece {
        EncodedPiece::Nothing => Err(argument_failure("is missing")),
        piece => Ok(piece),
    }
}
