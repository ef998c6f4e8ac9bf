//! `/api/executions`: queries of the call log. Read-only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::stream::unfold;
use jiff::Timestamp;
use model::{ErrorCode, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use toolcrib::{
    CallDoor, CallEnd, CallFilter, RecordedCall, Recorder, Records, Usage, UsageOf, UsagePage,
};

use crate::answer::Named;
use crate::app::App;
use crate::caller::Admin;
use crate::page::Page;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;

const LINES: &str = "application/x-ndjson";
const USUAL: usize = 50;
/// Rows per read of an export.
const PIECE: usize = 1_000;
/// How long a query waits until the latest calls are stored.
const MOMENT: Duration = Duration::from_secs(1);
/// How long a tool list waits for usage counts.
const USAGE: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_executions", "/api/executions", list)
            .admin("executions", "List recorded calls, the newest first")
            .asks::<Filter>()
            .answers_plain::<Page<RecordedCall>>(),
        Route::get("export_executions", "/api/executions.jsonl", export)
            .admin("executions", "Write recorded calls as JSON Lines, the oldest first")
            .asks::<Which>()
            .shows(LINES),
        Route::get("get_usage", "/api/executions/usage", usage)
            .admin("executions", "Say how often tools were called, or callers called")
            .asks::<Whose>()
            .answers_plain::<Told>(),
        Route::get("get_execution", "/api/executions/{id}", get)
            .admin("executions", "Show a recorded call")
            .answers_plain::<RecordedCall>(),
    ]
}

