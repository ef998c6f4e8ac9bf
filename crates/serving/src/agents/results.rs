//! `/api/agents/results/{id}`: the rest of a truncated answer, for its caller.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Named;
use crate::app::App;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

pub(crate) const PATH: &str = "/api/agents/results/{id}";

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_agent_result", PATH, get)
            .agent("agents", "Read on in an answer that was too long")
            .asks::<From>()
            .answers_plain::<ResultPart>(),
    ]
}

/// From where.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ResultQuery")]
struct From {
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

async fn get(
    Caller(identity): Caller,
    State(app): State<App>,
    Named(id): Named,
    Asked(from): Asked<From>,
) -> Result<Json<ResultPart>, Problem> {
    let view = app.crib.view_of(&identity);
    let offset = usize::try_from(from.offset).unwrap_or(usize::MAX);
    let part = view.result_part(&id, offset).ok_or_else(|| Problem::not_found("result", &id))?;
    let toolcrib::ResultPart { text, offset, next_offset, total_bytes } = part;
    Ok(Json(ResultPart { text, offset, next_offset, total_bytes }))
}
