//! `/api/sources`: registered sources. The server refreshes a new source by itself; registering it succeeds even if
//! that refresh fails.

mod source_bodies;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use catalog::CataloguedSource;
use catalog::source::SourceCommand;
use model::{
    ApiKeyLocation, CustomSettings, SourceHealth, SourceId, SourceKind, SourceProfile,
    SourceSettings, SourceUrl, UpstreamAuth, header_names, is_scope,
};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{
    CallerIdentity, ChangeContext, Command, CommandError, CustomProblem, InvalidWorkflowDocument,
    RefreshResult, Snapshot, read_custom, read_workflows,
};
use upstream::egress::AllowedDestination;

use self::source_bodies::{ListedSource, SourceResponse, source_tag};
use super::id_or_from_name;
use crate::app_state::AppState;
use crate::caller::Admin;
use crate::change_request::ChangeRequest;
use crate::etag::EntityTag;
use crate::json_body::{CreateBody, JsonBody};
use crate::pagination::{ListPage, PageQuery};
use crate::problem::{FieldError, Problem, ProblemCode};
use crate::query_params::QueryParams;
use crate::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use crate::route::ApiRoute;

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

/// Errors in a profile that every server reports, per field.
pub(crate) fn profile_errors(profile: &SourceProfile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match &profile.settings {
        SourceSettings::Mcp { command: Some(command), .. } => {
            errors.extend(command.find_problems().into_iter().map(|problem| FieldError {
                field: format!("settings.command.{}", problem.member),
                message: problem.why,
            }));
        }
        SourceSettings::Mcp { command: None, .. } if profile.url.is_none() => {
            let message = "give the `url` of the MCP server, or a `command` in `settings`";
            errors.push(FieldError { field: "url".to_owned(), message: message.to_owned() });
        }
        SourceSettings::Openapi(settings) => {
            // Without its own specification, `url` locates the specification, whose servers are not known yet.
            let base = profile.url.as_ref().filter(|_| settings.specification.is_some());
            let url = base.map(SourceUrl::as_url);
            let wrong = settings.polling.iter();
            let wrong =
                wrong.filter_map(|(name, it)| Some((name, discovery::polling_problem(url, it)?)));
            errors.extend(wrong.map(|(name, message)| FieldError {
                field: format!("settings.polling.{name}"),
                message,
            }));
        }
        SourceSettings::Workflow { documents } if documents.is_empty() => {
            let message = "give the `documents` of the workflows, as texts".to_owned();
            errors.push(FieldError { field: "settings.documents".to_owned(), message });
        }
        _ => {}
    }
    errors.extend(profile.auth.find_problems().into_iter().map(|problem| FieldError {
        field: format!("auth.{}", problem.member),
        message: problem.why.to_owned(),
    }));
    if profile.auth.authenticates_by_certificate()
        && !profile.client_certificate.as_ref().is_some_and(|it| it.for_tokens)
    {
        let message = "is missing: give it, or a `client_certificate` with `for_tokens`".to_owned();
        errors.push(FieldError { field: "auth.client_secret".to_owned(), message });
    }
    if let (
        UpstreamAuth::ApiKey { location: ApiKeyLocation::Query, .. },
        SourceSettings::Mcp { .. },
    ) = (&profile.auth, &profile.settings)
    {
        let message = "an MCP server is shown no key in the query".to_owned();
        errors.push(FieldError { field: "auth.location".to_owned(), message });
    }
    let is_mcp_at_url = matches!(&profile.settings, SourceSettings::Mcp { command: None, .. });
    if profile.auth.is_mcp_only() && !is_mcp_at_url {
        let message = "is for MCP servers at a `url`".to_owned();
        errors.push(FieldError { field: "auth.kind".to_owned(), message });
    }
    if matches!(profile.settings, SourceSettings::Custom(_))
        && (profile.auth != UpstreamAuth::None || profile.client_certificate.is_some())
        && profile.url.is_none()
    {
        let message = "say where the credential of the source goes: to the origin of this `url`";
        errors.push(FieldError { field: "url".to_owned(), message: message.to_owned() });
    }
    if profile.required_scopes.iter().flatten().any(|scope| !is_scope(scope)) {
        let message = "has one with characters that no scope has".to_owned();
        errors.push(FieldError { field: "required_scopes".to_owned(), message });
    }
    for (number, text) in profile.allow.iter().enumerate() {
        if let Err(error) = text.parse::<AllowedDestination>() {
            let field = format!("allow[{number}]");
            errors.push(FieldError { field, message: error.to_string() });
        }
    }
    for name in &profile.forward_headers {
        if !header_names::may_be_forwarded(name) {
            let message = format!("`{}` is no header that can be passed on", name.escape_default());
            errors.push(FieldError { field: "forward_headers".to_owned(), message });
        }
        if profile.auth.api_key_header().is_some_and(|key| key.eq_ignore_ascii_case(name)) {
            let message = format!(
                "`{name}` is the header of the source's own key in `auth`: leave it out here, or \
                 choose another `kind` of `auth` if the agent's own value is to be sent"
            );
            errors.push(FieldError { field: "forward_headers".to_owned(), message });
        }
    }
    if 100 < profile.shrink_limit {
        let message = "is more than 100 per cent".to_owned();
        errors.push(FieldError { field: "shrink_limit".to_owned(), message });
    }
    errors
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
    let errors = upstream::run_low_priority(move || custom_source_errors(&id, &profile)).await;
    if errors.is_empty() { Ok(()) } else { Err(Problem::invalid_fields(errors)) }
}

/// All errors in the tools, prompts and resources of a custom source.
pub(crate) fn custom_source_errors(id: &SourceId, profile: &SourceProfile) -> Vec<FieldError> {
    let SourceSettings::Custom(custom) = &profile.settings else { return Vec::new() };
    let Err(error) = read_custom(id, profile.url.as_ref(), custom) else { return Vec::new() };
    let field = |at: &str| match at {
        "" => "settings".to_owned(),
        at => format!("settings.{at}"),
    };
    let say = |it: CustomProblem| FieldError { field: field(&it.at), message: it.why };
    error.problems.into_iter().map(say).collect()
}

/// Rejects a workflow source with an invalid document. Parses the documents off the request threads.
async fn check_workflows(id: &SourceId, profile: &SourceProfile) -> Result<(), Problem> {
    if !matches!(profile.settings, SourceSettings::Workflow { .. }) {
        return Ok(());
    }
    let (id, profile) = (id.clone(), profile.clone());
    match upstream::run_low_priority(move || workflow_error(&id, &profile)).await {
        None => Ok(()),
        Some(error) => Err(Problem::invalid_fields(vec![error])),
    }
}

/// The first error in the workflow documents of a source, if it has any.
pub(crate) fn workflow_error(id: &SourceId, profile: &SourceProfile) -> Option<FieldError> {
    let SourceSettings::Workflow { documents } = &profile.settings else { return None };
    let (field, error) = match read_workflows(id, documents).err()? {
        InvalidWorkflowDocument::InDocument { number, source } => {
            (format!("settings.documents[{number}]"), *source)
        }
        other => ("settings.documents".to_owned(), other),
    };
    Some(FieldError { field, message: model::format_error_chain(&error) })
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
