//! Generators of random commands over a few sources, tools, groups and labels, so that most commands have an effect.

use std::collections::BTreeSet;

use model::{GroupExclusion, GroupId, GroupProfile, LabelId, Selector, SourceId, ToolId};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};
use toolcrib_catalog::group::GroupCommand;
use toolcrib_catalog::label::LabelCommand;
use toolcrib_catalog::policy::PolicyCommand;
use toolcrib_catalog::source::{SourceCommand, SyncError};
use toolcrib_catalog::tool::{ToolCommand, ToolOverride};
use toolcrib_catalog::{Command, Snapshot};

use crate::world::{inventory, read};

const SOURCES: [&str; 3] = ["pets", "birds", "fish"];
const TOOLS: [&str; 4] = ["list", "get", "put", "drop"];
const GROUPS: [&str; 3] = ["one", "two", "three"];
const LABELS: [&str; 2] = ["pii", "beta"];

/// A command, or an action that depends on the current snapshot.
#[derive(Clone, Debug)]
pub(crate) enum RandomAction {
    Command(Command),
    /// Approves the current version of the tool.
    Approve(ToolId),
    /// Rejects the current version of the tool.
    Reject(ToolId),
    /// Stores a checkpoint.
    Checkpoint,
}

impl RandomAction {
    pub(crate) fn command(&self, snapshot: &Snapshot) -> Option<Command> {
        let fingerprint = |id: &ToolId| Some(snapshot.tool(id)?.tool.fingerprint);
        match self {
            Self::Command(command) => Some(command.clone()),
            Self::Approve(id) => Some(Command::Tool(
                id.clone(),
                ToolCommand::Approve { fingerprint: fingerprint(id)?, despite_findings: true },
            )),
            Self::Reject(id) => {
                let (fingerprint, reason) = (fingerprint(id)?, "no".into());
                Some(Command::Tool(id.clone(), ToolCommand::Reject { fingerprint, reason }))
            }
            Self::Checkpoint => None,
        }
    }
}

pub(crate) fn action_sequences() -> impl Strategy<Value = Vec<RandomAction>> {
    let wish = prop_oneof![
        4 => source_command().prop_map(RandomAction::Command),
        6 => refresh().prop_map(RandomAction::Command),
        6 => tool_command().prop_map(RandomAction::Command),
        2 => tool_id().prop_map(RandomAction::Approve),
        1 => tool_id().prop_map(RandomAction::Reject),
        6 => group_command().prop_map(RandomAction::Command),
        2 => label_command().prop_map(RandomAction::Command),
        1 => policy_command().prop_map(RandomAction::Command),
        1 => Just(RandomAction::Checkpoint),
    ];
    // Register every source first, so that the following commands have a target.
    let beginning = SOURCES.map(|id| RandomAction::Command(register(id, id, "auto")));
    proptest::collection::vec(wish, 1..60)
        .prop_map(move |wishes| beginning.iter().cloned().chain(wishes).collect())
}

fn source_id() -> impl Strategy<Value = SourceId> {
    select(&SOURCES[..]).prop_map(|id| id.parse().unwrap())
}

fn tool_id() -> impl Strategy<Value = ToolId> {
    (select(&SOURCES[..]), select(&TOOLS[..]))
        .prop_map(|(source, tool)| format!("{source}:{tool}").parse().unwrap())
}

fn tool_ids() -> impl Strategy<Value = BTreeSet<ToolId>> {
    proptest::collection::btree_set(tool_id(), 1..3)
}

fn group_id() -> impl Strategy<Value = GroupId> {
    select(&GROUPS[..]).prop_map(|id| id.parse().unwrap())
}

fn profile(name: &str, trust: &str) -> Value {
    json!({"name": name, "settings": {"kind": "openapi"}, "trust": trust, "shrink_limit": 90})
}

fn register(id: &str, name: &str, trust: &str) -> Command {
    let register = SourceCommand::Register(read(profile(name, trust)));
    Command::Source(id.parse().unwrap(), register)
}

fn source_command() -> impl Strategy<Value = Command> {
    let told = (select(&["pets", "Birds", "House pets"][..]), select(&["auto", "review"][..]));
    let told = told.prop_map(|(name, trust)| profile(name, trust));
    let error = SyncError { code: "spec_fetch_failed".into(), message: "no answer".into() };
    let command = prop_oneof![
        3 => told.clone().prop_map(|profile| SourceCommand::Register(read(profile))),
        3 => told.prop_map(|profile| SourceCommand::Update(read(profile))),
        1 => Just(SourceCommand::Enable),
        1 => Just(SourceCommand::Disable),
        1 => Just(SourceCommand::Remove),
        1 => Just(SourceCommand::StartSync),
        1 => Just(SourceCommand::FailSync(error)),
    ];
    (source_id(), command).prop_map(|(id, command)| Command::Source(id, command))
}

