//! `/api/agents/results/{id}`: the rest of a truncated answer, for its caller.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Caller;
use endpoint::query_params::QueryParams;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) const RESULT_PATH: &str = "/api/agents/results/{id}";

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_agent_result", RESULT_PATH, get_result_part)
            .for_agents("agents", "Read on in an answer that was too long")
            .with_query::<ResultPartQuery>()
            .returns_json::<ResultPart>(),
    ]
}

/// From where.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ResultQuery")]
struct ResultPartQuery {
    /// A byte; 0 if it is left out.
    #[serde(default)]
    offset: u64,
}

/// A part of an answer that was too long.
#[derive(Serialize, JsonSchema)]
struct ResultPart {
    /// What stands there.
    text: String,
    /// At which byte it begins.
    offset: usize,
    /// Where to go on; left out at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// How many bytes there are in all.
    total_bytes: usize,
}

async fn get_result_part(
    Caller(identity): Caller,
    State(app): State<AppState>,
    PathName(id): PathName,
    QueryParams(from): QueryParams<ResultPartQuery>,
) -> Result<Json<ResultPart>, Problem> {
    let view = app.crib.view_for_identity(&identity);
    let offset = usize::try_from(from.offset).unwrap_or(usize::MAX);
    let part =
        view.read_result_part(&id, offset).ok_or_else(|| Problem::not_found("result", &id))?;
    let toolcrib::ResultPart { text, offset, next_offset, total_bytes } = part;
    Ok(Json(ResultPart { text, offset, next_offset, total_bytes }))
}
