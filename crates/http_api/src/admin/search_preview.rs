//! `/api/access/search`: previews a search for an identity or among all tools. Read-only.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::json_body::JsonBody;
use endpoint::route::ApiRoute;
use model::{Claims, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{Snapshot, ToolHit};

const DEFAULT_HITS: usize = 10;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("try_search", "/api/access/search", try_search)
            .for_admins("access", "Say what a search finds, for an identity or among all tools")
            .with_body::<TrySearch>()
            .with_example(r#"{"query": "how is my pet", "claims": {"role": "staff"}}"#)
            .without_idempotency_key()
            .returns_json::<FoundTools>(),
    ]
}

/// What is looked for, and for whom.
#[derive(Deserialize, JsonSchema)]
struct TrySearch {
    /// In plain words.
    #[schemars(length(max = 2000))]
    query: String,
    /// What a token of the identity says; left out, all tools are searched, served or not.
    #[serde(default)]
    claims: Option<Claims>,
    /// How many are found at most; 10 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<usize>,
}

/// What was found, the best first.
#[derive(Serialize, JsonSchema)]
struct FoundTools {
    data: Vec<FoundTool>,
}

/// A tool that was found.
#[derive(Serialize, JsonSchema)]
struct FoundTool {
    /// How well it fits, from 0 to 1.
    score: f64,
    /// What the identity knows it by; among all tools, the shortest name that no other has.
    name: String,
    /// Its id; a tool of a program that embeds toolcrib has none.
    tool: Option<ToolId>,
    /// Where it is from.
    source: Option<String>,
    /// Whether somebody can have it now.
    is_served: bool,
    description: String,
}

impl FoundTool {
    fn from_hit(snapshot: &Snapshot, hit: &ToolHit) -> Self {
        let ToolHit { tool, score } = hit;
        let entry = tool.catalog_entry();
        Self {
            score: *score,
            name: tool.name().to_owned(),
            tool: tool.id().cloned(),
            source: entry.map(|entry| entry.tool.id.source_id().to_owned()),
            is_served: entry.is_none_or(|entry| snapshot.served().contains(entry.slot)),
            description: tool.description().into_owned(),
        }
    }
}

async fn try_search(
    Admin(_): Admin,
    State(app): State<AppState>,
    JsonBody(asked): JsonBody<TrySearch>,
) -> Result<Json<FoundTools>, Problem> {
    let TrySearch { query, claims, limit } = asked;
    let hits = app.crib.try_search(claims, &query, limit.unwrap_or(DEFAULT_HITS)).await;
    let snapshot = app.snapshot();
    Ok(Json(FoundTools {
        data: hits.iter().map(|hit| FoundTool::from_hit(&snapshot, hit)).collect(),
    }))
}
