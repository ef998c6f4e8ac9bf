//! Commands, decided against one snapshot into the events of one atomic step.

use std::collections::BTreeSet;

use model::{
    Digest, GroupId, Inventory, KeyId, LabelId, PolicyId, PolicyRules, SchemaDocument, SourceId,
    ToolId,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::api_key::{ApiKey, ApiKeyCommand};
use crate::command_refusal::CommandRefusal;
use crate::group::{Group, GroupCommand};
use crate::journal::{StreamAppend, StreamName, StreamVersion};
use crate::label::{Label, LabelCommand};
use crate::policy::{Policy, PolicyCommand};
use crate::snapshot::Snapshot;
use crate::source::{Source, SourceCommand};
use crate::tool::{Tool, ToolCommand};
use crate::{event, ingest};

/// A request to change the catalog.
#[derive(Clone, Debug)]
pub enum Command {
    /// Removing a source removes its tools in the same step.
    Source(SourceId, SourceCommand),
    Tool(ToolId, ToolCommand),
    Group(GroupId, GroupCommand),
    Policy(PolicyId, PolicyCommand),
    /// Deleting a label removes it from all tools in the same step.
    Label(LabelId, LabelCommand),
    Key(KeyId, ApiKeyCommand),
    /// Ingest a discovered inventory: the source and all its tools in one step.
    Ingest {
        inventory: Box<Inventory>,
        /// Ingest even if nothing changed or most tools would be removed.
        force: bool,
    },
}

/// The events of one atomic step and the answer for the caller.
#[derive(Debug, Default)]
pub(crate) struct CommandDecision {
    pub(crate) streams: Vec<StreamAppend>,
    pub(crate) documents: Vec<SchemaDocument>,
    pub(crate) answer: Value,
}

impl CommandDecision {
    pub(crate) fn add_events(
        &mut self,
        stream: StreamName,
        expected: StreamVersion,
        events: &[impl Serialize],
    ) {
        if !events.is_empty() {
            let events = events.iter().map(event::encode_event).collect();
            self.streams.push(StreamAppend { stream, expected, events });
        }
    }
}

impl CommandDecision {
    /// Adds the events of the command's main aggregate and sets the answer accordingly.
    fn add_main_events(
        &mut self,
        snapshot: &Snapshot,
        stream: StreamName,
        living: Option<StreamVersion>,
        id: &str,
        events: &[impl Serialize],
    ) {
        let version = expected_version(snapshot, &stream, living);
        self.answer = json!({"id": id, "changed": !events.is_empty()});
        self.add_events(stream, version, events);
    }
}

impl Command {
    /// The stream of the command's main aggregate.
    pub(crate) fn main_stream(&self) -> StreamName {
        match self {
            Self::Source(id, _) => StreamName::for_source(id),
            Self::Tool(id, _) => StreamName::for_tool(id),
            Self::Group(id, _) => StreamName::for_group(id),
            Self::Policy(id, _) => StreamName::for_policy(id),
            Self::Label(id, _) => StreamName::for_label(id),
            Self::Key(id, _) => StreamName::for_api_key(id),
            Self::Ingest { inventory, .. } => StreamName::for_source(&inventory.source),
        }
    }

    /// Two requests are the same request if they have the same digest.
    pub(crate) fn request_digest(&self) -> Digest {
        let value = match self {
            Self::Source(id, command) => json!(["source", id, command]),
            Self::Tool(id, command) => json!(["tool", id, command]),
            Self::Group(id, command) => json!(["group", id, command]),
            Self::Policy(id, command) => json!(["policy", id, command]),
            Self::Label(id, command) => json!(["label", id, command]),
            Self::Key(id, command) => json!(["key", id, command]),
            Self::Ingest { inventory, force } => {
                json!(["ingest", inventory.source, inventory.fingerprint, force])
            }
        };
        Digest::of_canonical(&value)
    }

    /// Applies every rule, including those between aggregates.
    pub(crate) fn decide(&self, snapshot: &Snapshot) -> Result<CommandDecision, CommandRefusal> {
        if let Self::Ingest { inventory, force } = self {
            return ingest::decide_ingest(snapshot, inventory, *force);
        }
        let decision = self.decide_for_aggregate(snapshot)?;
        let mut events = decision.streams.iter().flat_map(|stream| &stream.events);
        if events.any(|event| is_too_deep(&event.data)) {
            return Err(CommandRefusal::TooDeep);
        }
        Ok(decision)
    }

    /// Decides every command except `Ingest`, whose inventory was read within its own depth limit.
    fn decide_for_aggregate(&self, snapshot: &Snapshot) -> Result<CommandDecision, CommandRefusal> {
        let mut decision = CommandDecision::default();
        match self.clone() {
            Self::Source(id, command) => decide_source(snapshot, &id, command, &mut decision)?,
            Self::Tool(id, command) => decide_tool(snapshot, &id, command, &mut decision)?,
            Self::Group(id, command) => decide_group(snapshot, &id, command, &mut decision)?,
            Self::Policy(id, command) => decide_policy(snapshot, &id, command, &mut decision)?,
            Self::Label(id, command) => decide_label(snapshot, &id, command, &mut decision)?,
            Self::Key(id, command) => decide_key(snapshot, &id, command, &mut decision)?,
            Self::Ingest { .. } => {}
        }
        Ok(decision)
    }
}

/// True if an event, or a checkpoint that contains it, might be nested too deeply to be read again.
fn is_too_deep(json: &str) -> bool {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    DEPTH_LIMIT < deepest
}

/// Half of the nesting depth that the JSON reader accepts.
const DEPTH_LIMIT: usize = 64;

/// The version at which a stream continues: that of the living aggregate, or of the event that ended its last life.
pub(crate) fn expected_version(
    snapshot: &Snapshot,
    stream: &StreamName,
    living: Option<StreamVersion>,
) -> StreamVersion {
    living.or_else(|| snapshot.ended_streams.get(stream).copied()).unwrap_or(StreamVersion::NONE)
}

fn decide_source(
    snapshot: &Snapshot,
    id: &SourceId,
    command: SourceCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    let entry = snapshot.source(id);
    let known = entry.map(|entry| &entry.source);
    let removes = matches!(command, SourceCommand::Remove);
    let events = Source::decide(id, known, command)?;
    let living = known.map(|source| source.version);
    decision.add_main_events(snapshot, StreamName::for_source(id), living, id.as_str(), &events);
    if removes && let Some(entry) = entry {
        let tools: Vec<_> = entry.tools.iter().filter_map(|slot| snapshot.tool_at(slot)).collect();
        for tool in &tools {
            let events = Tool::decide(&tool.tool.id, Some(&tool.tool), ToolCommand::Remove)?;
            decision.add_events(StreamName::for_tool(&tool.tool.id), tool.tool.version, &events);
        }
        decision.answer["removed_tools"] = json!(tools.len());
    }
    Ok(())
}

fn decide_tool(
    snapshot: &Snapshot,
    id: &ToolId,
    command: ToolCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    if let ToolCommand::Label(labels) = &command {
        let unknown: Vec<_> =
            labels.iter().filter(|label| snapshot.label(label).is_none()).cloned().collect();
        if !unknown.is_empty() {
            return Err(CommandRefusal::NoSuchLabels { labels: unknown });
        }
    }
    let known = snapshot.tool(id).map(|entry| &entry.tool);
    let events = Tool::decide(id, known, command)?;
    let living = known.map(|tool| tool.version);
    decision.add_main_events(snapshot, StreamName::for_tool(id), living, id.as_str(), &events);
    Ok(())
}

fn decide_group(
    snapshot: &Snapshot,
    id: &GroupId,
    command: GroupCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    let is_first_or_last = matches!(command, GroupCommand::Create(_) | GroupCommand::Delete);
    let known = snapshot.group(id).map(|entry| &entry.group);
    let events = Group::decide(id, known, command)?;
    // Two nodes may concurrently delete a group and grant it in a policy. Such a grant gives nothing, and it must not
    // become effective when a group with the same id is created: so it blocks both creation and deletion.
    let granting = snapshot.policies().filter(|policy| policy.rules.groups().contains(id));
    let policies: Vec<_> = granting.map(|policy| policy.id.clone()).collect();
    if is_first_or_last && !policies.is_empty() {
        return Err(CommandRefusal::GroupIsGranted { id: id.clone(), policies });
    }
    let living = known.map(|group| group.version);
    decision.add_main_events(snapshot, StreamName::for_group(id), living, id.as_str(), &events);
    Ok(())
}

fn decide_policy(
    snapshot: &Snapshot,
    id: &PolicyId,
    command: PolicyCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    if let PolicyCommand::Define(rules) | PolicyCommand::Update(rules) = &command {
        check_groups(snapshot, rules)?;
    }
    let known = snapshot.policy(id).map(|policy| &**policy);
    let events = Policy::decide(id, known, command)?;
    let living = known.map(|policy| policy.version);
    decision.add_main_events(snapshot, StreamName::for_policy(id), living, id.as_str(), &events);
    Ok(())
}

fn check_groups(snapshot: &Snapshot, rules: &PolicyRules) -> Result<(), CommandRefusal> {
    let unknown = rules.groups().iter().filter(|group| snapshot.group(group).is_none());
    let groups: Vec<_> = unknown.cloned().collect();
    if groups.is_empty() { Ok(()) } else { Err(CommandRefusal::NoSuchGroups { groups }) }
}

fn decide_key(
    snapshot: &Snapshot,
    id: &KeyId,
    command: ApiKeyCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    let known = snapshot.key(id).map(|key| &**key);
    let events = ApiKey::decide(id, known, command)?;
    let living = known.map(|key| key.version);
    decision.add_main_events(snapshot, StreamName::for_api_key(id), living, id.as_str(), &events);
    Ok(())
}

fn decide_label(
    snapshot: &Snapshot,
    id: &LabelId,
    command: LabelCommand,
    decision: &mut CommandDecision,
) -> Result<(), CommandRefusal> {
    // Another node may have labelled a tool while the label was deleted: a new label of that id must not revive it.
    let cleans = matches!(command, LabelCommand::Delete | LabelCommand::Create(_));
    let known = snapshot.label(id).map(|label| &**label);
    let events = Label::decide(id, known, command)?;
    let living = known.map(|label| label.version);
    decision.add_main_events(snapshot, StreamName::for_label(id), living, id.as_str(), &events);
    if cleans {
        let labelled: Vec<_> =
            snapshot.tools().filter(|entry| entry.tool.labels.contains(id)).collect();
        for entry in &labelled {
            let others: BTreeSet<_> =
                entry.tool.labels.iter().filter(|label| *label != id).cloned().collect();
            let events =
                Tool::decide(&entry.tool.id, Some(&entry.tool), ToolCommand::Label(others))?;
            decision.add_events(StreamName::for_tool(&entry.tool.id), entry.tool.version, &events);
        }
        decision.answer["unlabelled_tools"] = json!(labelled.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_nesting_is_detected_and_brackets_in_strings_do_not_count() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(!is_too_deep(&nested(64)));
        assert!(is_too_deep(&nested(65)));
        assert!(!is_too_deep(&format!(r#"{{"a": "{}\"[["}}"#, "[".repeat(100))));
    }
}
