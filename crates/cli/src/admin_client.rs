//! The admin client: each admin verb of the command line is one request of the admin API. It goes to a running server,
//! or to the same routes over the journal in this process. So there is one way to change an entity, and one validation.

pub(crate) mod admin_backend;
mod admin_request_body;
pub(crate) mod entity_tables;

use axum::http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use self::admin_backend::{AdminBackend, AdminResponse, JournalAccess};
use crate::arguments::admin_verbs::{
    AddArgs, AdminVerbArgs, EditArgs, EntityArgs, GroupVerb, KeyVerb, LabelVerb, ListArgs,
    ListToolsArgs, PolicyVerb, RemoveArgs, ServerOption, SourceVerb, ToolVerb,
};
use crate::arguments::{JsonFlag, VerbOutcome};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::output;

/// Page size of list requests.
const PAGE_SIZE: &str = "200";
/// Upper bound of the rows of a list, against a server that never ends its pages.
const MAX_ROWS: usize = 1_000_000;

/// A kind of entity that admins manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminEntity {
    Source,
    Tool,
    Group,
    Policy,
    Label,
    Key,
}

/// A request of an admin verb.
enum AdminRequest<'a> {
    List(&'a ListArgs, Vec<(&'static str, &'a str)>),
    GroupTools(&'a EntityArgs),
    Show(&'a EntityArgs),
    History(&'a EntityArgs),
    Add(&'a AddArgs),
    Edit(&'a EditArgs),
    Remove(&'a RemoveArgs),
    Revoke(&'a RemoveArgs),
    /// An action of the API, and its body.
    Action(&'a EntityArgs, &'static str, Value),
    Put(&'a EntityArgs, &'static str, Value),
    Diff(&'a EntityArgs),
}

pub(crate) async fn run_source_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<SourceVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        SourceVerb::List(list) => AdminRequest::List(list, Vec::new()),
        SourceVerb::Show(one) => AdminRequest::Show(one),
        SourceVerb::History(one) => AdminRequest::History(one),
        SourceVerb::Add(add) => AdminRequest::Add(add),
        SourceVerb::Edit(edit) => AdminRequest::Edit(edit),
        SourceVerb::Enable(one) => AdminRequest::Action(one, "enable", Value::Null),
        SourceVerb::Disable(one) => AdminRequest::Action(one, "disable", Value::Null),
        SourceVerb::Remove(remove) => AdminRequest::Remove(remove),
        SourceVerb::Refresh(refresh) => {
            AdminRequest::Action(&refresh.one, "refresh", json!({"force": refresh.force}))
        }
        SourceVerb::Reset(one) => AdminRequest::Action(one, "reset", Value::Null),
    };
    send_admin_request(config, &done.at, AdminEntity::Source, wish).await
}

pub(crate) async fn run_tool_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<ToolVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        ToolVerb::List(ListToolsArgs { list, source, review }) => {
            let given = [("source", source), ("review", review)];
            let given =
                given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
            AdminRequest::List(list, given.collect())
        }
        ToolVerb::Show(one) => AdminRequest::Show(one),
        ToolVerb::History(one) => AdminRequest::History(one),
        ToolVerb::Edit(edit) => AdminRequest::Edit(edit),
        ToolVerb::Enable(one) => AdminRequest::Action(one, "enable", Value::Null),
        ToolVerb::Disable(one) => AdminRequest::Action(one, "disable", Value::Null),
        ToolVerb::Diff(one) => AdminRequest::Diff(one),
        ToolVerb::Approve(approve) => {
            let body = json!({"despite_findings": approve.despite_findings});
            AdminRequest::Action(&approve.one, "approve", body)
        }
        ToolVerb::Reject(one) => AdminRequest::Action(one, "reject", Value::Null),
        ToolVerb::Label(put) => {
            AdminRequest::Put(&put.one, "labels", json!({"labels": put.labels}))
        }
    };
    send_admin_request(config, &done.at, AdminEntity::Tool, wish).await
}

pub(crate) async fn run_group_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<GroupVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        GroupVerb::List(list) => AdminRequest::List(list, Vec::new()),
        GroupVerb::Show(one) => AdminRequest::Show(one),
        GroupVerb::History(one) => AdminRequest::History(one),
        GroupVerb::Add(add) => AdminRequest::Add(add),
        GroupVerb::Edit(edit) => AdminRequest::Edit(edit),
        GroupVerb::Enable(one) => AdminRequest::Action(one, "activate", Value::Null),
        GroupVerb::Disable(one) => AdminRequest::Action(one, "deactivate", Value::Null),
        GroupVerb::Remove(remove) => AdminRequest::Remove(remove),
        GroupVerb::Tools(one) => AdminRequest::GroupTools(one),
    };
    send_admin_request(config, &done.at, AdminEntity::Group, wish).await
}

pub(crate) async fn run_policy_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<PolicyVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        PolicyVerb::List(list) => AdminRequest::List(list, Vec::new()),
        PolicyVerb::Show(one) => AdminRequest::Show(one),
        PolicyVerb::History(one) => AdminRequest::History(one),
        PolicyVerb::Add(add) => AdminRequest::Add(add),
        PolicyVerb::Edit(edit) => AdminRequest::Edit(edit),
        PolicyVerb::Enable(one) => AdminRequest::Action(one, "activate", Value::Null),
        PolicyVerb::Disable(one) => AdminRequest::Action(one, "deactivate", Value::Null),
        PolicyVerb::Remove(remove) => AdminRequest::Remove(remove),
    };
    send_admin_request(config, &done.at, AdminEntity::Policy, wish).await
}

