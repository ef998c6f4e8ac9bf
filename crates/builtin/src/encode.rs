//! The tools `encode` and `decode`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::{Builtin, Given, Work, read, schema};

pub(crate) static ENCODE: Builtin = Builtin {
    name: "encode",
    title: "Encode a text",
    description: "Writes a text as Base64, URL-safe Base64, hexadecimal digits, percent-encoded for a URL, or as a JSON string.",
    tags: &["base64", "hex", "url"],
    example: r#"{"text": "Grüße!", "as": "base64"}"#,
    reaches_out: false,
    input: schema::<Encode>,
    work: Work::Quick(|arguments, _| encode(&read(arguments)?)),
};

pub(crate) static DECODE: Builtin = Builtin {
    name: "decode",
    title: "Decode a text",
    description: "Reads a text that was written as Base64, URL-safe Base64, hexadecimal digits, percent-encoded for a URL, or as a JSON string. What is no text is given in Base64.",
    tags: &["base64", "hex", "url"],
    example: r#"{"encoded": "R3LDvMOfZSE=", "from": "base64"}"#,
    reaches_out: false,
    input: schema::<Decode>,
    work: Work::Quick(|arguments, _| decode(&read(arguments)?)),
};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Encode {
    /// What to encode.
    text: String,
    /// How.
    r#as: Encoding,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Decode {
    /// What to decode.
    encoded: String,
    /// How it was encoded.
    from: Encoding,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Base64,
    Base64Url,
    Hex,
    Percent,
    Json,
}

/// Percent-encodes everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn encode(arguments: &Encode) -> Given {
    let text = arguments.text.as_str();
    let encoded = match arguments.r#as {
        Encoding::Base64 => STANDARD.encode(text),
        Encoding::Base64Url => URL_SAFE_NO_PAD.encode(text),
        Encoding::Hex => hex(text.as_bytes()),
        Encoding::Percent => utf8_percent_encode(text, RESERVED).to_string(),
        Encoding::Json => json!(text).to_string(),
    };
    Ok(json!({ "encoded": encoded }))
}

fn decode(arguments: &Decode) -> Given {
    let encoded = arguments.encoded.trim();
    let bytes = match arguments.from {
        Encoding::Base64 => {
            STANDARD.decode(encoded).map_err(|error| format!("this is no Base64: {error}"))?
        }
        Encoding::Base64Url => URL_SAFE_NO_PAD
            .decode(encoded.trim_end_matches('='))
            .map_err(|error| format!("this is no URL-safe Base64: {error}"))?,
        Encoding::Hex => unhex(encoded)?,
        Encoding::Percent => percent_decode_str(encoded).collect(),
        Encoding::Json => serde_json::from_str::<String>(encoded)
            .map_err(|error| format!("this is no JSON string: {error}"))?
            .into_bytes(),
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => json!({ "text": text }),
        Err(error) => json!({ "bytes_base64": STANDARD.encode(error.as_bytes()) }),
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
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
