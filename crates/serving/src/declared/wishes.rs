//! The commands that bring a catalog to the declared state, each with the field of the file that requires it.
//!
//! A command that changes nothing yields no event, so commands for entities that are already as declared are harmless.
//! Entities that are not declared stay, unless they are pruned; pruning affects only the sections that the file has.

use std::collections::BTreeSet;

use catalog::tool::{Amendment, Status, ToolCommand};
use model::{GroupId, LabelId, PolicyId, SourceId, ToolId};
use toolcrib::group::GroupCommand;
use toolcrib::label::LabelCommand;
use toolcrib::policy::PolicyCommand;
use toolcrib::source::SourceCommand;
use toolcrib::{Command, Snapshot};

use super::Declared;
use super::entry::{Entry, ToolEntry};

/// A command, and the field that requires it: for pruning, the section.
pub(crate) struct Wish {
    pub(crate) field: String,
    pub(crate) command: Command,
}

/// All commands of a file.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) wishes: Vec<Wish>,
    /// Declared tools that are unknown, with their fields: their source was not refreshed yet, or does not offer them.
    pub(crate) waiting: Vec<(String, ToolId)>,
}

impl Wishes {
    /// The commands that bring the catalog to the declared state. Labels come before the tools that have them and
    /// groups before the policies that grant them; pruning uses the reverse order.
    pub(crate) fn of(declared: &Declared, snapshot: &Snapshot, prune: bool) -> Self {
        let mut wishes = Self::default();
        wishes.labels(declared, snapshot);
        wishes.sources(declared, snapshot);
        for entry in declared.tools.iter().flatten() {
            wishes.tool(entry, snapshot);
        }
        wishes.groups(declared, snapshot);
        wishes.policies(declared, snapshot);
        if prune {
            wishes.prune(declared, snapshot);
        }
        wishes
    }

    fn want(&mut self, field: &str, command: Command) {
        self.wishes.push(Wish { field: field.to_owned(), command });
    }

    fn labels(&mut self, declared: &Declared, snapshot: &Snapshot) {
        for Entry { field, id, rest: profile, .. } in declared.labels.iter().flatten() {
            let command = match snapshot.label(id) {
                None => LabelCommand::Create(profile.clone()),
                Some(_) => LabelCommand::Update(profile.clone()),
            };
            self.want(field, Command::Label(id.clone(), command));
        }
    }

    fn sources(&mut self, declared: &Declared, snapshot: &Snapshot) {
        for Entry { field, id, switch, rest: profile } in declared.sources.iter().flatten() {
            let command = match snapshot.source(id) {
                None => SourceCommand::Register(profile.clone()),
                Some(_) => SourceCommand::Update(profile.clone()),
            };
            self.want(field, Command::Source(id.clone(), command));
            if let Some(is_enabled) = switch {
                let (on, off) = (SourceCommand::Enable, SourceCommand::Disable);
                let command = if *is_enabled { on } else { off };
                self.want(field, Command::Source(id.clone(), command));
            }
        }
    }

    fn tool(&mut self, entry: &ToolEntry, snapshot: &Snapshot) {
        let ToolEntry { field, id, is_enabled, labels, amendment } = entry;
        let Some(known) = snapshot.tool(id) else {
            return self.waiting.push((field.clone(), id.clone()));
        };
        self.want(field, Command::Tool(id.clone(), ToolCommand::Amend(amendment.clone())));
        if let Some(labels) = labels {
            self.want(field, Command::Tool(id.clone(), ToolCommand::Label(labels.clone())));
        }
        let is_gone = known.tool.status == Status::Deprecated;
        match is_enabled {
            // The source no longer offers the tool, so it is not served; the declared switch takes effect when it
            // returns.
            Some(true) if is_gone && known.tool.enabled => {}
            Some(true) if is_gone => self.waiting.push((field.clone(), id.clone())),
            Some(true) => self.want(field, Command::Tool(id.clone(), ToolCommand::Enable)),
            Some(false) => self.want(field, Command::Tool(id.clone(), ToolCommand::Disable)),
            None => {}
        }
    }

