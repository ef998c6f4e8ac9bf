//! Request bodies: JSON within a size limit, without unknown fields. Large bodies are parsed on the low-priority pool.
//!
//! The types of `model` tolerate unknown fields, because later versions may have stored them. A request must not: a
//! misspelt selector field would select everything. So each body is first validated against the published schema.
//! The arguments of a call are validated by the tool's own schema.

pub mod large_json;
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use api_types::type_schemas::TypeSchema;
use api_types::value_reader::deserialize_value;
use axum::body::{Bytes, to_bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http_body_util::LengthLimitError;
use json::strict_json;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::large_json::{MAX_ADMIN_VALUES, MAX_AGENT_VALUES, parse_offloading_large};
use crate::app_state::AppState;
use crate::lazy_timeout::with_lazy_timeout;

/// The JSON body of a request.
pub struct JsonBody<T>(pub T);

/// The JSON body of a call. Numbers that would be rounded on their way to the tool are rejected.
pub struct ExactJsonBody<T>(pub T);

/// The body of a request that creates an entity. Without an id, the server derives one from the name.
pub struct CreateBody<Id, T> {
    pub id: Option<Id>,
    pub content: T,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        let bytes = read_json_bytes(request, app).await?;
        parse_offloading_large(bytes, |bytes| {
            let value = parse_json(bytes, MAX_ADMIN_VALUES)?;
            api_types::schema_check::check_schema(TypeSchema::for_type::<T>(), &value)?;
            deserialize_value(&value).map(Self)
        })
        .await
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> FromRequest<AppState> for ExactJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        parse_offloading_large(read_json_bytes(request, app).await?, parse_exact).await.map(Self)
    }
}

fn parse_exact<T: DeserializeOwned + JsonSchema + 'static>(bytes: &[u8]) -> Result<T, Problem> {
    let value = parse_json(bytes, MAX_AGENT_VALUES)?;
    if let Some(number) = strict_json::find_rounded_number(bytes) {
        let number: String = number.chars().take(80).collect();
        let message = format!("the number `{number}` cannot be kept as it is: send it as a text");
        return Err(Problem::invalid_field("", message));
    }
    api_types::schema_check::check_schema(TypeSchema::for_type::<T>(), &value)?;
    // Move the arguments instead of copying them. On an error, parse again with a reader that reports the field path.
    serde_json::from_value(value)
        .or_else(|_| deserialize_value(&parse_json(bytes, MAX_AGENT_VALUES)?))
}

impl<Id, T> FromRequest<AppState> for CreateBody<Id, T>
where
    Id: DeserializeOwned + JsonSchema + Send + 'static,
    T: DeserializeOwned + JsonSchema + Send + 'static,
{
    type Rejection = Problem;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, Problem> {
        parse_offloading_large(read_json_bytes(request, app).await?, Self::parse_create_body).await
    }
}

impl<Id, T> CreateBody<Id, T>
where
    Id: DeserializeOwned + JsonSchema + 'static,
    T: DeserializeOwned + JsonSchema + 'static,
{
    fn parse_create_body(bytes: &[u8]) -> Result<Self, Problem> {
        let mut value = parse_json(bytes, MAX_ADMIN_VALUES)?;
        api_types::schema_check::check_schema(TypeSchema::for_type::<Self>(), &value)?;
        let id = value.as_object_mut().and_then(|members| members.shift_remove("id"));
        // Deserialize content and id separately, so that each error reports its field path.
        let rest = deserialize_value(&value)?;
        let id = match id {
            None | Some(Value::Null) => None,
            Some(id) => Some(
                serde_json::from_value(id)
                    .map_err(|error| Problem::invalid_field("id", error.to_string()))?,
            ),
        };
        Ok(Self { id, content: rest })
    }
}

impl<Id: JsonSchema, T: JsonSchema> JsonSchema for CreateBody<Id, T> {
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

/// Reads the body; its media type must be JSON unless it is empty.
async fn read_json_bytes(request: Request, app: &AppState) -> Result<Bytes, Problem> {
    let is_json = is_json(request.headers());
    let bytes = read_bytes(request, app).await?;
    if is_json || bytes.is_empty() { Ok(bytes) } else { Err(not_json()) }
}

/// Parses JSON with at most `limit` values. An empty body counts as `{}`.
fn parse_json(bytes: &[u8], limit: usize) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    if large_json::exceeds_value_limit(bytes, limit) {
        let detail = format!(
            "{}: send less at once, or a long list as a text",
            large_json::describe_limit(limit)
        );
        return Err(Problem::new(ProblemCode::TooLarge, detail));
    }
    strict_json::parse_value(bytes)
        .map_err(|error| Problem::new(ProblemCode::MalformedJson, error.to_string()))
}

async fn read_bytes(request: Request, app: &AppState) -> Result<Bytes, Problem> {
    let length = request.headers().get(CONTENT_LENGTH).cloned();
    Bytes::from_request(request, app).await.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(error) if error.status() == 413 => {
            too_large(length.as_ref())
        }
        error => Problem::new(ProblemCode::InvalidRequest, error.to_string()),
    })
}

/// Longest time in which a raw body must arrive, for routes without a deadline of their own.
const RAW_BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a body with a JSON media type; the caller parses it.
pub async fn read_raw_json(
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
    match with_lazy_timeout(RAW_BODY_TIMEOUT, to_bytes(body, limit)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_over_limit(&error) => Err(too_large(length)),
        Ok(Err(error)) => Err(Problem::new(ProblemCode::InvalidRequest, error.to_string())),
        Err(_) => Err(too_slow(RAW_BODY_TIMEOUT)),
    }
}

fn is_over_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

fn not_json() -> Problem {
    let detail = "send JSON, with `Content-Type: application/json`";
    Problem::new(ProblemCode::UnsupportedMediaType, detail)
}

fn too_slow(within: Duration) -> Problem {
    let detail = format!("the body did not come within {} s", within.as_secs());
    Problem::new(ProblemCode::TooSlow, detail)
}

fn too_large(length: Option<&HeaderValue>) -> Problem {
    let said = length.and_then(|length| length.to_str().ok());
    let length = said.map(|length| format!(" of {length} bytes")).unwrap_or_default();
    Problem::new(ProblemCode::TooLarge, format!("the body{length} is over the limit"))
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
