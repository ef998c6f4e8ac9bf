//! Query parameters, validated by the same rules as bodies: a misspelt filter is an error and not ignored.

use api_types::problem::Problem;
use api_types::type_schemas::TypeSchema;
use api_types::{schema_check, value_reader};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IntoDeserializer as _};
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::app_state::AppState;

pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequestParts<AppState> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        // Fast path: most requests have no query, and most parameters are optional.
        if parts.uri.query().is_none()
            && let Ok(none) = T::deserialize(Map::new().into_deserializer())
        {
            return Ok(Self(none));
        }
        let shape = TypeSchema::for_type::<T>();
        let value = query_to_json(parts.uri.query().unwrap_or_default(), shape)?;
        schema_check::check_schema(shape, &value)?;
        value_reader::deserialize_value(&value).map(Self)
    }
}

/// Middleware of routes without query parameters: rejects a request that has one.
pub(crate) async fn reject_query(request: Request, next: Next) -> Response {
    let mut given = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes());
    match given.next() {
        None => next.run(request).await,
        Some((name, _)) => {
            Problem::invalid_field(name, "is not known here: there are no query parameters")
                .into_response()
        }
    }
}

/// Converts the parameters to JSON, each to the type in the schema.
fn query_to_json(query: &str, shape: TypeSchema) -> Result<Value, Problem> {
    let schemas = shape.schema_set();
    let properties = schemas.resolve_ref(schemas.get(shape)).get("properties");
    let mut members = Map::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        if members.contains_key(&*name) {
            return Err(Problem::invalid_field(name, "stands here twice"));
        }
        let kind = properties.and_then(|known| known.get(&*name)?.get("type"));
        let is = |word: &str| match kind {
            Some(Value::String(kind)) => kind == word,
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == word),
            _ => false,
        };
        let value = match &*text {
            "true" if is("boolean") => Value::Bool(true),
            "false" if is("boolean") => Value::Bool(false),
            text => match text.parse::<u64>() {
                Ok(number) if is("integer") => number.into(),
                _ => text.into(),
            },
        };
        members.insert(name.into_owned(), value);
    }
    Ok(Value::Object(members))
}