    fn groups(&mut self, declared: &Declared, snapshot: &Snapshot) {
        for Entry { field, id, switch, rest: group } in declared.groups.iter().flatten() {
            let group = Box::new(group.clone());
            let command = match snapshot.group(id) {
                None => GroupCommand::Create(group),
                Some(_) => GroupCommand::Replace(group),
            };
            self.want(field, Command::Group(id.clone(), command));
            if let Some(is_active) = switch {
                let (on, off) = (GroupCommand::Activate, GroupCommand::Deactivate);
                let command = if *is_active { on } else { off };
                self.want(field, Command::Group(id.clone(), command));
            }
        }
    }

    fn policies(&mut self, declared: &Declared, snapshot: &Snapshot) {
        for Entry { field, id, switch, rest: rules } in declared.policies.iter().flatten() {
            let command = match snapshot.policy(id) {
                None => PolicyCommand::Define(rules.clone()),
                Some(_) => PolicyCommand::Update(rules.clone()),
            };
            self.want(field, Command::Policy(id.clone(), command));
            if let Some(is_active) = switch {
                let (on, off) = (PolicyCommand::Activate, PolicyCommand::Deactivate);
                let command = if *is_active { on } else { off };
                self.want(field, Command::Policy(id.clone(), command));
            }
        }
    }

    fn prune(&mut self, declared: &Declared, snapshot: &Snapshot) {
        if let Some(tools) = &declared.tools {
            self.prune_tools(tools, snapshot);
        }
        if let Some(entries) = &declared.policies {
            let kept: BTreeSet<&PolicyId> = entries.iter().map(|entry| &entry.id).collect();
            for policy in snapshot.policies().filter(|policy| !kept.contains(&policy.id)) {
                self.want("policies", Command::Policy(policy.id.clone(), PolicyCommand::Delete));
            }
        }
        if let Some(entries) = &declared.groups {
            let kept: BTreeSet<&GroupId> = entries.iter().map(|entry| &entry.id).collect();
            for entry in snapshot.groups().filter(|entry| !kept.contains(&entry.group.id)) {
                let id = entry.group.id.clone();
                self.want("groups", Command::Group(id, GroupCommand::Delete));
            }
        }
        if let Some(entries) = &declared.sources {
            let kept: BTreeSet<&SourceId> = entries.iter().map(|entry| &entry.id).collect();
            for entry in snapshot.sources().filter(|entry| !kept.contains(&entry.source.id)) {
                let id = entry.source.id.clone();
                self.want("sources", Command::Source(id, SourceCommand::Remove));
            }
        }
        if let Some(entries) = &declared.labels {
            let kept: BTreeSet<&LabelId> = entries.iter().map(|entry| &entry.id).collect();
            for label in snapshot.labels().filter(|label| !kept.contains(&label.id)) {
                self.want("labels", Command::Label(label.id.clone(), LabelCommand::Delete));
            }
        }
    }

    /// Removes the overrides of tools; the tools themselves belong to their sources.
    fn prune_tools(&mut self, declared: &[ToolEntry], snapshot: &Snapshot) {
        let kept: BTreeSet<&ToolId> = declared.iter().map(|entry| &entry.id).collect();
        for entry in snapshot.tools().filter(|entry| !kept.contains(&entry.tool.id)) {
            let id = &entry.tool.id;
            let back = Amendment {
                name: Some(None),
                description: Some(None),
                visibility: Some(None),
                required_scopes: Some(None),
                audience: Some(None),
                projection: Some(None),
                max_result_bytes: Some(None),
                limit: Some(None),
            };
            if entry.tool.overridden != Default::default() {
                self.want("tools", Command::Tool(id.clone(), ToolCommand::Amend(back)));
            }
            if !entry.tool.labels.is_empty() {
                let none = ToolCommand::Label(BTreeSet::new());
                self.want("tools", Command::Tool(id.clone(), none));
            }
            if !entry.tool.enabled && entry.tool.status == Status::Active {
                self.want("tools", Command::Tool(id.clone(), ToolCommand::Enable));
            }
        }
    }
}
