//! Responses and path extractors that many handlers share: an entity with its `ETag`, or a new one with its address.

use std::str::FromStr;

use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::{FromRequestParts, Path};
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderValue, LOCATION};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app_state::AppState;
use crate::etag::EntityTag;

/// The current state of one entity, with its `ETag`.
pub struct TaggedResponse<T> {
    pub tag: EntityTag,
    pub body: T,
}

impl<T: Serialize> IntoResponse for TaggedResponse<T> {
    fn into_response(self) -> Response {
        ([(ETAG, self.tag.to_header())], Json(self.body)).into_response()
    }
}

/// A new entity with its `Location`.
pub struct CreatedResponse<T> {
    pub(crate) location: String,
    pub(crate) entity: TaggedResponse<T>,
}

impl<T> CreatedResponse<T> {
    /// Shows the entity that this request, or an earlier one with the same idempotency key, created. If it was removed
    /// meanwhile, the answer is a problem.
    pub fn at_location(
        address: String,
        seen: Result<TaggedResponse<T>, Problem>,
    ) -> Result<Self, Problem> {
        match seen {
            Ok(seen) => Ok(Self { location: address, entity: seen }),
            Err(problem) if problem.has_code(ProblemCode::NotFound) => {
                let detail = "this request has made it, and it has been removed since: \
                              to make it again, send another idempotency key or none";
                Err(Problem::new(ProblemCode::GoneSince, detail))
            }
            Err(problem) => Err(problem),
        }
    }
}

impl<T: Serialize> IntoResponse for CreatedResponse<T> {
    fn into_response(self) -> Response {
        let address = HeaderValue::try_from(self.location).expect("an address of ours is ASCII");
        (StatusCode::CREATED, [(LOCATION, address)], self.entity).into_response()
    }
}

/// What is gone, and what went with it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Removed")]
pub struct RemovalBody {
    /// Of what was there.
    pub(crate) id: String,
    /// How many tools went with a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) removed_tools: Option<u64>,
    /// How many tools lost a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unlabelled_tools: Option<u64>,
}

impl RemovalBody {
    /// Reads the counts from the catalog's answer to the command.
    pub fn from_answer(id: &impl ToString, answer: &serde_json::Value) -> Json<Self> {
        let count = |name: &str| answer.get(name).and_then(serde_json::Value::as_u64);
        let (removed_tools, unlabelled_tools) = (count("removed_tools"), count("unlabelled_tools"));
        Json(Self { id: id.to_string(), removed_tools, unlabelled_tools })
    }
}

/// The id in the path. Text that is no valid id answers 404, like an unknown id.
pub struct PathId<T>(pub T);

impl<T: FromStr + Send> FromRequestParts<AppState> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Ok(Path(text)) = path else {
            return Err(Problem::new(ProblemCode::NotFound, "the id in the path is not UTF-8"));
        };
        text.parse().map(Self).map_err(|_| Problem::not_found("such id:", &text))
    }
}

/// The name in the path: any text.
pub struct PathName(pub String);

impl FromRequestParts<AppState> for PathName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(Problem::new(ProblemCode::NotFound, "the name in the path is not UTF-8")),
        }
    }
}