/// Which calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ExecutionFilter")]
struct Which {
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
    door: Option<CallDoor>,
    /// Only calls that ended so.
    #[serde(default)]
    status: Option<CallEnd>,
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
struct Filter {
    #[serde(flatten)]
    which: Which,
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
struct Whose {
    /// The id of a tool, a prompt or a resource.
    #[serde(default)]
    tool: Option<String>,
    /// A caller.
    #[serde(default)]
    subject: Option<String>,
    /// All tools, or all callers, the most used first.
    #[serde(default)]
    by: Option<By>,
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
enum By {
    /// Tools, prompts and resources.
    Tool,
    /// Callers.
    Subject,
}

/// Of one, or of many.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsageAnswer")]
#[serde(untagged)]
enum Told {
    /// Of the one that was named.
    One(Usage),
    /// Of all, the most used first.
    All(Page<Counted>),
}

/// How often one of many was used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsageOfOne")]
struct Counted {
    /// The id of the tool, prompt or resource, or the caller.
    name: String,
    #[serde(flatten)]
    usage: Usage,
}

impl Which {
    fn filter(self) -> CallFilter {
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
async fn recorder(app: &App) -> Result<&Recorder, Problem> {
    let off = || Problem::new(Code::NotFound, "calls are not recorded here: `record` is off");
    let recorder = app.crib.recorder().ok_or_else(off)?;
    // On a timeout, the answer shows the calls stored so far.
    tokio::time::timeout(MOMENT, recorder.flush()).await.ok();
    Ok(recorder)
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<RecordedCall>>, Problem> {
    let before = filter.cursor.map(|cursor| {
        let none = |_| Problem::field("cursor", "is none of ours: take `next_cursor` as it is");
        cursor.parse::<u64>().map_err(none)
    });
    let (before, limit) = (before.transpose()?, filter.limit.unwrap_or(USUAL));
    let filter = CallFilter { before, limit: limit + 1, ..filter.which.filter() };
    let mut rows = recorder(&app).await?.records().read(filter).await?;
    let has_more = limit < rows.len();
    rows.truncate(limit);
    let next_cursor = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
    let data = rows.iter().filter_map(|row| row.call()).collect();
    Ok(Json(Page { data, next_cursor }))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Named(id): Named,
) -> Result<Json<RecordedCall>, Problem> {
    let unknown = || Problem::not_found("execution", &id);
    let number: u64 = id.parse().map_err(|_| unknown())?;
    let after = number.checked_sub(1).ok_or_else(unknown)?;
    let (after, limit) = (Some(after), 1);
    let filter = CallFilter { after, limit, oldest_first: true, ..CallFilter::default() };
    let rows = recorder(&app).await?.records().read(filter).await?;
    let found = rows.first().filter(|row| row.id == number).and_then(|row| row.call());
    found.map(Json).ok_or_else(unknown)
}

async fn usage(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(whose): Asked<Whose>,
) -> Result<Json<Told>, Problem> {
    let records = recorder(&app).await?.records();
    let (of, name) = match (whose.tool, whose.subject, whose.by) {
        (Some(tool), None, None) => (UsageOf::Tool, tool),
        (None, Some(subject), None) => (UsageOf::Subject, subject),
        (None, None, Some(by)) => {
            let after = whose.cursor.as_deref().map(behind).transpose()?;
            let page = most_used(&**records, by, after, whose.limit.unwrap_or(USUAL)).await?;
            return Ok(Json(Told::All(page)));
        }
        _ => return Err(Problem::field("tool", "or `subject` or `by`: send one of them")),
    };
    let found = records.usage(of, vec![name]).await?.into_iter().next();
    Ok(Json(Told::One(found.map(|(_, usage)| usage).unwrap_or_default())))
}

async fn most_used(
    records: &dyn Records,
    by: By,
    after: Option<(u64, String)>,
    limit: usize,
) -> Result<Page<Counted>, Problem> {
    let of = match by {
        By::Tool => UsageOf::Tool,
        By::Subject => UsageOf::Subject,
    };
    let mut used = records.most_used(UsagePage { of, after, limit: limit + 1 }).await?;
    let has_more = limit < used.len();
    used.truncate(limit);
    let last = used.last().filter(|_| has_more);
    let next_cursor = last
        .map(|(name, usage)| URL_SAFE_NO_PAD.encode(format!("{} {name}", usage.execution_count)));
    let data = used.into_iter().map(|(name, usage)| Counted { name, usage }).collect();
    Ok(Page { data, next_cursor })
}

/// Parses a cursor: the usage count and the name of the last entry of a page.
fn behind(cursor: &str) -> Result<(u64, String), Problem> {
    let read = || {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let (used, name) = text.split_once(' ')?;
        Some((used.parse().ok()?, name.to_owned()))
    };
    read().ok_or_else(|| Problem::field("cursor", "is none of ours: take `next_cursor` as it is"))
}

async fn export(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(which): Asked<Which>,
) -> Result<Response, Problem> {
    let records = recorder(&app).await?.records().clone();
    // Calls made during the export are not part of it.
    let before = Some(records.chain().await?.head.id + 1);
    let (limit, after) = (PIECE, Some(0));
    let start = CallFilter { before, limit, after, oldest_first: true, ..which.filter() };
    let pieces = unfold(Some(start), move |filter| {
        let records = records.clone();
        async move {
            let filter = filter?;
            let rows = match records.read(filter.clone()).await {
                Ok(rows) => rows,
                // Abort the answer, so that the client notices that the export is incomplete.
                Err(error) => {
                    tracing::warn!(%error, "an export of calls breaks off: {error}");
                    return Some((Err(std::io::Error::other("the record cannot be read")), None));
                }
            };
            let last = rows.last()?.id;
            let next = (rows.len() == PIECE).then_some(CallFilter { after: Some(last), ..filter });
            let lines: String = rows.iter().map(|row| row.to_line() + "\n").collect();
            Some((Ok(Bytes::from(lines)), next))
        }
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(LINES)),
        (
            CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment; filename=\"executions.jsonl\""),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

/// Usage counts of some tools; `None` if calls are not recorded or the call log is unavailable.
pub(super) struct UsageOfTools(Option<BTreeMap<String, Usage>>);

impl UsageOfTools {
    pub(super) fn of(&self, id: &ToolId) -> Option<Usage> {
        self.0.as_ref().map(|known| known.get(id.as_str()).cloned().unwrap_or_default())
    }
}

/// Reads the usage counts of all these tools with one query.
pub(super) async fn usage_of_tools(
    app: &App,
    ids: impl IntoIterator<Item = &ToolId>,
) -> UsageOfTools {
    let Some(recorder) = app.crib.recorder() else { return UsageOfTools(None) };
    let names = ids.into_iter().map(ToString::to_string).collect();
    let recorder = Arc::clone(recorder);
    // Tool lists work even while the database is down. So the query runs as a task that may outlive the request.
    let asked = tokio::spawn(async move { recorder.records().usage(UsageOf::Tool, names).await });
    match timeout(USAGE, asked).await {
        Err(_) | Ok(Err(_)) => UsageOfTools(None),
        Ok(Ok(Ok(found))) => UsageOfTools(Some(found.into_iter().collect())),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "how often tools are used cannot be said: {error}");
            UsageOfTools(None)
        }
    }
}