pub(crate) async fn run_label_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<LabelVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        LabelVerb::List(list) => AdminRequest::List(list, Vec::new()),
        LabelVerb::Show(one) => AdminRequest::Show(one),
        LabelVerb::History(one) => AdminRequest::History(one),
        LabelVerb::Add(add) => AdminRequest::Add(add),
        LabelVerb::Edit(edit) => AdminRequest::Edit(edit),
        LabelVerb::Remove(remove) => AdminRequest::Remove(remove),
    };
    send_admin_request(config, &done.at, AdminEntity::Label, wish).await
}

pub(crate) async fn run_key_verb(
    config: &ProgramConfig,
    done: &AdminVerbArgs<KeyVerb>,
) -> Result<VerbOutcome, CliError> {
    let wish = match &done.verb {
        KeyVerb::List(list) => AdminRequest::List(list, Vec::new()),
        KeyVerb::Show(one) => AdminRequest::Show(one),
        KeyVerb::History(one) => AdminRequest::History(one),
        KeyVerb::Add(add) => AdminRequest::Add(add),
        KeyVerb::Edit(edit) => AdminRequest::Edit(edit),
        KeyVerb::Revoke(revoke) => AdminRequest::Revoke(revoke),
        KeyVerb::Remove(remove) => AdminRequest::Remove(remove),
    };
    send_admin_request(config, &done.at, AdminEntity::Key, wish).await
}

impl AdminEntity {
    /// The path of the collection in the API.
    const fn api_path(self) -> &'static str {
        match self {
            Self::Source => "/api/sources",
            Self::Tool => "/api/tools",
            Self::Group => "/api/groups",
            Self::Policy => "/api/policies",
            Self::Label => "/api/labels",
            Self::Key => "/api/keys",
        }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Tool => "tool",
            Self::Group => "group",
            Self::Policy => "policy",
            Self::Label => "label",
            Self::Key => "key",
        }
    }

    fn entity_path(self, id: &str) -> String {
        format!("{}/{}", self.api_path(), path_segment(id))
    }
}

/// Encodes a text as a path segment.
pub(crate) fn path_segment(text: &str) -> String {
    let text: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    // Form encoding writes a space as `+`, which a path does not decode.
    text.replace('+', "%20")
}