fn refresh() -> impl Strategy<Value = Command> {
    let tools = subsequence(&TOOLS[..], 0..=TOOLS.len());
    let editions = proptest::collection::vec(0_u32..3, TOOLS.len());
    (select(&SOURCES[..]), tools, editions, any::<bool>()).prop_map(
        |(source, tools, editions, force)| {
            let tools: Vec<_> = tools.into_iter().zip(editions).collect();
            Command::Ingest { inventory: Box::new(inventory(source, &tools)), force }
        },
    )
}

fn labels() -> impl Strategy<Value = BTreeSet<LabelId>> {
    subsequence(&LABELS[..], 0..=LABELS.len())
        .prop_map(|labels| labels.iter().map(|label| label.parse().unwrap()).collect())
}

fn tool_command() -> impl Strategy<Value = Command> {
    let named = select(&[None, Some("list"), Some("renamed")][..]);
    let command = prop_oneof![
        2 => Just(ToolCommand::Enable),
        2 => Just(ToolCommand::Disable),
        2 => named.prop_map(|name: Option<&str>| {
            ToolCommand::Override(ToolOverride { name: name.map(Into::into), ..ToolOverride::default() })
        }),
        3 => labels().prop_map(ToolCommand::Label),
        1 => Just(ToolCommand::Deprecate),
        1 => Just(ToolCommand::Remove),
    ];
    (tool_id(), command).prop_map(|(id, command)| Command::Tool(id, command))
}

fn selector() -> impl Strategy<Value = Selector> {
    let parts = prop_oneof![
        Just(json!({})),
        Just(json!({"kind": "prompt"})),
        select(&["pets", "*birds", "house*"][..]).prop_map(|source| json!({"source": source})),
        select(&["L*t", "*", "renamed", "*e*"][..]).prop_map(|name| json!({"name": name})),
        select(&["/get", "/*t"][..]).prop_map(|path| json!({"path": path})),
        (0..3).prop_map(|edition| json!({"required_tags": [format!("edition-{edition}")]})),
        (0..3).prop_map(|edition| json!({"excluded_tags": [format!("edition-{edition}")]})),
        select(&LABELS[..]).prop_map(|label| json!({"required_labels": [label], "method": "get"})),
    ];
    parts.prop_map(read)
}

fn selectors() -> impl Strategy<Value = Vec<Selector>> {
    proptest::collection::vec(selector(), 0..3)
}

fn group_profile() -> impl Strategy<Value = GroupProfile> {
    select(&["all", "any"][..]).prop_map(|mode| read(json!({"name": "G", "selector_mode": mode})))
}

fn group_command() -> impl Strategy<Value = Command> {
    let create = (group_id(), group_profile(), selectors(), tool_ids()).prop_map(
        |(id, profile, selectors, tools)| {
            let (tools, excluded) = (tools, Vec::new());
            let new = model::NewGroup { id: id.clone(), profile, selectors, tools, excluded };
            Command::Group(id, GroupCommand::Create(Box::new(new)))
        },
    );
    let exclusions = |tools: BTreeSet<ToolId>| {
        tools.into_iter().map(|tool| GroupExclusion { tool, reason: "".into() }).collect()
    };
    let change = prop_oneof![
        2 => group_profile().prop_map(GroupCommand::Update),
        3 => selectors().prop_map(GroupCommand::ReplaceSelectors),
        2 => tool_ids().prop_map(GroupCommand::AddTools),
        1 => tool_ids().prop_map(GroupCommand::RemoveTools),
        1 => tool_ids().prop_map(GroupCommand::ReplaceTools),
        2 => tool_ids().prop_map(move |tools| GroupCommand::ExcludeTools(exclusions(tools))),
        1 => tool_ids().prop_map(GroupCommand::IncludeTools),
        1 => Just(GroupCommand::Activate),
        1 => Just(GroupCommand::Deactivate),
        1 => Just(GroupCommand::Delete),
    ];
    let change = (group_id(), change).prop_map(|(id, command)| Command::Group(id, command));
    prop_oneof![1 => create, 2 => change]
}

fn label_command() -> impl Strategy<Value = Command> {
    let command = prop_oneof![
        2 => Just(LabelCommand::Create(read(json!({"name": "L"})))),
        1 => Just(LabelCommand::Update(read(json!({"name": "M"})))),
        1 => Just(LabelCommand::Delete),
    ];
    (select(&LABELS[..]), command)
        .prop_map(|(id, command)| Command::Label(id.parse().unwrap(), command))
}

fn policy_command() -> impl Strategy<Value = Command> {
    let rules = |group: &str| {
        let matchers = json!([{"claim": "role", "operator": "exists"}]);
        read(json!({"name": "P", "groups": [group], "matchers": matchers}))
    };
    let command = prop_oneof![
        select(&GROUPS[..]).prop_map(move |group| PolicyCommand::Define(rules(group))),
        Just(PolicyCommand::Deactivate),
        Just(PolicyCommand::Delete),
    ];
    command.prop_map(|command| Command::Policy("staff".parse().unwrap(), command))
}
