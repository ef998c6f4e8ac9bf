//! `/api/executions`: queries of the call log. Read-only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::pagination::ListPage;
use endpoint::query_params::QueryParams;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use futures_util::stream::unfold;
use jiff::Timestamp;
use model::{ErrorCode, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use toolcrib::{
    CallEndpoint, CallFilter, CallLog, CallRecorder, FinalCallStatus, RecordedCall, UsageKind,
    UsagePage, UsageTotals,
};

const JSON_LINES: &str = "application/x-ndjson";
const DEFAULT_PAGE_SIZE: usize = 50;
/// Rows per read of an export.
const EXPORT_BATCH: usize = 1_000;
/// How long a query waits until the latest calls are stored.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a tool list waits for usage counts.
const USAGE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_executions", "/api/executions", list_executions)
            .for_admins("executions", "List recorded calls, the newest first")
            .with_query::<ExecutionPageQuery>()
            .returns_json::<ListPage<RecordedCall>>(),
        ApiRoute::get("export_executions", "/api/executions.jsonl", export_executions)
            .for_admins("executions", "Write recorded calls as JSON Lines, the oldest first")
            .with_query::<ExecutionFilter>()
            .returns_document(JSON_LINES),
        ApiRoute::get("get_usage", "/api/executions/usage", get_usage)
            .for_admins("executions", "Say how often tools were called, or callers called")
            .with_query::<UsageQuery>()
            .returns_json::<UsageResponse>(),
        ApiRoute::get("get_execution", "/api/executions/{id}", get_execution)
            .for_admins("executions", "Show a recorded call")
            .returns_json::<RecordedCall>(),
    ]
}

/// Which calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ExecutionFilter")]
struct ExecutionFilter {
    /// Only calls of the tool, prompt or resource with this id.
    #[serde(default)]
    tool: Option<String>,
    /// Only calls of tools of this source.
    #[serde(default)]
    source: Option<String>,
    /// Only calls of this caller.
    #[serde(default)]
    subject: Option<String>,
    /// Only calls of the request with this name, which is the `X-Request-Id` of its answer.
    #[serde(default)]
    correlation_id: Option<String>,
    /// Only calls that are part of this trace: 32 hexadecimal digits.
    #[serde(default)]
    trace_id: Option<String>,
    /// Only calls with a token of this issuer.
    #[serde(default)]
    issuer: Option<String>,
    /// Only calls that came by this way.
    #[serde(default)]
    door: Option<CallEndpoint>,
    /// Only calls that ended so.
    #[serde(default)]
    status: Option<FinalCallStatus>,
    /// Only calls that failed for this reason.
    #[serde(default)]
    code: Option<ErrorCode>,
    /// Only calls that began then or later.
    #[serde(default)]
    since: Option<Timestamp>,
    /// Only calls that began earlier.
    #[serde(default)]
    until: Option<Timestamp>,
}