async fn send_admin_request(
    config: &ProgramConfig,
    at: &ServerOption,
    thing: AdminEntity,
    wish: AdminRequest<'_>,
) -> Result<VerbOutcome, CliError> {
    if let (None, AdminRequest::Action(_, "reset", _)) = (&at.server, &wish) {
        return Err(CliError::ResetNeedsServer);
    }
    let place = AdminBackend::connect(config, at, wish.journal_access()).await?;
    let done = execute_request(&place, thing, &wish).await;
    place.close().await;
    done.map(|()| VerbOutcome::Success)
}

impl AdminRequest<'_> {
    fn journal_access(&self) -> JournalAccess {
        match self {
            Self::List(..)
            | Self::GroupTools(_)
            | Self::Show(_)
            | Self::History(_)
            | Self::Diff(_) => JournalAccess::Read,
            Self::Add(_) => JournalAccess::CreateIfMissing,
            Self::Edit(_)
            | Self::Remove(_)
            | Self::Revoke(_)
            | Self::Action(..)
            | Self::Put(..) => JournalAccess::Change,
        }
    }
}

async fn execute_request(
    place: &AdminBackend,
    thing: AdminEntity,
    wish: &AdminRequest<'_>,
) -> Result<(), CliError> {
    match wish {
        AdminRequest::List(list, filters) => {
            let text = list.text.as_deref().map(|text| ("q", text));
            let filters: Vec<_> = filters.iter().copied().chain(text).collect();
            let rows = fetch_all_pages(place, thing.api_path(), &filters).await?;
            entity_tables::print_list(thing, &rows, &list.json)
        }
        AdminRequest::GroupTools(one) => {
            let rows =
                fetch_all_pages(place, &format!("{}/tools", thing.entity_path(&one.id)), &[])
                    .await?;
            entity_tables::print_group_tools(&rows, &one.json)
        }
        AdminRequest::Show(one) => entity_tables::print_entity(
            &place.send(Method::GET, &thing.entity_path(&one.id), None).await?.body,
            &one.json,
        ),
        AdminRequest::History(one) => {
            let rows =
                fetch_all_pages(place, &format!("{}/history", thing.entity_path(&one.id)), &[])
                    .await?;
            entity_tables::print_history(&rows, &one.json)
        }
        AdminRequest::Diff(one) => {
            let path = format!("{}/diff", thing.entity_path(&one.id));
            entity_tables::print_entity(
                &place.send(Method::GET, &path, None).await?.body,
                &one.json,
            )
        }
        AdminRequest::Add(add) => {
            let body = admin_request_body::new_entity_body(add).await?;
            if thing == AdminEntity::Source && body["settings"]["kind"].is_null() {
                return Err(CliError::KindMissing);
            }
            let made = place.send(Method::POST, thing.api_path(), Some(body)).await?.body;
            entity_tables::print_added(thing, &made, &add.json)?;
            if thing == AdminEntity::Source && place.is_in_process() {
                let id = made["id"].as_str().unwrap_or_default();
                output::print_note(&format!(
                    "a server asks it for its tools by itself; without one: toolcrib source refresh {id}"
                ));
            }
            Ok(())
        }
        AdminRequest::Edit(edit) => {
            let changed = self::edit_entity(place, thing, edit).await?;
            print_result(&edit.json, &changed, &format!("changed {} `{}`", thing.noun(), edit.id))
        }
        AdminRequest::Remove(RemoveArgs { one, yes }) => {
            if !yes && !confirm_change(place, thing, "Remove", one).await? {
                return Ok(());
            }
            let gone = place.send(Method::DELETE, &thing.entity_path(&one.id), None).await?.body;
            print_result(&one.json, &gone, &format!("removed {} `{}`", thing.noun(), one.id))
        }
        AdminRequest::Put(one, part, body) => {
            let path = format!("{}/{part}", thing.entity_path(&one.id));
            let changed = place.send(Method::PUT, &path, Some(body.clone())).await?.body;
            print_result(&one.json, &changed, &format!("changed {} `{}`", thing.noun(), one.id))
        }
        AdminRequest::Revoke(RemoveArgs { one, yes }) => {
            if !yes && !confirm_change(place, thing, "Revoke", one).await? {
                return Ok(());
            }
            post_action(place, thing, one, "revoke", None).await
        }
        AdminRequest::Action(one, verb, body) => {
            let body = Some(body.clone()).filter(|body| !body.is_null());
            post_action(place, thing, one, verb, body).await
        }
    }
}

