//! The request headers of the modern era, which repeat parts of a request for proxies and gateways (SEP-2243).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use upstream::http::header::{HeaderMap, HeaderName, HeaderValue};

use super::McpError;

pub(crate) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const ANNOTATION: &str = "x-mcp-header";
/// The deepest schema level searched for annotations; real schemas are not deeper.
const MAX_SCHEMA_DEPTH: usize = 32;
/// The largest integer that every JSON parser represents exactly (RFC 8259, section 6).
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// The headers for one request.
pub(crate) fn modern_headers(
    method: &str,
    params: &Map<String, Value>,
    schema: Option<&Value>,
) -> Result<HeaderMap, McpError> {
    let mut headers = HeaderMap::new();
    headers.insert(METHOD_HEADER, encode_header_value(method));
    let member = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(headers),
    };
    if let Some(name) = params.get(member).and_then(Value::as_str) {
        headers.insert(NAME_HEADER, encode_header_value(name));
    }
    if let (Some(schema), "tools/call") = (schema, method) {
        let annotated = find_annotations(schema).unwrap_or_default();
        for HeaderAnnotation { header, path } in annotated {
            let argument = path.iter().try_fold(params.get("arguments"), |at, name| {
                at.map(|at| at.as_object().and_then(|at| at.get(*name)))
            });
            if let Some(Some(argument)) = argument
                && !argument.is_null()
            {
                let unsuitable =
                    || McpError::InvalidHeaderArgument { argument: path.join(".").into() };
                let text = argument_text(argument).ok_or_else(unsuitable)?;
                let name = format!("mcp-param-{header}");
                let name = HeaderName::try_from(name).map_err(|_| unsuitable())?;
                headers.insert(name, encode_header_value(&text));
            }
        }
    }
    Ok(headers)
}

/// A property whose argument is repeated in a header.
#[derive(Debug, PartialEq, Eq)]
struct HeaderAnnotation<'a> {
    header: &'a str,
    path: Vec<&'a str>,
}

/// Why a tool cannot be called over HTTP; `None` if it can. Such tools are omitted from lists.
pub(crate) fn annotation_error(schema: &Value) -> Option<&'static str> {
    find_annotations(schema).err()
}

fn find_annotations(schema: &Value) -> Result<Vec<HeaderAnnotation<'_>>, &'static str> {
    let mut found = Vec::new();
    collect_annotations(schema, Some(&mut Vec::new()), &mut found, 0)?;
    let mut names: Vec<_> = found.iter().map(|it| it.header.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).any(|pair| pair.first() == pair.get(1)) {
        true => Err("two arguments are repeated in one header"),
        false => Ok(found),
    }
}

/// Collects annotations. `path` is `None` below any keyword other than `properties`, where an argument has no fixed
/// path. References are not followed; examples and defaults are not schemas.
fn collect_annotations<'a>(
    schema: &'a Value,
    mut path: Option<&mut Vec<&'a str>>,
    found: &mut Vec<HeaderAnnotation<'a>>,
    depth: usize,
) -> Result<(), &'static str> {
    if MAX_SCHEMA_DEPTH < depth {
        return Ok(());
    }
    if let Value::Array(schemas) = schema {
        return schemas
            .iter()
            .try_for_each(|schema| collect_annotations(schema, None, found, depth + 1));
    }
    let Value::Object(members) = schema else { return Ok(()) };
    if let Some(header) = members.get(ANNOTATION) {
        let path = path.as_deref().filter(|path| !path.is_empty());
        found.push(parse_annotation(header, members, path)?);
    }
    for (keyword, inner) in members {
        match (keyword.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    if let Some(path) = path.as_deref_mut() {
                        path.push(name);
                        collect_annotations(property, Some(path), found, depth + 1)?;
                        path.pop();
                    } else {
                        collect_annotations(property, None, found, depth + 1)?;
                    }
                }
            }
            ("$defs" | "definitions" | "patternProperties" | "dependentSchemas", inner) => {
                let schemas = inner.as_object().into_iter().flat_map(|it| it.values());
                schemas
                    .into_iter()
                    .try_for_each(|it| collect_annotations(it, None, found, depth + 1))?;
            }
            ("enum" | "const" | "default" | "examples" | "example" | "required", _) => {}
            (_, inner) => collect_annotations(inner, None, found, depth + 1)?,
        }
    }
    Ok(())
}

fn parse_annotation<'a>(
    header: &'a Value,
    members: &'a Map<String, Value>,
    path: Option<&Vec<&'a str>>,
) -> Result<HeaderAnnotation<'a>, &'static str> {
    let header = header.as_str().ok_or("the name of a header is a text")?;
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if header.is_empty() || !header.bytes().all(is_token) {
        return Err("the name of a header has characters that none may have");
    }
    let path = path.ok_or("only an argument that has a fixed place can be repeated in a header")?;
    match members.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {
            Ok(HeaderAnnotation { header, path: path.clone() })
        }
        _ => Err("only a text, a whole number or a yes or no can be repeated in a header"),
    }
}

fn argument_text(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => {
            let whole = number.as_i64().filter(|whole| whole.unsigned_abs() <= MAX_SAFE_INTEGER);
            let whole = whole.or_else(|| {
                let float = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() < 9e15)?;
                format!("{float:.0}").parse().ok()
            });
            whole.map(|whole| whole.to_string())
        }
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text itself if it is a valid header value, otherwise in base64. Text that looks like the base64 form is encoded
/// too.
fn encode_header_value(text: &str) -> HeaderValue {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim_matches(' ').len() == text.len()
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let plain = if is_plain { HeaderValue::from_str(text).ok() } else { None };
    plain.unwrap_or_else(|| {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
        HeaderValue::try_from(encoded).expect("base64 is plain ASCII")
    })
}

#[cfg(test)]
mod tests;
