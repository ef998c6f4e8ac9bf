//! The commands that bring a catalog to the declared state, each with the field of the file that requires it.
//!
//! A command that changes nothing yields no event, so commands for entities that are already as declared are harmless.
//! Entities that are not declared stay, unless they are pruned; pruning affects only the sections that the file has.

use std::collections::BTreeSet;

use catalog::group::GroupCommand;
use catalog::label::LabelCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::{ToolCommand, ToolOverrideChange, ToolStatus};
use model::{GroupId, LabelId, PolicyId, SourceId, ToolId};
use toolcrib::{Command, Snapshot};

use super::DeclaredConfig;
use super::section_entries::{EntityDeclaration, ToolDeclaration};

/// A command, and the field that requires it: for pruning, the section.
pub(crate) struct DeclaredCommand {
    pub(crate) field: String,
    pub(crate) command: Command,
}

/// All commands of a file.
#[derive(Default)]
pub(crate) struct DeclaredCommands {
    pub(crate) commands: Vec<DeclaredCommand>,
    /// Declared tools that are unknown, with their fields: their source was not refreshed yet, or does not offer them.
    pub(crate) missing_tools: Vec<(String, ToolId)>,
}

impl DeclaredCommands {
    /// The commands that bring the catalog to the declared state. Labels come before the tools that have them and
    /// groups before the policies that grant them; pruning uses the reverse order.
    pub(crate) fn from_declared(
        declared: &DeclaredConfig,
        snapshot: &Snapshot,
        prune: bool,
    ) -> Self {
        let mut wishes = Self::default();
        wishes.add_labels(declared, snapshot);
        wishes.add_sources(declared, snapshot);
        for entry in declared.tools.iter().flatten() {
            wishes.add_tool(entry, snapshot);
        }
        wishes.add_groups(declared, snapshot);
        wishes.add_policies(declared, snapshot);
        if prune {
            wishes.prune_undeclared(declared, snapshot);
        }
        wishes
    }

    fn push_command(&mut self, field: &str, command: Command) {
        self.commands.push(DeclaredCommand { field: field.to_owned(), command });
    }

    fn add_labels(&mut self, declared: &DeclaredConfig, snapshot: &Snapshot) {
        for EntityDeclaration { field, id, body: profile, .. } in declared.labels.iter().flatten() {
            let command = match snapshot.label(id) {
                None => LabelCommand::Create(profile.clone()),
                Some(_) => LabelCommand::Update(profile.clone()),
            };
            self.push_command(field, Command::Label(id.clone(), command));
        }
    }

    fn add_sources(&mut self, declared: &DeclaredConfig, snapshot: &Snapshot) {
        for EntityDeclaration { field, id, switch, body: profile } in
            declared.sources.iter().flatten()
        {
            let command = match snapshot.source(id) {
                None => SourceCommand::Register(profile.clone()),
                Some(_) => SourceCommand::Update(profile.clone()),
            };
            self.push_command(field, Command::Source(id.clone(), command));
            if let Some(is_enabled) = switch {
                let (on, off) = (SourceCommand::Enable, SourceCommand::Disable);
                let command = if *is_enabled { on } else { off };
                self.push_command(field, Command::Source(id.clone(), command));
            }
        }
    }

    fn add_tool(&mut self, entry: &ToolDeclaration, snapshot: &Snapshot) {
        let ToolDeclaration { field, id, is_enabled, labels, amendment } = entry;
        let Some(known) = snapshot.tool(id) else {
            return self.missing_tools.push((field.clone(), id.clone()));
        };
        self.push_command(field, Command::Tool(id.clone(), ToolCommand::Amend(amendment.clone())));
        if let Some(labels) = labels {
            self.push_command(field, Command::Tool(id.clone(), ToolCommand::Label(labels.clone())));
        }
        let is_gone = known.tool.status == ToolStatus::Deprecated;
        match is_enabled {
            // The source no longer offers the tool, so it is not served; the declared switch takes effect when it
            // returns.
            Some(true) if is_gone && known.tool.enabled => {}
            Some(true) if is_gone => self.missing_tools.push((field.clone(), id.clone())),
            Some(true) => self.push_command(field, Command::Tool(id.clone(), ToolCommand::Enable)),
            Some(false) => {
                self.push_command(field, Command::Tool(id.clone(), ToolCommand::Disable))
            }
            None => {}
        }
    }

