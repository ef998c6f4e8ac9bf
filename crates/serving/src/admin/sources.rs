//! `/api/sources`: registered sources. The server refreshes a new source by itself; registering it succeeds even if
//! that refresh fails.

mod shown;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use catalog::CataloguedSource;
use catalog::source::SourceCommand;
use model::{
    ApiKeyLocation, Auth, CustomSettings, Health, Kind, Settings, SourceId, SourceProfile,
    SourceUrl, header, is_scope,
};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{
    Command, CommandError, Context, CustomProblem, Identity, InvalidDocument, RefreshResult,
    Snapshot, read_custom, read_workflows,
};
use upstream::egress::Allowed;

use self::shown::{Listed, SeenSource, tag};
use super::id_for;
use crate::answer::{Id, Made, Removed, Seen};
use crate::app::App;
use crate::body::{Body, New};
use crate::caller::Admin;
use crate::change::Change;
use crate::etag::Tag;
use crate::page::{Page, Paging};
use crate::problem::{Code, FieldError, Problem};
use crate::query::Asked;
use crate::route::Route;

/// The body may contain a whole specification.
const BODY_LIMIT: usize = 16 << 20;
/// Allows for a large specification from a slow server.
const REFRESH_WITHIN: Duration = Duration::from_secs(300);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_sources", "/api/sources", list)
            .admin("sources", "List sources")
            .asks::<Filter>()
            .answers_plain::<Page<Listed>>(),
        Route::post("register_source", "/api/sources", register)
            .admin("sources", "Register a source; its first refresh follows by itself")
            .takes::<New<SourceId, SourceProfile>>()
            .like(r#"{"name": "Pets", "url": "https://pets.example.com/openapi.json", "settings": {"kind": "openapi"}}"#)
            .makes::<SeenSource>()
            .up_to(BODY_LIMIT),
        Route::get("get_source", "/api/sources/{id}", get)
            .admin("sources", "Show a source")
            .answers::<SeenSource>(),
        Route::put("update_source", "/api/sources/{id}", update)
            .admin("sources", "Change a source; its kind stays")
            .takes::<SourceProfile>()
            .answers::<SeenSource>()
            .up_to(BODY_LIMIT),
        Route::delete("remove_source", "/api/sources/{id}", remove)
            .admin("sources", "Remove a source and its tools")
            .answers_plain::<Removed>(),
        Route::post("enable_source", "/api/sources/{id}/enable", enable)
            .admin("sources", "Serve the tools of a source")
            .answers::<SeenSource>(),
        Route::post("disable_source", "/api/sources/{id}/disable", disable)
            .admin("sources", "Do not serve the tools of a source")
            .answers::<SeenSource>(),
        Route::post("reset_source", "/api/sources/{id}/reset", reset)
            .admin("sources", "Call a source again that was left alone after failures, on this node")
            .without_key()
            .answers::<SeenSource>(),
        Route::post("refresh_source", "/api/sources/{id}/refresh", refresh)
            .admin("sources", "Ask a source what it offers, and take that in")
            .may_take::<Force>()
            .without_key()
            .answers_plain::<RefreshResult>()
            .within(REFRESH_WITHIN),
    ]
}

/// Which sources.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SourceFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
    /// Only those of this kind.
    #[serde(default)]
    kind: Option<Kind>,
    /// Only those that are enabled, or only the others.
    #[serde(default)]
    enabled: Option<bool>,
    /// Only those of which the last refreshes went so.
    #[serde(default)]
    health: Option<Health>,
}

/// How to refresh.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Refresh")]
struct Force {
    /// Skip nothing, and hold nothing back.
    #[serde(default)]
    force: bool,
}

fn tag_in<'a>(id: &'a SourceId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.source(id).map(|entry| tag(&entry.source))
}

fn seen(app: &App, id: &SourceId) -> Result<Seen<SeenSource>, Problem> {
    let snapshot = app.snapshot();
    let entry = snapshot.source(id).ok_or_else(|| Problem::not_found("source", id.as_str()))?;
    let stderr = app.crib.stderr_of(id);
    let (calls, changes) = (app.crib.gate_of(id), app.crib.refresher().changes_of(id));
    let body = SeenSource::of(&snapshot, entry, stderr.as_deref(), calls, changes);
    Ok(Seen { tag: tag(&entry.source), body })
}

/// Executes one command and shows the changed source.
async fn changed(
    app: &App,
    identity: &Identity,
    change: &Change,
    id: &SourceId,
    command: SourceCommand,
) -> Result<Seen<SeenSource>, Problem> {
    change.make(app, identity, Command::Source(id.clone(), command), tag_in(id)).await?;
    seen(app, id)
}

