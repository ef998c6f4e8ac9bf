//! Request bodies: JSON within a size limit, without unknown fields. Large bodies are parsed on the low-priority pool.
//!
//! The types of `model` tolerate unknown fields, because later versions may have stored them. A request must not: a
//! misspelt selector field would select everything. So each body is first validated against the published schema.
//! The arguments of a call are validated by the tool's own schema.

pub(crate) mod check;
pub(crate) mod long;

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body_util::LengthLimitError;
use model::strict_json;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use self::long::{VALUES, VALUES_OF_ADMIN, unless_long};
use crate::app::App;
use crate::in_time::in_time;
use crate::problem::{Code, Problem};
use crate::schemas::Shape;

/// The JSON body of a request.
pub(crate) struct Body<T>(pub(crate) T);

/// The JSON body of a call. Numbers that would be rounded on their way to the tool are rejected.
pub(crate) struct Exact<T>(pub(crate) T);

/// The body of a request that creates an entity. Without an id, the server derives one from the name.
pub(crate) struct New<Id, T> {
    pub(crate) id: Option<Id>,
    pub(crate) rest: T,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = json_of(request, app).await?;
        unless_long(bytes, |bytes| {
            let value = value_of(bytes, VALUES_OF_ADMIN)?;
            check::against(Shape::of::<T>(), &value)?;
            read(&value).map(Self)
        })
        .await
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> FromRequest<App> for Exact<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        unless_long(json_of(request, app).await?, exact).await.map(Self)
    }
}

fn exact<T: DeserializeOwned + JsonSchema + 'static>(bytes: &[u8]) -> Result<T, Problem> {
    let value = value_of(bytes, VALUES)?;
    if let Some(number) = strict_json::rounded(bytes) {
        let number: String = number.chars().take(80).collect();
        let message = format!("the number `{number}` cannot be kept as it is: send it as a text");
        return Err(Problem::field("", message));
    }
    check::against(Shape::of::<T>(), &value)?;
    // Move the arguments instead of copying them. On an error, parse again with a reader that reports the field path.
    serde_json::from_value(value).or_else(|_| read(&value_of(bytes, VALUES)?))
}

impl<Id, T> FromRequest<App> for New<Id, T>
where
    Id: DeserializeOwned + JsonSchema + Send + 'static,
    T: DeserializeOwned + JsonSchema + Send + 'static,
{
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        unless_long(json_of(request, app).await?, Self::of).await
    }
}

impl<Id, T> New<Id, T>
where
    Id: DeserializeOwned + JsonSchema + 'static,
    T: DeserializeOwned + JsonSchema + 'static,
{
    fn of(bytes: &[u8]) -> Result<Self, Problem> {
        let mut value = value_of(bytes, VALUES_OF_ADMIN)?;
        check::against(Shape::of::<Self>(), &value)?;
        let id = value.as_object_mut().and_then(|members| members.shift_remove("id"));
        // Deserialize content and id separately, so that each error reports its field path.
        let rest = read(&value)?;
        let id = match id {
            None | Some(Value::Null) => None,
            Some(id) => Some(
                serde_json::from_value(id)
                    .map_err(|error| Problem::field("id", error.to_string()))?,
            ),
        };
        Ok(Self { id, rest })
    }
}

impl<Id: JsonSchema, T: JsonSchema> JsonSchema for New<Id, T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        let name = T::schema_name();
        let endings = ["Profile", "Rules", "Body"];
        let short = endings.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
        format!("New{short}").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        let mut id = Id::json_schema(generator);
        id.insert(
            "description".to_owned(),
            "For ever; made from the name if it is left out.".into(),
        );
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let others = std::mem::take(properties);
            properties.insert("id".to_owned(), id.to_value());
            properties.extend(others);
        }
        schema
    }
}

/// Deserializes a value; errors report the field path.
pub(crate) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "" } else { path.as_str() };
        let message = error.inner().to_string();
        match said_of_member(value, error.path(), &message) {
            Some((name, rest)) => Problem::field(name, rest).under(field),
            None => Problem::field(field, message),
        }
    })
}

/// Splits a message about one field of the value, such as "`value` does not suit `equals`", into field and message.
fn said_of_member<'a>(
    value: &Value,
    path: &serde_path_to_error::Path,
    message: &'a str,
) -> Option<(&'a str, &'a str)> {
    let mut place = value;
    for segment in path.iter() {
        place = match segment {
            Segment::Seq { index } => place.get(index)?,
            Segment::Map { key } => place.get(key)?,
            Segment::Enum { .. } | Segment::Unknown => place,
        };
    }
    let (name, rest) = message.strip_prefix('`')?.split_once("` ")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (place.is_object() && is_name).then_some((name, rest))
}

/// Reads the body; its media type must be JSON unless it is empty.
async fn json_of(request: Request, app: &App) -> Result<Bytes, Problem> {
    let is_json = is_json(request.headers());
    let bytes = bytes_of(request, app).await?;
    if is_json || bytes.is_empty() { Ok(bytes) } else { Err(not_json()) }
}

/// Parses JSON with at most `limit` values. An empty body counts as `{}`.
fn value_of(bytes: &[u8], limit: usize) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if long::outweighs(bytes, limit) {
        let detail = format!("{}: send less at once, or a long list as a text", long::told(limit));
        return Err(Problem::new(Code::TooLarge, detail));
    }
    strict_json::value(bytes).map_err(|error| Problem::new(Code::MalformedJson, error.to_string()))
}

async fn bytes_of(request: Request, app: &App) -> Result<Bytes, Problem> {
    let length = request.headers().get(CONTENT_LENGTH).cloned();
    Bytes::from_request(request, app).await.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(error) if error.status() == 413 => {
            too_large(length.as_ref())
        }
        error => Problem::new(Code::InvalidRequest, error.to_string()),
    })
}

/// Longest time in which a raw body must arrive, for routes without a deadline of their own.
const RAW_WITHIN: Duration = Duration::from_secs(60);

/// Reads a body with a JSON media type; the caller parses it.
pub(crate) async fn raw(
    headers: &HeaderMap,
    body: axum::body::Body,
    limit: usize,
) -> Result<Bytes, Problem> {
    if !is_json(headers) {
        return Err(not_json());
    }
    let length = headers.get(CONTENT_LENGTH);
    let said = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|said| limit < said) {
        return Err(too_large(length));
    }
    match in_time(RAW_WITHIN, to_bytes(body, limit)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_over_limit(&error) => Err(too_large(length)),
        Ok(Err(error)) => Err(Problem::new(Code::InvalidRequest, error.to_string())),
        Err(_) => Err(too_slow(RAW_WITHIN)),
    }
}

fn is_over_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

fn not_json() -> Problem {
    let detail = "send JSON, with `Content-Type: application/json`";
    Problem::new(Code::UnsupportedMediaType, detail)
}

fn too_slow(within: Duration) -> Problem {
    let detail = format!("the body did not come within {} s", within.as_secs());
    Problem::new(Code::TooSlow, detail)
}

fn too_large(length: Option<&HeaderValue>) -> Problem {
    let said = length.and_then(|length| length.to_str().ok());
    let length = said.map(|length| format!(" of {length} bytes")).unwrap_or_default();
    Problem::new(Code::TooLarge, format!("the body{length} is over the limit"))
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim();
    kind.split_once('/').is_some_and(|(kind, of)| {
        let is_json = of.eq_ignore_ascii_case("json")
            || of.rsplit_once('+').is_some_and(|(_, like)| like.eq_ignore_ascii_case("json"));
        is_json && kind.eq_ignore_ascii_case("application")
    })
}
