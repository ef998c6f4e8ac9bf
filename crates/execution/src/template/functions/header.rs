//! Functions for headers: `header`, `header_json`, `cookie` and `cookies`.
//!
//! A header is one line of text without any escape mechanism. A value with a control character or a character outside
//! of ASCII is therefore rejected (RFC 9110, 5.5).

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, State, Value};
use serde_json::Value as Json;

use super::flag;
use crate::template::context::{failed, given};
use crate::template::header::is_header_text;
use crate::template::piece::{Piece, Place};
use crate::template::style::{Encoding, Shape};

pub(super) fn register(environment: &mut Environment<'_>) {
    environment.add_function("header", header);
    environment.add_function("header_json", header_json);
    environment.add_function("cookie", cookie);
    environment.add_function("cookies", cookies);
    environment.add_function(Place::Header.function(), in_header);
    environment.add_function(Place::CookieHeader.function(), in_cookie_header);
}

fn header(state: &State<'_, '_>, value: Value, options: Kwargs) -> Result<Piece, Error> {
    let explode = flag(&options, "explode", false)?;
    options.assert_all_used()?;
    written(given(state, &value)?.as_ref(), explode).map_err(failed)
}

/// Encodes a value as the text of a header.
pub(in crate::template) fn written(
    value: Option<&Json>,
    explode: bool,
) -> Result<Piece, &'static str> {
    let text = Shape::of(value, Encoding::Plain).flat(",", explode);
    text.map_or(Ok(Piece::Nothing), line)
}

/// Encodes a value as JSON with all characters outside of ASCII escaped.
fn header_json(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    let Some(value) = given(state, &value)? else { return Ok(Piece::Nothing) };
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
    line(ascii).map_err(failed)
}

fn cookie(
    state: &State<'_, '_>,
    name: &str,
    value: Value,
    options: Kwargs,
) -> Result<Piece, Error> {
    let explode = flag(&options, "explode", true)?;
    let whole = flag(&options, "whole", false)?;
    options.assert_all_used()?;
    let value = given(state, &value)?;
    let shape = match whole {
        true => Shape::whole(value.as_ref(), Encoding::Cookie),
        false => Shape::of(value.as_ref(), Encoding::Cookie),
    };
    let pairs = shape.pairs(&Encoding::Cookie.name(name), ",", explode);
    Ok(if pairs.is_empty() { Piece::Nothing } else { Piece::Cookie(pairs.join("; ")) })
}

fn cookies(pieces: Rest<Value>) -> Result<Piece, Error> {
    let mut texts = Vec::new();
    for piece in pieces.iter() {
        match Piece::of(piece) {
            Some(Piece::Cookie(text)) => texts.push(text.as_str()),
            Some(Piece::Nothing) => {}
            Some(_) | None => return Err(failed("is not encoded for a cookie")),
        }
    }
    Ok(if texts.is_empty() { Piece::Nothing } else { Piece::Cookies(texts.join("; ")) })
}

fn in_header(state: &State<'_, '_>, value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Header(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) => Err(failed("is not encoded for a header")),
        None => {
            let shape = Shape::of(given(state, &value)?.as_ref(), Encoding::Plain);
            line(shape.flat(",", false).ok_or_else(|| failed("is missing"))?).map_err(failed)
        }
    }
}

fn in_cookie_header(value: Value) -> Result<Piece, Error> {
    match Piece::of(&value) {
        Some(piece @ (Piece::Cookies(_) | Piece::Nothing)) => Ok(piece.clone()),
        Some(_) | None => Err(failed("is not encoded for a cookie")),
    }
}

fn line(text: String) -> Result<Piece, &'static str> {
    match is_header_text(&text) {
        true => Ok(Piece::Header(text)),
        false => Err("has a character that no header can have"),
    }
}
