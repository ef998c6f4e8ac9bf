//! `/api/sources`: registered sources. The server refreshes a new source by itself; registering it succeeds even if
//! that refresh fails.

mod source_responses;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api_types::problem::{FieldError, Problem, ProblemCode};
use api_types::source_checks::{custom_source_errors, profile_errors, workflow_error};
use axum::Json;
use axum::extract::State;
use catalog::CataloguedSource;
use catalog::source::SourceCommand;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::{CreateBody, JsonBody};
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use endpoint::route::ApiRoute;
use model::{CustomSettings, SourceHealth, SourceId, SourceKind, SourceProfile, SourceSettings};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{CallerIdentity, ChangeContext, Command, CommandError, RefreshResult, Snapshot};

use self::source_responses::{ListedSource, SourceResponse, source_tag};
use super::id_or_from_name;
use crate::change_request::ChangeRequest;

/// The body may contain a whole specification.
const BODY_LIMIT: usize = 16 << 20;
/// Allows for a large specification from a slow server.
const REFRESH_DEADLINE: Duration = Duration::from_secs(300);

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_sources", "/api/sources", list_sources)
            .for_admins("sources", "List sources")
            .with_query::<SourceFilter>()
            .returns_json::<ListPage<ListedSource>>(),
        ApiRoute::post("register_source", "/api/sources", register_source)
            .for_admins("sources", "Register a source; its first refresh follows by itself")
            .with_body::<CreateBody<SourceId, SourceProfile>>()
            .with_example(r#"{"name": "Pets", "url": "https://pets.example.com/openapi.json", "settings": {"kind": "openapi"}}"#)
            .returns_created::<SourceResponse>()
            .with_body_limit(BODY_LIMIT),
        ApiRoute::get("get_source", "/api/sources/{id}", get_source)
            .for_admins("sources", "Show a source")
            .returns_tagged::<SourceResponse>(),
        ApiRoute::put("update_source", "/api/sources/{id}", update_source)
            .for_admins("sources", "Change a source; its kind stays")
            .with_body::<SourceProfile>()
            .returns_tagged::<SourceResponse>()
            .with_body_limit(BODY_LIMIT),
        ApiRoute::delete("remove_source", "/api/sources/{id}", remove_source)
            .for_admins("sources", "Remove a source and its tools")
            .returns_json::<RemovalBody>(),
        ApiRoute::post("enable_source", "/api/sources/{id}/enable", enable_source)
            .for_admins("sources", "Serve the tools of a source")
            .returns_tagged::<SourceResponse>(),
        ApiRoute::post("disable_source", "/api/sources/{id}/disable", disable_source)
            .for_admins("sources", "Do not serve the tools of a source")
            .returns_tagged::<SourceResponse>(),
        ApiRoute::post("reset_source", "/api/sources/{id}/reset", reset_source)
            .for_admins("sources", "Call a source again that was left alone after failures, on this node")
            .without_idempotency_key()
            .returns_tagged::<SourceResponse>(),
        ApiRoute::post("refresh_source", "/api/sources/{id}/refresh", refresh_source)
            .for_admins("sources", "Ask a source what it offers, and take that in")
            .with_optional_body::<RefreshBody>()
            .without_idempotency_key()
            .returns_json::<RefreshResult>()
            .with_deadline(REFRESH_DEADLINE),
    ]
}

/// Which sources.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SourceFilter")]
struct SourceFilter {
    #[serde(flatten)]
    paging: PageQuery,
    /// Only those of this kind.
    #[serde(default)]
    kind: Option<SourceKind>,
    /// Only those that are enabled, or only the others.
    #[serde(default)]
    enabled: Option<bool>,
    /// Only those of which the last refreshes went so.
    #[serde(default)]
    health: Option<SourceHealth>,
}

/// How to refresh.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Refresh")]
struct RefreshBody {
    /// Skip nothing, and hold nothing back.
    #[serde(default)]
    force: bool,
}

fn source_tag_in<'a>(id: &'a SourceId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.source(id).map(|entry| source_tag(&entry.source))
}

fn show_source(app: &AppState, id: &SourceId) -> Result<TaggedResponse<SourceResponse>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.source(id).ok_or_else(|| Problem::not_found("source", id.as_str()))?;
    let stderr = app.crib.source_stderr(id);
    let (calls, changes) = (app.crib.gate_state(id), app.crib.refresher().recent_changes(id));
    let body = SourceResponse::from_catalog(&snapshot, entry, stderr.as_deref(), calls, changes);
    Ok(TaggedResponse { tag: source_tag(&entry.source), body })
}

/// Executes one command and shows the changed source.
async fn change_source(
    app: &AppState,
    identity: &CallerIdentity,
    change: &ChangeRequest,
    id: &SourceId,
    command: SourceCommand,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    change
        .execute_command(app, identity, Command::Source(id.clone(), command), source_tag_in(id))
        .await?;
    show_source(app, id)
}

/// Rejects a well-formed profile that this server does not accept.
pub(super) fn check_profile(app: &AppState, profile: &SourceProfile) -> Result<(), Problem> {
    let runs_programs = match &profile.settings {
        SourceSettings::Mcp { command, .. } => command.is_some(),
        SourceSettings::Custom(custom) => custom.runs_programs(),
        _ => false,
    };
    if runs_programs && !app.options.allow_stdio {
        let detail = "this server starts no child processes: start it with --allow-stdio for that";
        return Err(Problem::new(ProblemCode::StdioNotAllowed, detail));
    }
    let mut errors = profile_errors(profile);
    if let SourceSettings::Custom(custom) = &profile.settings {
        errors.extend(disallowed_files(app, custom));
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid_fields(errors)) }
}

