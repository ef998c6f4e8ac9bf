//! Responses and path extractors that many handlers share: an entity with its `ETag`, or a new one with its address.

use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderValue, LOCATION};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use std::str::FromStr;

use crate::app::App;
use crate::etag::Tag;
use crate::problem::{Code, Problem};

/// The current state of one entity, with its `ETag`.
pub(crate) struct Seen<T> {
    pub(crate) tag: Tag,
    pub(crate) body: T,
}

impl<T: Serialize> IntoResponse for Seen<T> {
    fn into_response(self) -> Response {
        ([(ETAG, self.tag.header())], Json(self.body)).into_response()
    }
}

/// A new entity with its `Location`.
pub(crate) struct Made<T> {
    pub(crate) address: String,
    pub(crate) seen: Seen<T>,
}

impl<T> Made<T> {
    /// Shows the entity that this request, or an earlier one with the same idempotency key, created. If it was removed
    /// meanwhile, the answer is a problem.
    pub(crate) fn at(address: String, seen: Result<Seen<T>, Problem>) -> Result<Self, Problem> {
        match seen {
            Ok(seen) => Ok(Self { address, seen }),
            Err(problem) if problem.is(Code::NotFound) => {
                let detail = "this request has made it, and it has been removed since: \
                              to make it again, send another idempotency key or none";
                Err(Problem::new(Code::GoneSince, detail))
            }
            Err(problem) => Err(problem),
        }
    }
}

impl<T: Serialize> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        let address = HeaderValue::try_from(self.address).expect("an address of ours is ASCII");
        (StatusCode::CREATED, [(LOCATION, address)], self.seen).into_response()
    }
}

/// What is gone, and what went with it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Removed")]
pub(crate) struct Removed {
    /// Of what was there.
    pub(crate) id: String,
    /// How many tools went with a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) removed_tools: Option<u64>,
    /// How many tools lost a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unlabelled_tools: Option<u64>,
}

impl Removed {
    /// Reads the counts from the catalog's answer to the command.
    pub(crate) fn of(id: &impl ToString, answer: &serde_json::Value) -> Json<Self> {
        let count = |name: &str| answer.get(name).and_then(serde_json::Value::as_u64);
        let (removed_tools, unlabelled_tools) = (count("removed_tools"), count("unlabelled_tools"));
        Json(Self { id: id.to_string(), removed_tools, unlabelled_tools })
    }
}

/// The id in the path. Text that is no valid id answers 404, like an unknown id.
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr + Send> FromRequestParts<App> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Ok(Path(text)) = path else {
            return Err(Problem::new(Code::NotFound, "the id in the path is not UTF-8"));
        };
        text.parse().map(Self).map_err(|_| Problem::not_found("such id:", &text))
    }
}

/// The name in the path: any text.
pub(crate) struct Named(pub(crate) String);

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(Problem::new(Code::NotFound, "the name in the path is not UTF-8")),
        }
    }
}
