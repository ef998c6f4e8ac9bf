//! `/api/…/{id}/history`: the events of one entity, from the journal. Removed entities keep their history.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{Recorded, StreamName, Version};

use crate::answer::Named;
use crate::app::App;
use crate::caller::Admin;
use crate::page::Page;
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

const USUAL: usize = 50;

/// A kind of entity: its noun, and the prefix of its stream names.
#[derive(Clone, Copy)]
struct Kind(&'static str, &'static str);

pub(crate) fn routes() -> Vec<Route> {
    let of = |name, path, tag, summary, kind| {
        let handler = move |admin: Admin, State(app): State<App>, id: Named, page: Asked<Which>| {
            history(kind, admin, app, id, page)
        };
        Route::get(name, path, handler)
            .admin(tag, summary)
            .asks::<Which>()
            .answers_plain::<Page<Happened>>()
    };
    vec![
        of(
            "list_source_history",
            "/api/sources/{id}/history",
            "sources",
            "List what has happened to a source, the newest last",
            Kind("source", StreamName::SOURCE),
        ),
        of(
            "list_tool_history",
            "/api/tools/{id}/history",
            "tools",
            "List what has happened to a tool, the newest last",
            Kind("tool", StreamName::TOOL),
        ),
        of(
            "list_group_history",
            "/api/groups/{id}/history",
            "groups",
            "List what has happened to a group, the newest last",
            Kind("group", StreamName::GROUP),
        ),
        of(
            "list_policy_history",
            "/api/policies/{id}/history",
            "policies",
            "List what has happened to a policy, the newest last",
            Kind("policy", StreamName::POLICY),
        ),
        of(
            "list_label_history",
            "/api/labels/{id}/history",
            "labels",
            "List what has happened to a label, the newest last",
            Kind("label", StreamName::LABEL),
        ),
        of(
            "list_key_history",
            "/api/keys/{id}/history",
            "keys",
            "List what has happened to an API key, the newest last",
            Kind("key", StreamName::KEY),
        ),
    ]
}

/// Which page of a history.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "HistoryPage")]
struct Which {
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
struct Happened {
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

impl From<Recorded> for Happened {
    fn from(event: Recorded) -> Self {
        let Recorded { position, version, time, kind, actor, correlation_id, data, .. } = event;
        let mut data: Value = serde_json::from_str(&data).unwrap_or_default();
        // Admins may see a key's history, but have no use for its hash.
        if event.stream.as_str().starts_with(StreamName::KEY)
            && let Some(members) = data.as_object_mut()
        {
            members.remove("hash");
        }
        let (position, version) = (position.0, version.0);
        Self { position, version, time, r#type: kind, actor, correlation_id, data }
    }
}

async fn history(
    Kind(word, prefix): Kind,
    Admin(_): Admin,
    app: App,
    Named(id): Named,
    Asked(Which { limit, cursor }): Asked<Which>,
) -> Result<Json<Page<Happened>>, Problem> {
    let none = |_| Problem::field("cursor", "is none of ours: take `next_cursor` as it is");
    let after = cursor.map(|cursor| cursor.parse().map(Version).map_err(none)).transpose()?;
    let (after, limit) = (after.unwrap_or(Version::NONE), limit.unwrap_or(USUAL));
    let stream = StreamName::new(&format!("{prefix}{id}"));
    let journal = app.crib.catalog().journal();
    let mut events = journal.read_stream(stream, after, limit + 1).await?;
    if events.is_empty() && after == Version::NONE {
        return Err(Problem::not_found(word, &id));
    }
    let has_more = limit < events.len();
    events.truncate(limit);
    let next_cursor = events.last().filter(|_| has_more).map(|event| event.version.0.to_string());
    let data = events.into_iter().map(Happened::from).collect();
    Ok(Json(Page { data, next_cursor }))
}
