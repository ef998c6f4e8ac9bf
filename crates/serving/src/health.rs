//! `/health/live` and `/health/ready`: whether to restart this node, and whether to route requests to it. Both are
//! unauthenticated, so they report only stable codes and are cheap.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use toolcrib::Authenticator;

use crate::app::App;
use crate::problem::Problem;
use crate::route::Route;

/// A catalog that lags behind the journal by more than this is not ready.
const BEHIND: Duration = Duration::from_secs(5);
/// Timeout of the write probe, an empty append to the journal.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);
/// How long a probe result is reused, so that frequent health checks do not load the journal.
const KNOWN_FOR: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("get_live", "/health/live", live)
            .open("about", "Say that the process runs")
            .answers_plain::<Live>(),
        Route::get("get_ready", "/health/ready", ready)
            .open("about", "Say whether the server should be sent requests")
            .answers_plain::<Ready>(),
    ]
}

/// A process that runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Live")]
struct Live {
    /// `live`
    status: &'static str,
}

/// A server that should be sent requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ready")]
struct Ready {
    /// `ready`
    status: &'static str,
    /// What is not as it should be, and no reason to ask another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<Note>,
}

/// Why a server should not be sent requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "NotReadyReason")]
pub(crate) enum Reason {
    /// It is about to stop.
    Draining,
    /// The journal cannot be written now.
    JournalUnavailable,
    /// It does not show what happened lately.
    CatalogBehind,
}

/// What is not as it should be.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ReadyNote")]
enum Note {
    /// The keys of an issuer could not be had, or not lately.
    IssuerKeys,
    /// The configuration file has a version that cannot be applied.
    Configuration,
}

/// The result of the last write probe of the journal, and its time.
#[derive(Default)]
pub(crate) struct Health(Mutex<Option<(Instant, bool)>>);

impl Health {
    async fn journal_is_written(&self, app: &App) -> bool {
        let mut known = self.0.lock().await;
        if let Some((at, is_written)) = *known
            && at.elapsed() < KNOWN_FOR
        {
            return is_written;
        }
        let written = tokio::time::timeout(WRITTEN_WITHIN, app.crib.catalog().check_writing());
        let is_written = matches!(written.await, Ok(Ok(())));
        *known = Some((Instant::now(), is_written));
        is_written
    }
}

async fn live() -> Json<Live> {
    Json(Live { status: "live" })
}

async fn ready(State(app): State<App>) -> Result<Json<Ready>, Problem> {
    let mut reasons = Vec::new();
    if app.is_draining() {
        reasons.push(Reason::Draining);
    }
    if !app.health.journal_is_written(&app).await {
        reasons.push(Reason::JournalUnavailable);
    }
    if BEHIND < app.crib.catalog().behind_for() {
        reasons.push(Reason::CatalogBehind);
    }
    if !reasons.is_empty() {
        return Err(Problem::not_ready(reasons));
    }
    let issuers = app.crib.authenticator().map(Authenticator::issuers).unwrap_or_default();
    let mut notes = Vec::new();
    if issuers.iter().any(|issuer| issuer.degraded) {
        notes.push(Note::IssuerKeys);
    }
    if app.followed.get().is_some_and(|state| !state.now().is_applied) {
        notes.push(Note::Configuration);
    }
    Ok(Json(Ready { status: "ready", notes }))
}
