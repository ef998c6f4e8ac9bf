//! `/api/…/{id}/history`: the events of one entity, from the journal. Removed entities keep their history.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::pagination::ListPage;
use endpoint::query_params::QueryParams;
use endpoint::responses::PathName;
use endpoint::route::ApiRoute;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{RecordedEvent, StreamName, StreamVersion};

const DEFAULT_PAGE_SIZE: usize = 50;

/// A kind of entity: its noun, and the prefix of its stream names.
#[derive(Clone, Copy)]
struct HistoryKind(&'static str, &'static str);

pub(crate) fn routes() -> Vec<ApiRoute> {
    let of = |name, path, tag, summary, kind| {
        let handler = move |admin: Admin,
                            State(app): State<AppState>,
                            id: PathName,
                            page: QueryParams<HistoryPageQuery>| {
            list_history(kind, admin, app, id, page)
        };
        ApiRoute::get(name, path, handler)
            .for_admins(tag, summary)
            .with_query::<HistoryPageQuery>()
            .returns_json::<ListPage<HistoryEvent>>()
    };
    vec![
        of(
            "list_source_history",
            "/api/sources/{id}/history",
            "sources",
            "List what has happened to a source, the newest last",
            HistoryKind("source", StreamName::SOURCE_PREFIX),
        ),
        of(
            "list_tool_history",
            "/api/tools/{id}/history",
            "tools",
            "List what has happened to a tool, the newest last",
            HistoryKind("tool", StreamName::TOOL_PREFIX),
        ),
        of(
            "list_group_history",
            "/api/groups/{id}/history",
            "groups",
            "List what has happened to a group, the newest last",
            HistoryKind("group", StreamName::GROUP_PREFIX),
        ),
        of(
            "list_policy_history",
            "/api/policies/{id}/history",
            "policies",
            "List what has happened to a policy, the newest last",
            HistoryKind("policy", StreamName::POLICY_PREFIX),
        ),
        of(
            "list_label_history",
            "/api/labels/{id}/history",
            "labels",
            "List what has happened to a label, the newest last",
            HistoryKind("label", StreamName::LABEL_PREFIX),
        ),
        of(
            "list_key_history",
            "/api/keys/{id}/history",
            "keys",
            "List what has happened to an API key, the newest last",
            HistoryKind("key", StreamName::API_KEY_PREFIX),
        ),
    ]
}

/// Which page of a history.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryPage")]
struct HistoryPageQuery {
    /// How many events at most; 50 if it is left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// An event of one thing.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
struct HistoryEvent {
    /// Its place among all events.
    position: u64,
    /// Its place among the events of the thing.
    version: u64,
    /// When it was recorded.
    time: Timestamp,
    /// What happened, in one word.
    r#type: Box<str>,
    /// Who wanted it.
    actor: Box<str>,
    /// Of the request that it followed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_id: Option<Box<str>>,
    /// What was said, by the type of the event.
    data: Value,
}

impl From<RecordedEvent> for HistoryEvent {
    fn from(event: RecordedEvent) -> Self {
        let RecordedEvent { position, version, time, kind, actor, correlation_id, data, .. } =
            event;
        let mut data: Value = serde_json::from_str(&data).unwrap_or_default();
        // Admins may see a key's history, but have no use for its hash.
        if event.stream.as_str().starts_with(StreamName::API_KEY_PREFIX)
            && let Some(members) = data.as_object_mut()
        {
            members.remove("hash");
        }
        let (position, version) = (position.0, version.0);
        Self { position, version, time, r#type: kind, actor, correlation_id, data }
    }
}

async fn list_history(
    HistoryKind(word, prefix): HistoryKind,
    Admin(_): Admin,
    app: AppState,
    PathName(id): PathName,
    QueryParams(HistoryPageQuery { limit, cursor }): QueryParams<HistoryPageQuery>,
) -> Result<Json<ListPage<HistoryEvent>>, Problem> {
    let none = |_| Problem::invalid_field("cursor", "is none of ours: take `next_cursor` as it is");
    let after = cursor.map(|cursor| cursor.parse().map(StreamVersion).map_err(none)).transpose()?;
    let (after, limit) = (after.unwrap_or(StreamVersion::NONE), limit.unwrap_or(DEFAULT_PAGE_SIZE));
    let stream = StreamName::new(&format!("{prefix}{id}"));
    let journal = app.crib.catalog().journal();
    let mut events = journal.read_stream(stream, after, limit + 1).await?;
    if events.is_empty() && after == StreamVersion::NONE {
        return Err(Problem::not_found(word, &id));
    }
    let has_more = limit < events.len();
    events.truncate(limit);
    let next_cursor = events.last().filter(|_| has_more).map(|event| event.version.0.to_string());
    let data = events.into_iter().map(HistoryEvent::from).collect();
    Ok(Json(ListPage { data, next_cursor }))
}