/// Errors for resource files that this server may not read.
fn disallowed_files(app: &AppState, custom: &CustomSettings) -> Vec<FieldError> {
    let folders = app.crib.resource_folders();
    let elsewhere =
        custom.referenced_files().filter(|(_, file)| !folders.may_contain(Path::new(file)));
    let say = |(at, _)| FieldError {
        field: format!("settings.{at}"),
        message: "is not below a folder that this server may read: start it with --resource-folder"
            .to_owned(),
    };
    elsewhere.map(say).collect()
}

/// Rejects a custom source with invalid tools, prompts or resources.
async fn check_custom_source(id: &SourceId, profile: &SourceProfile) -> Result<(), Problem> {
    if !matches!(profile.settings, SourceSettings::Custom(_)) {
        return Ok(());
    }
    let (id, profile) = (id.clone(), profile.clone());
    let errors = limits::run_low_priority(move || custom_source_errors(&id, &profile)).await;
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid_fields(errors)) }
}

/// Rejects a workflow source with an invalid document. Parses the documents off the request threads.
async fn check_workflows(id: &SourceId, profile: &SourceProfile) -> Result<(), Problem> {
    if !matches!(profile.settings, SourceSettings::Workflow { .. }) {
        return Ok(());
    }
    let (id, profile) = (id.clone(), profile.clone());
    match limits::run_low_priority(move || workflow_error(&id, &profile)).await {
        None => Ok(()),
        Some(error) => Err(Problem::invalid_fields(vec![error])),
    }
}

async fn list_sources(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<SourceFilter>,
) -> Result<Json<ListPage<ListedSource>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.sources().filter(|entry| {
        let source = &entry.source;
        filter.paging.matches_search(source.id.as_str(), source.profile.name.as_str())
            && filter.kind.is_none_or(|kind| source.profile.settings.kind() == kind)
            && filter.enabled.is_none_or(|enabled| source.enabled == enabled)
            && filter.health.is_none_or(|health| source.health == health)
    });
    let show = |entry: &Arc<CataloguedSource>| ListedSource::from_catalog(&snapshot, entry);
    filter.paging.take_page(wanted, |entry| entry.source.id.to_string(), show).map(Json)
}

async fn register_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    new: CreateBody<SourceId, SourceProfile>,
) -> Result<CreatedResponse<SourceResponse>, Problem> {
    let id = id_or_from_name(new.id, &new.content.name)?;
    check_profile(&app, &new.content)?;
    check_workflows(&id, &new.content).await?;
    check_custom_source(&id, &new.content).await?;
    let command = Command::Source(id.clone(), SourceCommand::Register(new.content));
    change.execute_command(&app, &identity, command, source_tag_in(&id)).await?;
    CreatedResponse::at_location(format!("/api/sources/{id}"), show_source(&app, &id))
}

async fn get_source(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    show_source(&app, &id)
}

async fn update_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
    change: ChangeRequest,
    JsonBody(profile): JsonBody<SourceProfile>,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    check_profile(&app, &profile)?;
    check_workflows(&id, &profile).await?;
    check_custom_source(&id, &profile).await?;
    change_source(&app, &identity, &change, &id, SourceCommand::Update(profile)).await
}

async fn enable_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    change_source(&app, &identity, &change, &id, SourceCommand::Enable).await
}

async fn reset_source(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    app.crib.reset_gate(&id);
    show_source(&app, &id)
}

async fn disable_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<SourceResponse>, Problem> {
    change_source(&app, &identity, &change, &id, SourceCommand::Disable).await
}

async fn remove_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
    change: ChangeRequest,
) -> Result<Json<RemovalBody>, Problem> {
    let command = Command::Source(id.clone(), SourceCommand::Remove);
    let executed = change.execute_command(&app, &identity, command, source_tag_in(&id)).await?;
    Ok(RemovalBody::from_answer(&id, &executed.answer))
}

async fn refresh_source(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<SourceId>,
    change: ChangeRequest,
    JsonBody(RefreshBody { force }): JsonBody<RefreshBody>,
) -> Result<Json<RefreshResult>, Problem> {
    let tag = source_tag_in(&id)(&app.snapshot());
    if tag.is_some_and(|tag| !change.condition.is_satisfied_by(tag)) {
        return Err(
            toolcrib::CommandRefusal::HasChanged { what: "source", id: id.to_string() }.into()
        );
    }
    let result = refresh_detached(&app, &id, force, change.command_context(&identity)).await?;
    if result.success { Ok(Json(result)) } else { Err(result.into()) }
}

/// Refreshes in a background task, so that the refresh completes even if the client disconnects.
async fn refresh_detached(
    app: &AppState,
    id: &SourceId,
    force: bool,
    context: ChangeContext,
) -> Result<RefreshResult, Problem> {
    let (answer, answered) = tokio::sync::oneshot::channel::<Result<_, CommandError>>();
    let (refreshing, id) = (app.clone(), id.clone());
    app.spawn_background(async move {
        let result = refreshing.crib.refresher().refresh(&id, force, &context).await;
        // The client may have disconnected.
        drop(answer.send(result));
    });
    match answered.await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Problem::internal_error("a refresh ended without a result")),
    }
}