/// Posts an action of the API.
async fn post_action(
    place: &AdminBackend,
    thing: AdminEntity,
    one: &EntityArgs,
    verb: &str,
    body: Option<Value>,
) -> Result<(), CliError> {
    let path = format!("{}/{verb}", thing.entity_path(&one.id));
    let done = place.send(Method::POST, &path, body).await?.body;
    match verb {
        "refresh" => entity_tables::print_refresh_result(&done, &one.json),
        verb => print_result(
            &one.json,
            &done,
            &format!("{} `{}`: {}", thing.noun(), one.id, past_participle(verb)),
        ),
    }
}

/// Asks the user to confirm an irreversible change. A missing entity is reported without a question.
async fn confirm_change(
    place: &AdminBackend,
    thing: AdminEntity,
    verb: &str,
    one: &EntityArgs,
) -> Result<bool, CliError> {
    if !output::is_interactive() {
        return Ok(true);
    }
    let there = place.send(Method::GET, &thing.entity_path(&one.id), None).await?.body;
    let with = match there["tools"]["total"].as_u64().unwrap_or(0) {
        0 => String::new(),
        tools => format!(" and its {}", output::count_noun(tools as usize, "tool", "tools")),
    };
    let (word, id) = (thing.noun(), output::escape_for_terminal(&one.id));
    let agreed = output::confirm(&format!("{verb} {word} `{id}`{with}?")).await?;
    if !agreed {
        output::print_note("nothing was changed");
    }
    Ok(agreed)
}

/// The past participle of an action, for the confirmation message.
fn past_participle(verb: &str) -> &'static str {
    match verb {
        "enable" | "activate" => "enabled",
        "disable" | "deactivate" => "disabled",
        "approve" => "approved",
        "reject" => "rejected",
        "revoke" => "revoked",
        "reset" => "reset",
        _ => "done",
    }
}

/// Fetches all pages of a list.
pub(crate) async fn fetch_all_pages(
    place: &AdminBackend,
    path: &str,
    filters: &[(&'static str, &str)],
) -> Result<Vec<Value>, CliError> {
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let path = format!("{path}?{}", page_query(filters, cursor.as_deref()));
        let mut page = place.send(Method::GET, &path, None).await?.body;
        if let Value::Array(data) = page["data"].take() {
            rows.extend(data);
        }
        match page["next_cursor"].as_str() {
            Some(next) if cursor.as_deref() != Some(next) && rows.len() < MAX_ROWS => {
                cursor = Some(next.to_owned());
            }
            Some(_) => return Err(CliError::EndlessList { rows: rows.len() }),
            None => return Ok(rows),
        }
    }
}

fn page_query(filters: &[(&'static str, &str)], cursor: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", PAGE_SIZE).extend_pairs(filters);
    query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
    query.finish()
}

/// Reads the entity, merges the given fields, and writes it back unless it has changed in between.
async fn edit_entity(
    place: &AdminBackend,
    thing: AdminEntity,
    edit: &EditArgs,
) -> Result<Value, CliError> {
    let path = thing.entity_path(&edit.id);
    let said = admin_request_body::body_from_fields(&edit.said).await?;
    if thing == AdminEntity::Tool {
        return Ok(place.send(Method::PATCH, &path, Some(said)).await?.body);
    }
    let AdminResponse { body, tag } = place.send(Method::GET, &path, None).await?;
    let known = place.editable_fields(thing.api_path()).await?;
    let body = admin_request_body::merge_into_current(body, &known, said);
    Ok(place.send_if_match(Method::PUT, &path, Some(body), tag).await?.body)
}

/// Prints one sentence as text, or the whole response as JSON.
fn print_result(format: &JsonFlag, answer: &Value, sentence: &str) -> Result<(), CliError> {
    match format.json {
        true => output::print_json(answer),
        false => output::print_text(&output::escape_for_terminal(sentence)),
    }
}