/// Rejects a well-formed profile that this server does not accept.
pub(super) fn check(app: &App, profile: &SourceProfile) -> Result<(), Problem> {
    let runs_programs = match &profile.settings {
        Settings::Mcp { command, .. } => command.is_some(),
        Settings::Custom(custom) => custom.runs_programs(),
        _ => false,
    };
    if runs_programs && !app.options.allow_stdio {
        let detail = "this server starts no child processes: start it with --allow-stdio for that";
        return Err(Problem::new(Code::StdioNotAllowed, detail));
    }
    let mut errors = problems(profile);
    if let Settings::Custom(custom) = &profile.settings {
        errors.extend(files_elsewhere(app, custom));
    }
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors)) }
}

/// Errors in a profile that every server reports, per field.
pub(crate) fn problems(profile: &SourceProfile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match &profile.settings {
        Settings::Mcp { command: Some(command), .. } => {
            errors.extend(command.problems().into_iter().map(|problem| FieldError {
                field: format!("settings.command.{}", problem.member),
                message: problem.why,
            }));
        }
        Settings::Mcp { command: None, .. } if profile.url.is_none() => {
            let message = "give the `url` of the MCP server, or a `command` in `settings`";
            errors.push(FieldError { field: "url".to_owned(), message: message.to_owned() });
        }
        Settings::Openapi(settings) => {
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
        Settings::Workflow { documents } if documents.is_empty() => {
            let message = "give the `documents` of the workflows, as texts".to_owned();
            errors.push(FieldError { field: "settings.documents".to_owned(), message });
        }
        _ => {}
    }
    errors.extend(profile.auth.problems().into_iter().map(|problem| FieldError {
        field: format!("auth.{}", problem.member),
        message: problem.why.to_owned(),
    }));
    if profile.auth.is_by_certificate()
        && !profile.client_certificate.as_ref().is_some_and(|it| it.for_tokens)
    {
        let message = "is missing: give it, or a `client_certificate` with `for_tokens`".to_owned();
        errors.push(FieldError { field: "auth.client_secret".to_owned(), message });
    }
    if let (Auth::ApiKey { location: ApiKeyLocation::Query, .. }, Settings::Mcp { .. }) =
        (&profile.auth, &profile.settings)
    {
        let message = "an MCP server is shown no key in the query".to_owned();
        errors.push(FieldError { field: "auth.location".to_owned(), message });
    }
    let is_mcp_at_url = matches!(&profile.settings, Settings::Mcp { command: None, .. });
    if profile.auth.is_of_mcp() && !is_mcp_at_url {
        let message = "is for MCP servers at a `url`".to_owned();
        errors.push(FieldError { field: "auth.kind".to_owned(), message });
    }
    if matches!(profile.settings, Settings::Custom(_))
        && (profile.auth != Auth::None || profile.client_certificate.is_some())
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
        if let Err(error) = text.parse::<Allowed>() {
            let field = format!("allow[{number}]");
            errors.push(FieldError { field, message: error.to_string() });
        }
    }
    for name in &profile.forward_headers {
        if !header::may_be_forwarded(name) {
            let message = format!("`{}` is no header that can be passed on", name.escape_default());
            errors.push(FieldError { field: "forward_headers".to_owned(), message });
        }
        if profile.auth.header_of_key().is_some_and(|key| key.eq_ignore_ascii_case(name)) {
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
fn files_elsewhere(app: &App, custom: &CustomSettings) -> Vec<FieldError> {
    let folders = app.crib.resource_folders();
    let elsewhere = custom.files().filter(|(_, file)| !folders.may_hold(Path::new(file)));
    let say = |(at, _)| FieldError {
        field: format!("settings.{at}"),
        message: "is not below a folder that this server may read: start it with --resource-folder"
            .to_owned(),
    };
    elsewhere.map(say).collect()
}

/// Rejects a custom source with invalid tools, prompts or resources.
async fn check_custom(id: &SourceId, profile: &SourceProfile) -> Result<(), Problem> {
    if !matches!(profile.settings, Settings::Custom(_)) {
        return Ok(());
    }
    let (id, profile) = (id.clone(), profile.clone());
    let errors = upstream::aside(move || custom_problems(&id, &profile)).await;
    if errors.is_empty() { Ok(()) } else { Err(Problem::fields(errors)) }
}

/// All errors in the tools, prompts and resources of a custom source.
pub(crate) fn custom_problems(id: &SourceId, profile: &SourceProfile) -> Vec<FieldError> {
    let Settings::Custom(custom) = &profile.settings else { return Vec::new() };
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
    if !matches!(profile.settings, Settings::Workflow { .. }) {
        return Ok(());
    }
    let (id, profile) = (id.clone(), profile.clone());
    match upstream::aside(move || workflow_problems(&id, &profile)).await {
        None => Ok(()),
        Some(error) => Err(Problem::fields(vec![error])),
    }
}

/// The first error in the workflow documents of a source, if it has any.
pub(crate) fn workflow_problems(id: &SourceId, profile: &SourceProfile) -> Option<FieldError> {
    let Settings::Workflow { documents } = &profile.settings else { return None };
    let (field, error) = match read_workflows(id, documents).err()? {
        InvalidDocument::Of { number, source } => {
            (format!("settings.documents[{number}]"), *source)
        }
        other => ("settings.documents".to_owned(), other),
    };
    Some(FieldError { field, message: model::sentence(&error) })
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<Listed>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.sources().filter(|entry| {
        let source = &entry.source;
        filter.paging.finds(source.id.as_str(), source.profile.name.as_str())
            && filter.kind.is_none_or(|kind| source.profile.settings.kind() == kind)
            && filter.enabled.is_none_or(|enabled| source.enabled == enabled)
            && filter.health.is_none_or(|health| source.health == health)
    });
    let show = |entry: &Arc<CataloguedSource>| Listed::of(&snapshot, entry);
    filter.paging.of(wanted, |entry| entry.source.id.to_string(), show).map(Json)
}

async fn register(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    new: New<SourceId, SourceProfile>,
) -> Result<Made<SeenSource>, Problem> {
    let id = id_for(new.id, &new.rest.name)?;
    check(&app, &new.rest)?;
    check_workflows(&id, &new.rest).await?;
    check_custom(&id, &new.rest).await?;
    let command = Command::Source(id.clone(), SourceCommand::Register(new.rest));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    Made::at(format!("/api/sources/{id}"), seen(&app, &id))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
) -> Result<Seen<SeenSource>, Problem> {
    seen(&app, &id)
}

async fn update(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
    change: Change,
    Body(profile): Body<SourceProfile>,
) -> Result<Seen<SeenSource>, Problem> {
    check(&app, &profile)?;
    check_workflows(&id, &profile).await?;
    check_custom(&id, &profile).await?;
    changed(&app, &identity, &change, &id, SourceCommand::Update(profile)).await
}

async fn enable(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
    change: Change,
) -> Result<Seen<SeenSource>, Problem> {
    changed(&app, &identity, &change, &id, SourceCommand::Enable).await
}

async fn reset(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
) -> Result<Seen<SeenSource>, Problem> {
    app.crib.reset_gate(&id);
    seen(&app, &id)
}

async fn disable(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
    change: Change,
) -> Result<Seen<SeenSource>, Problem> {
    changed(&app, &identity, &change, &id, SourceCommand::Disable).await
}

async fn remove(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
    change: Change,
) -> Result<Json<Removed>, Problem> {
    let command = Command::Source(id.clone(), SourceCommand::Remove);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    Ok(Removed::of(&id, &executed.answer))
}

async fn refresh(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<SourceId>,
    change: Change,
    Body(Force { force }): Body<Force>,
) -> Result<Json<RefreshResult>, Problem> {
    let tag = tag_in(&id)(&app.snapshot());
    if tag.is_some_and(|tag| !change.condition.holds(tag)) {
        return Err(toolcrib::Refusal::HasChanged { what: "source", id: id.to_string() }.into());
    }
    let result = refresh_to_the_end(&app, &id, force, change.context(&identity)).await?;
    if result.success { Ok(Json(result)) } else { Err(result.into()) }
}

/// Refreshes in a background task, so that the refresh completes even if the client disconnects.
async fn refresh_to_the_end(
    app: &App,
    id: &SourceId,
    force: bool,
    context: Context,
) -> Result<RefreshResult, Problem> {
    let (answer, answered) = tokio::sync::oneshot::channel::<Result<_, CommandError>>();
    let (refreshing, id) = (app.clone(), id.clone());
    app.later(async move {
        let result = refreshing.crib.refresher().refresh(&id, force, &context).await;
        // The client may have disconnected.
        drop(answer.send(result));
    });
    match answered.await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Problem::internal("a refresh ended without a result")),
    }
}
