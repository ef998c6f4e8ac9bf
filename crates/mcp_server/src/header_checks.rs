//! The HTTP headers that repeat parts of a request, so that intermediaries need not parse the body. The server rejects
//! requests whose headers contradict the body.

use std::fmt::Display;

use axum::http::header::AsHeaderName;
use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::error_response::RpcErrorResponse;

pub(crate) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PARAMETER: &str = "mcp-param-";

/// The value of a header; an error if it occurs more than once or is not ASCII.
pub(crate) fn single_header(
    headers: &HeaderMap,
    name: impl AsHeaderName + Copy + Display,
) -> Result<Option<&str>, RpcErrorResponse> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            let text = value.to_str().ok().map(str::trim);
            let why = || RpcErrorResponse::header_mismatch(format!("`{name}` must be plain ASCII"));
            text.map(Some).ok_or_else(why)
        }
        _ => Err(RpcErrorResponse::header_mismatch(format!("`{name}` must be sent once"))),
    }
}

/// Decodes a value that may be base64, in the form `=?base64?…?=`.
fn decode_header_value(value: &str) -> Option<String> {
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
    }
}

/// Checks that the method and name headers match the body.
pub(crate) fn check_method_and_name(
    headers: &HeaderMap,
    method: &str,
    params: &Map<String, Value>,
) -> Result<(), RpcErrorResponse> {
    if single_header(headers, &METHOD_HEADER)? != Some(method) {
        let why = "the header `Mcp-Method` must be there and be the method of the body";
        return Err(RpcErrorResponse::header_mismatch(why));
    }
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    let named = single_header(headers, &NAME_HEADER)?.and_then(decode_header_value);
    if named.is_none() || named.as_deref() != params.get(member).and_then(Value::as_str) {
        let why = format!("the header `Mcp-Name` must be there and be `{member}` of the body");
        return Err(RpcErrorResponse::header_mismatch(why));
    }
    Ok(())
}

/// Checks that the `Mcp-Param-…` headers that a tool requests match its arguments.
pub(crate) fn check_parameter_headers(
    headers: &HeaderMap,
    mirrored: &[(String, String)],
    arguments: &Map<String, Value>,
) -> Result<(), RpcErrorResponse> {
    for (property, header) in mirrored {
        let name = format!("{PARAMETER}{}", header.to_ascii_lowercase());
        let argument = arguments.get(property).filter(|value| !value.is_null());
        let sent = single_header(headers, name.as_str())?;
        let same = match (sent, argument) {
            (None, None) => true,
            (Some(sent), Some(argument)) => {
                decode_header_value(sent).is_some_and(|sent| matches_argument(&sent, argument))
            }
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            let why = format!("the header `Mcp-Param-{header}` must say the same as `{property}`");
            return Err(RpcErrorResponse::header_mismatch(why));
        }
    }
    Ok(())
}

/// Whether a header matches an argument. Numbers match by value: 42 and 42.0.
fn matches_argument(sent: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => text == sent,
        Value::Bool(value) => sent == if *value { "true" } else { "false" },
        Value::Number(number) => {
            let whole = sent.parse::<i128>().ok().zip(number.as_i128());
            match whole {
                Some((sent, number)) => sent == number,
                None => sent.parse::<f64>().ok().is_some_and(|sent| Some(sent) == number.as_f64()),
            }
        }
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn method_and_name_headers_must_match_the_body() {
        let params = json!({"name": "grüße"});
        let params = params.as_object().unwrap();
        let check = |pairs: &[(&str, &str)]| {
            check_method_and_name(&headers(pairs), "tools/call", params).is_ok()
        };
        assert!(check(&[("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDvMOfZQ==?=")]));
        assert!(check(&[("mcp-method", " tools/call "), ("mcp-name", "=?base64?Z3LDvMOfZQ==?=")]));
        for wrong in [
            &[("mcp-method", "tools/call")][..],
            &[("mcp-name", "=?base64?Z3LDvMOfZQ==?=")],
            &[("mcp-method", "TOOLS/CALL"), ("mcp-name", "=?base64?Z3LDvMOfZQ==?=")],
            &[("mcp-method", "tools/call"), ("mcp-name", "gruesse")],
            &[("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDvMOfZQ?=")],
            &[
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?PT9iYXNlNjQ/WjNMRHZNT2ZaUT09Pz0=?="),
            ],
            &[
                ("mcp-method", "tools/call"),
                ("mcp-name", "=?base64?Z3LDvMOfZQ==?="),
                ("mcp-name", "other"),
            ],
        ] {
            assert!(!check(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn parameter_headers_must_match_the_arguments() {
        let mirrored = vec![("region".to_owned(), "Region".to_owned())];
        let check = |sent: &[(&str, &str)], argument: Value| {
            let arguments = json!({"region": argument});
            check_parameter_headers(&headers(sent), &mirrored, arguments.as_object().unwrap())
                .is_ok()
        };
        assert!(check(&[("mcp-param-region", "eu")], json!("eu")));
        assert!(check(&[("mcp-param-region", "=?base64?SGVsbG8=?=")], json!("Hello")));
        assert!(check(&[("mcp-param-region", "=?base64?SGVsbG8=")], json!("=?base64?SGVsbG8=")));
        assert!(check(&[("mcp-param-region", "42")], json!(42.0)));
        assert!(check(&[("mcp-param-region", "42.0")], json!(42)));
        assert!(check(&[("mcp-param-region", "true")], json!(true)));
        assert!(check(&[], Value::Null));
        for (sent, argument) in [
            (&[][..], json!("eu")),
            (&[("mcp-param-region", "us")][..], json!("eu")),
            (&[("mcp-param-region", "eu")][..], Value::Null),
            (&[("mcp-param-region", "=?base64?SGVsbG8?=")][..], json!("Hello")),
            (&[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")][..], json!("Hello")),
            (&[("mcp-param-region", "9007199254740993")][..], json!(9_007_199_254_740_992_u64)),
        ] {
            assert!(!check(sent, argument.clone()), "{sent:?} {argument}");
        }
    }
}
