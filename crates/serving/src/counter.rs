//! The admin client: each admin verb of the command line is one request of the admin API. It goes to a running server,
//! or to the same routes over the journal in this process. So there is one way to change an entity, and one validation.

mod body;
pub(crate) mod place;
pub(crate) mod tables;

use axum::http::Method;
use serde_json::{Value, json};
use url::form_urlencoded;

use self::place::{Answered, Place, Reach};
use crate::cli::things::{
    Add, At, Done, Edit, GroupVerb, KeyVerb, LabelVerb, List, ListTools, One, PolicyVerb, Remove,
    SourceVerb, ToolVerb,
};
use crate::cli::{Ended, Json};
use crate::config::Config;
use crate::failure::Failure;
use crate::out;

/// Page size of list requests.
const PAGE: &str = "200";
/// Upper bound of the rows of a list, against a server that never ends its pages.
const MOST: usize = 1_000_000;

/// A kind of entity that admins manage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Source,
    Tool,
    Group,
    Policy,
    Label,
    Key,
}

/// A request of an admin verb.
enum Wish<'a> {
    List(&'a List, Vec<(&'static str, &'a str)>),
    Members(&'a One),
    Show(&'a One),
    History(&'a One),
    Add(&'a Add),
    Edit(&'a Edit),
    Remove(&'a Remove),
    Revoke(&'a Remove),
    /// An action of the API, and its body.
    Do(&'a One, &'static str, Value),
    Put(&'a One, &'static str, Value),
    Diff(&'a One),
}

pub(crate) async fn source(config: &Config, done: &Done<SourceVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        SourceVerb::List(list) => Wish::List(list, Vec::new()),
        SourceVerb::Show(one) => Wish::Show(one),
        SourceVerb::History(one) => Wish::History(one),
        SourceVerb::Add(add) => Wish::Add(add),
        SourceVerb::Edit(edit) => Wish::Edit(edit),
        SourceVerb::Enable(one) => Wish::Do(one, "enable", Value::Null),
        SourceVerb::Disable(one) => Wish::Do(one, "disable", Value::Null),
        SourceVerb::Remove(remove) => Wish::Remove(remove),
        SourceVerb::Refresh(refresh) => {
            Wish::Do(&refresh.one, "refresh", json!({"force": refresh.force}))
        }
        SourceVerb::Reset(one) => Wish::Do(one, "reset", Value::Null),
    };
    fulfil(config, &done.at, Thing::Source, wish).await
}

pub(crate) async fn tool(config: &Config, done: &Done<ToolVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        ToolVerb::List(ListTools { list, source, review }) => {
            let given = [("source", source), ("review", review)];
            let given =
                given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
            Wish::List(list, given.collect())
        }
        ToolVerb::Show(one) => Wish::Show(one),
        ToolVerb::History(one) => Wish::History(one),
        ToolVerb::Edit(edit) => Wish::Edit(edit),
        ToolVerb::Enable(one) => Wish::Do(one, "enable", Value::Null),
        ToolVerb::Disable(one) => Wish::Do(one, "disable", Value::Null),
        ToolVerb::Diff(one) => Wish::Diff(one),
        ToolVerb::Approve(approve) => {
            let body = json!({"despite_findings": approve.despite_findings});
            Wish::Do(&approve.one, "approve", body)
        }
        ToolVerb::Reject(one) => Wish::Do(one, "reject", Value::Null),
        ToolVerb::Label(put) => Wish::Put(&put.one, "labels", json!({"labels": put.labels})),
    };
    fulfil(config, &done.at, Thing::Tool, wish).await
}

pub(crate) async fn group(config: &Config, done: &Done<GroupVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        GroupVerb::List(list) => Wish::List(list, Vec::new()),
        GroupVerb::Show(one) => Wish::Show(one),
        GroupVerb::History(one) => Wish::History(one),
        GroupVerb::Add(add) => Wish::Add(add),
        GroupVerb::Edit(edit) => Wish::Edit(edit),
        GroupVerb::Enable(one) => Wish::Do(one, "activate", Value::Null),
        GroupVerb::Disable(one) => Wish::Do(one, "deactivate", Value::Null),
        GroupVerb::Remove(remove) => Wish::Remove(remove),
        GroupVerb::Tools(one) => Wish::Members(one),
    };
    fulfil(config, &done.at, Thing::Group, wish).await
}

pub(crate) async fn policy(config: &Config, done: &Done<PolicyVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        PolicyVerb::List(list) => Wish::List(list, Vec::new()),
        PolicyVerb::Show(one) => Wish::Show(one),
        PolicyVerb::History(one) => Wish::History(one),
        PolicyVerb::Add(add) => Wish::Add(add),
        PolicyVerb::Edit(edit) => Wish::Edit(edit),
        PolicyVerb::Enable(one) => Wish::Do(one, "activate", Value::Null),
        PolicyVerb::Disable(one) => Wish::Do(one, "deactivate", Value::Null),
        PolicyVerb::Remove(remove) => Wish::Remove(remove),
    };
    fulfil(config, &done.at, Thing::Policy, wish).await
}

pub(crate) async fn label(config: &Config, done: &Done<LabelVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        LabelVerb::List(list) => Wish::List(list, Vec::new()),
        LabelVerb::Show(one) => Wish::Show(one),
        LabelVerb::History(one) => Wish::History(one),
        LabelVerb::Add(add) => Wish::Add(add),
        LabelVerb::Edit(edit) => Wish::Edit(edit),
        LabelVerb::Remove(remove) => Wish::Remove(remove),
    };
    fulfil(config, &done.at, Thing::Label, wish).await
}

pub(crate) async fn key(config: &Config, done: &Done<KeyVerb>) -> Result<Ended, Failure> {
    let wish = match &done.verb {
        KeyVerb::List(list) => Wish::List(list, Vec::new()),
        KeyVerb::Show(one) => Wish::Show(one),
        KeyVerb::History(one) => Wish::History(one),
        KeyVerb::Add(add) => Wish::Add(add),
        KeyVerb::Edit(edit) => Wish::Edit(edit),
        KeyVerb::Revoke(revoke) => Wish::Revoke(revoke),
        KeyVerb::Remove(remove) => Wish::Remove(remove),
    };
    fulfil(config, &done.at, Thing::Key, wish).await
}

impl Thing {
    /// The path of the collection in the API.
    const fn path(self) -> &'static str {
        match self {
            Self::Source => "/api/sources",
            Self::Tool => "/api/tools",
            Self::Group => "/api/groups",
            Self::Policy => "/api/policies",
            Self::Label => "/api/labels",
            Self::Key => "/api/keys",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Tool => "tool",
            Self::Group => "group",
            Self::Policy => "policy",
            Self::Label => "label",
            Self::Key => "key",
        }
    }

    fn one(self, id: &str) -> String {
        format!("{}/{}", self.path(), segment(id))
    }
}

/// Encodes a text as a path segment.
pub(crate) fn segment(text: &str) -> String {
    let text: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    // Form encoding writes a space as `+`, which a path does not decode.
    text.replace('+', "%20")
}

async fn fulfil(config: &Config, at: &At, thing: Thing, wish: Wish<'_>) -> Result<Ended, Failure> {
    if let (None, Wish::Do(_, "reset", _)) = (&at.server, &wish) {
        return Err(Failure::ResetHere);
    }
    let place = Place::open(config, at, wish.reach()).await?;
    let done = carry_out(&place, thing, &wish).await;
    place.close().await;
    done.map(|()| Ended::Fine)
}

impl Wish<'_> {
    fn reach(&self) -> Reach {
        match self {
            Self::List(..)
            | Self::Members(_)
            | Self::Show(_)
            | Self::History(_)
            | Self::Diff(_) => Reach::Read,
            Self::Add(_) => Reach::Make,
            Self::Edit(_) | Self::Remove(_) | Self::Revoke(_) | Self::Do(..) | Self::Put(..) => {
                Reach::Change
            }
        }
    }
}

async fn carry_out(place: &Place, thing: Thing, wish: &Wish<'_>) -> Result<(), Failure> {
    match wish {
        Wish::List(list, filters) => {
            let text = list.text.as_deref().map(|text| ("q", text));
            let filters: Vec<_> = filters.iter().copied().chain(text).collect();
            let rows = all(place, thing.path(), &filters).await?;
            tables::list(thing, &rows, &list.json)
        }
        Wish::Members(one) => {
            let rows = all(place, &format!("{}/tools", thing.one(&one.id)), &[]).await?;
            tables::members(&rows, &one.json)
        }
        Wish::Show(one) => {
            tables::show(&place.ask(Method::GET, &thing.one(&one.id), None).await?.body, &one.json)
        }
        Wish::History(one) => {
            let rows = all(place, &format!("{}/history", thing.one(&one.id)), &[]).await?;
            tables::history(&rows, &one.json)
        }
        Wish::Diff(one) => {
            let path = format!("{}/diff", thing.one(&one.id));
            tables::show(&place.ask(Method::GET, &path, None).await?.body, &one.json)
        }
        Wish::Add(add) => {
            let body = body::new(add).await?;
            if thing == Thing::Source && body["settings"]["kind"].is_null() {
                return Err(Failure::KindMissing);
            }
            let made = place.ask(Method::POST, thing.path(), Some(body)).await?.body;
            tables::added(thing, &made, &add.json)?;
            if thing == Thing::Source && place.is_here() {
                let id = made["id"].as_str().unwrap_or_default();
                out::note(&format!(
                    "a server asks it for its tools by itself; without one: toolcrib source refresh {id}"
                ));
            }
            Ok(())
        }
        Wish::Edit(edit) => {
            let changed = self::edit(place, thing, edit).await?;
            said(&edit.json, &changed, &format!("changed {} `{}`", thing.word(), edit.id))
        }
        Wish::Remove(Remove { one, yes }) => {
            if !yes && !agreed(place, thing, "Remove", one).await? {
                return Ok(());
            }
            let gone = place.ask(Method::DELETE, &thing.one(&one.id), None).await?.body;
            said(&one.json, &gone, &format!("removed {} `{}`", thing.word(), one.id))
        }
        Wish::Put(one, part, body) => {
            let path = format!("{}/{part}", thing.one(&one.id));
            let changed = place.ask(Method::PUT, &path, Some(body.clone())).await?.body;
            said(&one.json, &changed, &format!("changed {} `{}`", thing.word(), one.id))
        }
        Wish::Revoke(Remove { one, yes }) => {
            if !yes && !agreed(place, thing, "Revoke", one).await? {
                return Ok(());
            }
            act(place, thing, one, "revoke", None).await
        }
        Wish::Do(one, verb, body) => {
            let body = Some(body.clone()).filter(|body| !body.is_null());
            act(place, thing, one, verb, body).await
        }
    }
}

/// Posts an action of the API.
async fn act(
    place: &Place,
    thing: Thing,
    one: &One,
    verb: &str,
    body: Option<Value>,
) -> Result<(), Failure> {
    let path = format!("{}/{verb}", thing.one(&one.id));
    let done = place.ask(Method::POST, &path, body).await?.body;
    match verb {
        "refresh" => tables::refreshed(&done, &one.json),
        verb => said(&one.json, &done, &format!("{} `{}`: {}", thing.word(), one.id, past(verb))),
    }
}

/// Asks the user to confirm an irreversible change. A missing entity is reported without a question.
async fn agreed(place: &Place, thing: Thing, verb: &str, one: &One) -> Result<bool, Failure> {
    if !out::can_ask() {
        return Ok(true);
    }
    let there = place.ask(Method::GET, &thing.one(&one.id), None).await?.body;
    let with = match there["tools"]["total"].as_u64().unwrap_or(0) {
        0 => String::new(),
        tools => format!(" and its {}", out::counted(tools as usize, "tool", "tools")),
    };
    let (word, id) = (thing.word(), out::plain(&one.id));
    let agreed = out::agreed(&format!("{verb} {word} `{id}`{with}?")).await?;
    if !agreed {
        out::note("nothing was changed");
    }
    Ok(agreed)
}

/// The past participle of an action, for the confirmation message.
fn past(verb: &str) -> &'static str {
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
pub(crate) async fn all(
    place: &Place,
    path: &str,
    filters: &[(&'static str, &str)],
) -> Result<Vec<Value>, Failure> {
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let path = format!("{path}?{}", query(filters, cursor.as_deref()));
        let mut page = place.ask(Method::GET, &path, None).await?.body;
        if let Value::Array(data) = page["data"].take() {
            rows.extend(data);
        }
        match page["next_cursor"].as_str() {
            Some(next) if cursor.as_deref() != Some(next) && rows.len() < MOST => {
                cursor = Some(next.to_owned());
            }
            Some(_) => return Err(Failure::EndlessList { rows: rows.len() }),
            None => return Ok(rows),
        }
    }
}

fn query(filters: &[(&'static str, &str)], cursor: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", PAGE).extend_pairs(filters);
    query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
    query.finish()
}

/// Reads the entity, merges the given fields, and writes it back unless it has changed in between.
async fn edit(place: &Place, thing: Thing, edit: &Edit) -> Result<Value, Failure> {
    let path = thing.one(&edit.id);
    let said = body::said(&edit.said).await?;
    if thing == Thing::Tool {
        return Ok(place.ask(Method::PATCH, &path, Some(said)).await?.body);
    }
    let Answered { body, tag } = place.ask(Method::GET, &path, None).await?;
    let known = place.members_of(thing.path()).await?;
    let body = body::onto(body, &known, said);
    Ok(place.ask_if(Method::PUT, &path, Some(body), tag).await?.body)
}

/// Prints one sentence as text, or the whole response as JSON.
fn said(format: &Json, answer: &Value, sentence: &str) -> Result<(), Failure> {
    match format.json {
        true => out::print_json(answer),
        false => out::print(&out::plain(sentence)),
    }
}