    fn add_groups(&mut self, declared: &DeclaredConfig, snapshot: &Snapshot) {
        for EntityDeclaration { field, id, switch, body: group } in declared.groups.iter().flatten()
        {
            let group = Box::new(group.clone());
            let command = match snapshot.group(id) {
                None => GroupCommand::Create(group),
                Some(_) => GroupCommand::Replace(group),
            };
            self.push_command(field, Command::Group(id.clone(), command));
            if let Some(is_active) = switch {
                let (on, off) = (GroupCommand::Activate, GroupCommand::Deactivate);
                let command = if *is_active { on } else { off };
                self.push_command(field, Command::Group(id.clone(), command));
            }
        }
    }

    fn add_policies(&mut self, declared: &DeclaredConfig, snapshot: &Snapshot) {
        for EntityDeclaration { field, id, switch, body: rules } in
            declared.policies.iter().flatten()
        {
            let command = match snapshot.policy(id) {
                None => PolicyCommand::Define(rules.clone()),
                Some(_) => PolicyCommand::Update(rules.clone()),
            };
            self.push_command(field, Command::Policy(id.clone(), command));
            if let Some(is_active) = switch {
                let (on, off) = (PolicyCommand::Activate, PolicyCommand::Deactivate);
                let command = if *is_active { on } else { off };
                self.push_command(field, Command::Policy(id.clone(), command));
            }
        }
    }

    fn prune_undeclared(&mut self, declared: &DeclaredConfig, snapshot: &Snapshot) {
        if let Some(tools) = &declared.tools {
            self.prune_tools(tools, snapshot);
        }
        if let Some(entries) = &declared.policies {
            let kept: BTreeSet<&PolicyId> = entries.iter().map(|entry| &entry.id).collect();
            for policy in snapshot.policies().filter(|policy| !kept.contains(&policy.id)) {
                self.push_command(
                    "policies",
                    Command::Policy(policy.id.clone(), PolicyCommand::Delete),
                );
            }
        }
        if let Some(entries) = &declared.groups {
            let kept: BTreeSet<&GroupId> = entries.iter().map(|entry| &entry.id).collect();
            for entry in snapshot.groups().filter(|entry| !kept.contains(&entry.group.id)) {
                let id = entry.group.id.clone();
                self.push_command("groups", Command::Group(id, GroupCommand::Delete));
            }
        }
        if let Some(entries) = &declared.sources {
            let kept: BTreeSet<&SourceId> = entries.iter().map(|entry| &entry.id).collect();
            for entry in snapshot.sources().filter(|entry| !kept.contains(&entry.source.id)) {
                let id = entry.source.id.clone();
                self.push_command("sources", Command::Source(id, SourceCommand::Remove));
            }
        }
        if let Some(entries) = &declared.labels {
            let kept: BTreeSet<&LabelId> = entries.iter().map(|entry| &entry.id).collect();
            for label in snapshot.labels().filter(|label| !kept.contains(&label.id)) {
                self.push_command("labels", Command::Label(label.id.clone(), LabelCommand::Delete));
            }
        }
    }

    /// Removes the overrides of tools; the tools themselves belong to their sources.
    fn prune_tools(&mut self, declared: &[ToolDeclaration], snapshot: &Snapshot) {
        let kept: BTreeSet<&ToolId> = declared.iter().map(|entry| &entry.id).collect();
        for entry in snapshot.tools().filter(|entry| !kept.contains(&entry.tool.id)) {
            let id = &entry.tool.id;
            let back = ToolOverrideChange {
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
                self.push_command("tools", Command::Tool(id.clone(), ToolCommand::Amend(back)));
            }
            if !entry.tool.labels.is_empty() {
                let none = ToolCommand::Label(BTreeSet::new());
                self.push_command("tools", Command::Tool(id.clone(), none));
            }
            if !entry.tool.enabled && entry.tool.status == ToolStatus::Active {
                self.push_command("tools", Command::Tool(id.clone(), ToolCommand::Enable));
            }
        }
    }
}