/// Which calls, and how many.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ExecutionPage")]
struct ExecutionPageQuery {
    #[serde(flatten)]
    which: ExecutionFilter,
    /// How many at most; 50 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// Of what or whom: one of the first three.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "UsageQuery")]
struct UsageQuery {
    /// The id of a tool, a prompt or a resource.
    #[serde(default)]
    tool: Option<String>,
    /// A caller.
    #[serde(default)]
    subject: Option<String>,
    /// All tools, or all callers, the most used first.
    #[serde(default)]
    by: Option<UsageGrouping>,
    /// How many of them at most; 50 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "UsageBy")]
enum UsageGrouping {
    /// Tools, prompts and resources.
    Tool,
    /// Callers.
    Subject,
}

/// Of one, or of many.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsageAnswer")]
#[serde(untagged)]
enum UsageResponse {
    /// Of the one that was named.
    One(UsageTotals),
    /// Of all, the most used first.
    All(ListPage<NamedUsage>),
}

/// How often one of many was used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsageOfOne")]
struct NamedUsage {
    /// The id of the tool, prompt or resource, or the caller.
    name: String,
    #[serde(flatten)]
    usage: UsageTotals,
}

impl ExecutionFilter {
    fn into_call_filter(self) -> CallFilter {
        let code = self.code.and_then(|code| serde_json::to_value(code).ok());
        CallFilter {
            tool: self.tool,
            source: self.source,
            subject: self.subject,
            correlation_id: self.correlation_id,
            trace_id: self.trace_id,
            issuer: self.issuer,
            door: self.door,
            status: self.status,
            code: code.and_then(|code| Some(code.as_str()?.to_owned())),
            since: self.since,
            until: self.until,
            ..CallFilter::default()
        }
    }
}

/// The recorder of the call log, after flushing the latest calls as far as the timeout allows.
async fn flushed_recorder(app: &AppState) -> Result<&CallRecorder, Problem> {
    let off =
        || Problem::new(ProblemCode::NotFound, "calls are not recorded here: `record` is off");
    let recorder = app.crib.recorder().ok_or_else(off)?;
    // On a timeout, the answer shows the calls stored so far.
    tokio::time::timeout(FLUSH_TIMEOUT, recorder.flush()).await.ok();
    Ok(recorder)
}

async fn list_executions(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<ExecutionPageQuery>,
) -> Result<Json<ListPage<RecordedCall>>, Problem> {
    let before = filter.cursor.map(|cursor| {
        let none =
            |_| Problem::invalid_field("cursor", "is none of ours: take `next_cursor` as it is");
        cursor.parse::<u64>().map_err(none)
    });
    let (before, limit) = (before.transpose()?, filter.limit.unwrap_or(DEFAULT_PAGE_SIZE));
    let filter = CallFilter { before, limit: limit + 1, ..filter.which.into_call_filter() };
    let mut rows = flushed_recorder(&app).await?.records().read_rows(filter).await?;
    let has_more = limit < rows.len();
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
    let data = rows.iter().filter_map(|row| row.parse_call()).collect();
    Ok(Json(ListPage { data, next_cursor }))
}

async fn get_execution(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathName(id): PathName,
) -> Result<Json<RecordedCall>, Problem> {
    let unknown = || Problem::not_found("execution", &id);
    let number: u64 = id.parse().map_err(|_| unknown())?;
    let after = number.checked_sub(1).ok_or_else(unknown)?;
    let (after, limit) = (Some(after), 1);
    let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
    let rows = flushed_recorder(&app).await?.records().read_rows(filter).await?;
    let found = rows.first().filter(|row| row.id == number).and_then(|row| row.parse_call());
    found.map(Json).ok_or_else(unknown)
}

async fn get_usage(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(whose): QueryParams<UsageQuery>,
) -> Result<Json<UsageResponse>, Problem> {
    let records = flushed_recorder(&app).await?.records();
    let (of, name) = match (whose.tool, whose.subject, whose.by) {
        (Some(tool), None, None) => (UsageKind::Tool, tool),
        (None, Some(subject), None) => (UsageKind::Subject, subject),
        (None, None, Some(by)) => {
            let after = whose.cursor.as_deref().map(parse_usage_cursor).transpose()?;
            let page =
                most_used(&**records, by, after, whose.limit.unwrap_or(DEFAULT_PAGE_SIZE)).await?;
            return Ok(Json(UsageResponse::All(page)));
        }
        _ => return Err(Problem::invalid_field("tool", "or `subject` or `by`: send one of them")),
    };
    let found = records.usage_totals(of, vec![name]).await?.into_iter().next();
    Ok(Json(UsageResponse::One(found.map(|(_, usage)| usage).unwrap_or_default())))
}

async fn most_used(
    records: &dyn CallLog,
    by: UsageGrouping,
    after: Option<(u64, String)>,
    limit: usize,
) -> Result<ListPage<NamedUsage>, Problem> {
    let of = match by {
        UsageGrouping::Tool => UsageKind::Tool,
        UsageGrouping::Subject => UsageKind::Subject,
    };
    let mut used = records.most_used(UsagePage { of, after, limit: limit + 1 }).await?;
    let has_more = limit < used.len();
    used.truncate(limit);
    let last = used.last().filter(|_| has_more);
    let next_cursor = last
        .map(|(name, usage)| URL_SAFE_NO_PAD.encode(format!("{} {name}", usage.execution_count)));
    let data = used.into_iter().map(|(name, usage)| NamedUsage { name, usage }).collect();
    Ok(ListPage { data, next_cursor })
}

/// Parses a cursor: the usage count and the name of the last entry of a page.
fn parse_usage_cursor(cursor: &str) -> Result<(u64, String), Problem> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (used, name) = text.split_once(' ')?;
        Some((used.parse().ok()?, name.to_owned()))
    };
    read().ok_or_else(|| {
        Problem::invalid_field("cursor", "is none of ours: take `next_cursor` as it is")
    })
}

async fn export_executions(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(which): QueryParams<ExecutionFilter>,
) -> Result<Response, Problem> {
    let records = flushed_recorder(&app).await?.records().clone();
    // Calls made during the export are not part of it.
    let before = Some(records.chain_bounds().await?.head.id + 1);
    let (limit, after) = (EXPORT_BATCH, Some(0));
    let start = CallFilter { before, limit, after, oldest_first: true, ..which.into_call_filter() };
    let pieces = unfold(Some(start), move |filter| {
        let records = records.clone();
        async move {
            let filter = filter?;
            let rows = match records.read_rows(filter.clone()).await {
                Ok(rows) => rows,
                // Abort the answer, so that the client notices that the export is incomplete.
                Err(error) => {
                    tracing::warn!(%error, "an export of calls breaks off: {error}");
                    return Some((Err(std::io::Error::other("the record cannot be read")), None));
                }
            };
            let last = rows.last()?.id;
            let next =
                (rows.len() == EXPORT_BATCH).then_some(CallFilter { after: Some(last), ..filter });
            let lines: String = rows.iter().map(|row| row.to_line() + "\n").collect();
            Some((Ok(Bytes::from(lines)), next))
        }
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(JSON_LINES)),
        (
            CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"executions.jsonl\""),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Usage counts of some tools; `None` if calls are not recorded or the call log is unavailable.
pub(super) struct ToolUsageCounts(Option<BTreeMap<String, UsageTotals>>);

impl ToolUsageCounts {
    pub(super) fn usage_of(&self, id: &ToolId) -> Option<UsageTotals> {
        self.0.as_ref().map(|known| known.get(id.as_str()).cloned().unwrap_or_default())
    }
}

/// Reads the usage counts of all these tools with one query.
pub(super) async fn read_tool_usage(
    app: &AppState,
    ids: impl IntoIterator<Item = &ToolId>,
) -> ToolUsageCounts {
    let Some(recorder) = app.crib.recorder() else { return ToolUsageCounts(None) };
    let names = ids.into_iter().map(ToString::to_string).collect();
    let recorder = Arc::clone(recorder);
    // Tool lists work even while the database is down. So the query runs as a task that may outlive the request.
    let asked =
        tokio::spawn(async move { recorder.records().usage_totals(UsageKind::Tool, names).await });
    match timeout(USAGE_TIMEOUT, asked).await {
        Err(_) | Ok(Err(_)) => ToolUsageCounts(None),
        Ok(Ok(Ok(found))) => ToolUsageCounts(Some(found.into_iter().collect())),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "how often tools are used cannot be said: {error}");
            ToolUsageCounts(None)
        }
    }
}
