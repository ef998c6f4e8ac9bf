//! `/health/live` and `/health/ready`: whether to restart this node, and whether to route requests to it. Both are
//! unauthenticated, so they report only stable codes and are cheap.

use std::time::Duration;

use api_types::problem::{NotReadyReason, Problem};
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::route::ApiRoute;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::Authenticator;

/// A catalog that lags behind the journal by more than this is not ready.
const MAX_CATALOG_LAG: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_live", "/health/live", report_live)
            .open_to_all("about", "Say that the process runs")
            .returns_json::<LivenessReport>(),
        ApiRoute::get("get_ready", "/health/ready", report_ready)
            .open_to_all("about", "Say whether the server should be sent requests")
            .returns_json::<ReadinessReport>(),
    ]
}

/// A process that runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Live")]
struct LivenessReport {
    /// `live`
    status: &'static str,
}

/// A server that should be sent requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ready")]
struct ReadinessReport {
    /// `ready`
    status: &'static str,
    /// What is not as it should be, and no reason to ask another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<ReadinessNote>,
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ReadyNote")]
enum ReadinessNote {
    /// The keys of an issuer could not be had, or not lately.
    IssuerKeys,
    /// The configuration file has a version that cannot be applied.
    Configuration,
}

async fn report_live() -> Json<LivenessReport> {
    Json(LivenessReport { status: "live" })
}

async fn report_ready(State(app): State<AppState>) -> Result<Json<ReadinessReport>, Problem> {
    let mut reasons = Vec::new();
    if app.is_draining() {
        reasons.push(NotReadyReason::Draining);
    }
    if !app.journal_probe.is_journal_writable(&app.crib).await {
        reasons.push(NotReadyReason::JournalUnavailable);
    }
    if MAX_CATALOG_LAG < app.crib.catalog().time_behind() {
        reasons.push(NotReadyReason::CatalogBehind);
    }
    if !reasons.is_empty() {
        return Err(Problem::not_ready(reasons));
    }
    let issuers = app.crib.authenticator().map(Authenticator::issuer_states).unwrap_or_default();
    let mut notes = Vec::new();
    if issuers.iter().any(|issuer| issuer.degraded) {
        notes.push(ReadinessNote::IssuerKeys);
    }
    if app.config_follower.get().is_some_and(|state| !state.current_status().is_applied) {
        notes.push(ReadinessNote::Configuration);
    }
    Ok(Json(ReadinessReport { status: "ready", notes }))
}
