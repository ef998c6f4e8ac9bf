//! Functions for headers: `header`, `header_json`, `cookie` and `cookies`.
//!
//! A header is one line of text without any escape mechanism. A value with a control character or a character outside
//! of ASCII is therefore rejected (RFC 9110, 5.5).

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use serde_json::Value as Json;

use super::flag_option;
use crate::template::encoded_piece::{EncodedPiece, TemplatePosition};
use crate::template::header_template::is_header_text;
use crate::template::template_context::{argument_failure, value_argument};
use crate::template::value_style::{ValueEncoding, ValueShape};

pub(super) fn register_header_functions(environment: &mut Environment<'_>) {
    environment.add_function("header", encode_header);
    environment.add_function("header_json", encode_header_json);
    environment.add_function("cookie", encode_cookie);
    environment.add_function("cookies", join_cookies);
    environment.add_function(TemplatePosition::Header.function_name(), in_header);
    environment.add_function(TemplatePosition::CookieHeader.function_name(), in_cookie_header);
}

fn encode_header(
    state: &State<'_, '_>,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let explode = flag_option(&options, "explode", false)?;
    options.assert_all_used()?;
    header_piece(value_argument(state, &value)?.as_ref(), explode).map_err(argument_failure)
}

/// Encodes a value as the text of a header.
pub(in crate::template) fn header_piece(
    value: Option<&Json>,
    explode: bool,
) -> Result<EncodedPiece, &'static str> {
    let text = ValueShape::from_value(value, ValueEncoding::Plain).to_flat_text(",", explode);
    text.map_or(Ok(EncodedPiece::Nothing), header_line)
}

/// Encodes a value as JSON with all characters outside of ASCII escaped.
fn encode_header_json(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    let Some(value) = value_argument(state, &value)? else { return Ok(EncodedPiece::Nothing) };
    let mut ascii = String::new();
    for character in value.to_string().chars() {
        match character {
            ' '..='~' => ascii.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    ascii.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    header_line(ascii).map_err(argument_failure)
}

fn encode_cookie(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<EncodedPiece, Error> {
    let explode = flag_option(&options, "explode", true)?;
    let whole = flag_option(&options, "whole", false)?;
    options.assert_all_used()?;
    let value = value_argument(state, &value)?;
    let shape = match whole {
        true => ValueShape::from_whole_value(value.as_ref(), ValueEncoding::Cookie),
        false => ValueShape::from_value(value.as_ref(), ValueEncoding::Cookie),
    };
    let pairs = shape.to_pairs(&ValueEncoding::Cookie.encode_name(name), ",", explode);
    Ok(if pairs.is_empty() {
        EncodedPiece::Nothing
    } else {
        EncodedPiece::Cookie(pairs.join("; "))
    })
}

fn join_cookies(pieces: Rest<Value>) -> Result<EncodedPiece, Error> {
    let mut texts = Vec::new();
    for piece in pieces.iter() {
        match EncodedPiece::from_value(piece) {
            Some(EncodedPiece::Cookie(text)) => texts.push(text.as_str()),
            Some(EncodedPiece::Nothing) => {}
            Some(_) | None => return Err(argument_failure("is not encoded for a cookie")),
        }
    }
    Ok(if texts.is_empty() {
        EncodedPiece::Nothing
    } else {
        EncodedPiece::Cookies(texts.join("; "))
    })
}

fn in_header(state: &State<'_, '_>, value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Header(_) | EncodedPiece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(argument_failure("is not encoded for a header")),
        None => {
            let shape = ValueShape::from_value(
                value_argument(state, &value)?.as_ref(),
                ValueEncoding::Plain,
            );
            header_line(
                shape.to_flat_text(",", false).ok_or_else(|| argument_failure("is missing"))?,
            )
            .map_err(argument_failure)
        }
    }
}

fn in_cookie_header(value: Value) -> Result<EncodedPiece, Error> {
    match EncodedPiece::from_value(&value) {
        Some(piece @ (EncodedPiece::Cookies(_) | EncodedPiece::Nothing)) => Ok(piece.clone()),
        Some(_) | None => Err(argument_failure("is not encoded for a cookie")),
    }
}

fn header_line(text: String) -> Result<EncodedPiece, &'static str> {
    match is_header_text(&text) {
        true => Ok(EncodedPiece::Header(text)),
        false => Err("has a character that no header can have"),
    }
}
