//! The tools `encode` and `decode`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{BuiltinResult, BuiltinTool, BuiltinWork, arguments_schema, parse_arguments};

pub(crate) static ENCODE: BuiltinTool = BuiltinTool {
    name: "encode",
    title: "Encode a text",
    description: "Writes a text as Base64, URL-safe Base64, hexadecimal digits, percent-encoded for a URL, or as a JSON string.",
    tags: &["base64", "hex", "url"],
    example: r#"{"text": "Grüße!", "as": "base64"}"#,
    uses_network: false,
    input: arguments_schema::<EncodeArguments>,
    work: BuiltinWork::Linear(|arguments, _| encode_text(&parse_arguments(arguments)?)),
};

pub(crate) static DECODE: BuiltinTool = BuiltinTool {
    name: "decode",
    title: "Decode a text",
    description: "Reads a text that was written as Base64, URL-safe Base64, hexadecimal digits, percent-encoded for a URL, or as a JSON string. What is no text is given in Base64.",
    tags: &["base64", "hex", "url"],
    example: r#"{"encoded": "R3LDvMOfZSE=", "from": "base64"}"#,
    uses_network: false,
    input: arguments_schema::<DecodeArguments>,
    work: BuiltinWork::Linear(|arguments, _| decode_text(&parse_arguments(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Encode")]
struct EncodeArguments {
    /// What to encode.
    text: String,
    /// How.
    r#as: TextEncoding,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Decode")]
struct DecodeArguments {
    /// What to decode.
    encoded: String,
    /// How it was encoded.
    from: TextEncoding,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Encoding")]
enum TextEncoding {
    Base64,
    Base64Url,
    Hex,
    Percent,
    Json,
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
const PERCENT_ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode_text(arguments: &EncodeArguments) -> BuiltinResult {
    let text = arguments.text.as_str();
    let encoded = match arguments.r#as {
        TextEncoding::Base64 => STANDARD.encode(text),
        TextEncoding::Base64Url => URL_SAFE_NO_PAD.encode(text),
        TextEncoding::Hex => to_hex(text.as_bytes()),
        TextEncoding::Percent => utf8_percent_encode(text, PERCENT_ENCODED).to_string(),
        TextEncoding::Json => json!(text).to_string(),
    };
    Ok(json!({ "encoded": encoded }))
}

fn decode_text(arguments: &DecodeArguments) -> BuiltinResult {
    let encoded = arguments.encoded.trim();
    let bytes = match arguments.from {
        TextEncoding::Base64 => {
            STANDARD.decode(encoded).map_err(|error| format!("this is no Base64: {error}"))?
        }
        TextEncoding::Base64Url => URL_SAFE_NO_PAD
            .decode(encoded.trim_end_matches('='))
            .map_err(|error| format!("this is no URL-safe Base64: {error}"))?,
        TextEncoding::Hex => parse_hex(encoded)?,
        TextEncoding::Percent => percent_decode_str(encoded).collect(),
        TextEncoding::Json => serde_json::from_str::<String>(encoded)
            .map_err(|error| format!("this is no JSON string: {error}"))?
            .into_bytes(),
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(error) => json!({ "bytes_base64": STANDARD.encode(error.as_bytes()) }),
    })
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "these are not hexadecimal digits, two for each byte".to_owned();
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}
