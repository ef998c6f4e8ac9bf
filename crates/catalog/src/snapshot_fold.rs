//! Folding: applies events to a snapshot, step by step.
//!
//! Applying an event only notes which aggregates it touched. Everything derived from them (schemas, memberships, served
//! tools) is computed once per batch in [`SnapshotFold::derive_state`], and only for the touched aggregates.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{Digest, GroupId, McpPrimitive, RawJson, Schema, SourceId, ToolId, Visibility};

use crate::api_key::ApiKey;
use crate::catalog::RecentDocuments;
use crate::command::CommandDecision;
use crate::event::Event;
use crate::group::Group;
use crate::journal::{
    Journal, JournalError, Position, RecordedEvent, StreamAppend, StreamName, StreamVersion,
};
use crate::label::Label;
use crate::policy::Policy;
use crate::snapshot::{CataloguedGroup, CataloguedSource, OwnedSnapshotEntry, Snapshot};
use crate::source::Source;
use crate::tool::Tool;
use crate::tool_set::{Slot, ToolSet};
use crate::tool_table::CataloguedTool;

/// A snapshot under construction.
#[derive(Default)]
pub(crate) struct SnapshotFold {
    snapshot: Snapshot,
    touched_tools: BTreeMap<ToolId, Tool>,
    /// Tools whose facts changed: selectors have to be evaluated again.
    reselected_tools: BTreeSet<Slot>,
    /// Tools whose switch or visibility changed: their group memberships stay.
    toggled_tools: BTreeSet<Slot>,
    touched_groups: BTreeSet<GroupId>,
    /// True if a policy changed or a tool or group was removed.
    has_other_changes: bool,
    /// Documents in use, shared by tools; the next field counts tools that released theirs since the last cleanup.
    documents: HashMap<Digest, RawJson>,
    replaced_tools: usize,
}

/// Upper bound for documents read in one call.
const DOCUMENTS_AT_ONCE: usize = 2000;

impl From<Snapshot> for SnapshotFold {
    fn from(snapshot: Snapshot) -> Self {
        Self { snapshot, ..Self::default() }
    }
}

impl SnapshotFold {
    pub(crate) fn position(&self) -> Position {
        self.snapshot.position
    }

    /// The snapshot so far; it is consistent only after `settle`.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// True if a tool has been touched but not yet placed.
    pub(crate) fn has_touched_tools(&self) -> bool {
        !self.touched_tools.is_empty()
    }

    /// Applies a decision as if it had been stored now.
    pub(crate) fn apply_decision(&mut self, decision: &CommandDecision) {
        let time = self.snapshot.time.unwrap_or_default();
        for StreamAppend { stream, expected, events } in &decision.streams {
            let mut version = *expected;
            for event in events {
                version = version.next();
                let position = Position(self.snapshot.position.0 + 1);
                self.apply_event(&RecordedEvent {
                    position,
                    stream: stream.clone(),
                    version,
                    kind: event.kind.clone(),
                    time,
                    actor: "what-if".into(),
                    correlation_id: None,
                    causation_id: None,
                    data: event.data.clone(),
                });
            }
        }
    }

    /// Restores one entry of a checkpoint.
    pub(crate) fn restore_entry(&mut self, entry: OwnedSnapshotEntry) {
        match entry {
            OwnedSnapshotEntry::Source(source) => self.put_source(source),
            OwnedSnapshotEntry::Tool(tool) => self.put_tool(*tool),
            OwnedSnapshotEntry::Group(group) => self.put_group(group),
            OwnedSnapshotEntry::Policy(policy) => {
                Arc::make_mut(&mut self.snapshot.policies)
                    .insert(policy.id.clone(), Arc::new(policy));
                self.has_other_changes = true;
            }
            OwnedSnapshotEntry::Label(label) => {
                Arc::make_mut(&mut self.snapshot.labels).insert(label.id.clone(), Arc::new(label));
            }
            OwnedSnapshotEntry::Key(key) => {
                Arc::make_mut(&mut self.snapshot.keys).insert(key.id.clone(), Arc::new(key));
            }
            OwnedSnapshotEntry::Ended(stream, version) => {
                Arc::make_mut(&mut self.snapshot.ended_streams).insert(stream, version);
            }
        }
    }

    pub(crate) fn continue_from(
        &mut self,
        position: Position,
        time: Option<jiff::Timestamp>,
        not_understood: u64,
    ) {
        self.snapshot.position = position;
        self.snapshot.time = time;
        self.snapshot.not_understood = not_understood;
    }

    /// Applies one event; the caller passes events in the order of their positions.
    pub(crate) fn apply_event(&mut self, recorded: &RecordedEvent) {
        let (at, version) = (recorded.time, recorded.version);
        match Event::from_recorded(recorded) {
            Ok(Event::Source(id, event)) => {
                let mut known = self.snapshot.source(&id).map(|entry| entry.source.clone());
                Source::evolve(&mut known, &id, event, at, version);
                match known {
                    Some(source) => self.put_source(source),
                    None => self.remove_source(&id),
                }
                self.note_end(recorded, self.snapshot.source(&id).is_none());
            }
            Ok(Event::Tool(id, event)) => {
                let touched = self.touched_tools.remove(&id);
                let mut known =
                    touched.or_else(|| self.snapshot.tool(&id).map(|entry| entry.tool.clone()));
                Tool::evolve(&mut known, &id, event, at, version);
                let gone = known.is_none();
                match known {
                    Some(tool) => self.put_tool(tool),
                    None => self.remove_tool(&id),
                }
                self.note_end(recorded, gone);
            }
            Ok(Event::Group(id, event)) => {
                let mut known = self.snapshot.group(&id).map(|entry| entry.group.clone());
                Group::evolve(&mut known, &id, event, at, version);
                let gone = known.is_none();
                match known {
                    Some(group) => self.put_group(group),
                    None => {
                        Arc::make_mut(&mut self.snapshot.groups).remove(&id);
                        self.has_other_changes = true;
                    }
                }
                self.note_end(recorded, gone);
            }
            Ok(Event::Policy(id, event)) => {
                let policies = Arc::make_mut(&mut self.snapshot.policies);
                let mut known = policies.remove(&id).map(Arc::unwrap_or_clone);
                Policy::evolve(&mut known, &id, event, at, version);
                let gone = known.is_none();
                policies.extend(known.map(|policy| (id, Arc::new(policy))));
                self.has_other_changes = true;
                self.note_end(recorded, gone);
            }
            Ok(Event::Label(id, event)) => {
                let labels = Arc::make_mut(&mut self.snapshot.labels);
                let mut known = labels.remove(&id).map(Arc::unwrap_or_clone);
                Label::evolve(&mut known, &id, event, at, version);
                let gone = known.is_none();
                labels.extend(known.map(|label| (id, Arc::new(label))));
                self.note_end(recorded, gone);
            }
            Ok(Event::Key(id, event)) => {
                let keys = Arc::make_mut(&mut self.snapshot.keys);
                let mut known = keys.remove(&id).map(Arc::unwrap_or_clone);
                ApiKey::evolve(&mut known, &id, event, at, version);
                let gone = known.is_none();
                keys.extend(known.map(|key| (id, Arc::new(key))));
                self.note_end(recorded, gone);
            }
            Err(reason) => {
                let (position, kind) = (recorded.position, &*recorded.kind);
                // Data from a journal may contain control characters.
                let reason = reason.to_string().escape_debug().to_string();
                tracing::warn!(%position, kind, reason, "event {position} is kept but not understood");
                self.snapshot.not_understood += 1;
                self.note_version(&recorded.stream, version);
            }
        }
        self.snapshot.position = recorded.position;
        self.snapshot.time = Some(recorded.time);
    }

    /// Remembers the version at which the stream of a removed aggregate continues.
    fn note_end(&mut self, recorded: &RecordedEvent, gone: bool) {
        if gone {
            Arc::make_mut(&mut self.snapshot.ended_streams)
                .insert(recorded.stream.clone(), recorded.version);
        } else if self.snapshot.ended_streams.contains_key(&recorded.stream) {
            Arc::make_mut(&mut self.snapshot.ended_streams).remove(&recorded.stream);
        }
    }

    /// Advances a stream past an unreadable event, so that its aggregate can still be changed.
    fn note_version(&mut self, stream: &StreamName, version: StreamVersion) {
        let name = stream.as_str();
        let id = |prefix: &str| name.strip_prefix(prefix);
        if let Some(id) = id(StreamName::TOOL_PREFIX).and_then(|id| id.parse::<ToolId>().ok()) {
            let known = self.touched_tools.remove(&id);
            if let Some(mut tool) = known.or_else(|| Some(self.snapshot.tool(&id)?.tool.clone())) {
                tool.version = version;
                return self.put_tool(tool);
            }
        } else if let Some(entry) =
            id(StreamName::SOURCE_PREFIX).and_then(|id| self.snapshot.sources.get(id))
        {
            let source = Source { version, ..entry.source.clone() };
            return self.put_source(source);
        } else if let Some(entry) =
            id(StreamName::GROUP_PREFIX).and_then(|id| self.snapshot.groups.get(id))
        {
            let group = Group { version, ..entry.group.clone() };
            return self.put_group(group);
        } else if let Some(policy) =
            id(StreamName::POLICY_PREFIX).and_then(|id| self.snapshot.policies.get(id))
        {
            let policy = Arc::new(Policy { version, ..Policy::clone(policy) });
            Arc::make_mut(&mut self.snapshot.policies).insert(policy.id.clone(), policy);
            return;
        } else if let Some(label) =
            id(StreamName::LABEL_PREFIX).and_then(|id| self.snapshot.labels.get(id))
        {
            let label = Arc::new(Label { version, ..Label::clone(label) });
            Arc::make_mut(&mut self.snapshot.labels).insert(label.id.clone(), label);
            return;
        } else if let Some(key) =
            id(StreamName::API_KEY_PREFIX).and_then(|id| self.snapshot.keys.get(id))
        {
            let key = Arc::new(ApiKey { version, ..ApiKey::clone(key) });
            Arc::make_mut(&mut self.snapshot.keys).insert(key.id.clone(), key);
            return;
        }
        Arc::make_mut(&mut self.snapshot.ended_streams).insert(stream.clone(), version);
    }

    fn put_source(&mut self, source: Source) {
        let sources = Arc::make_mut(&mut self.snapshot.sources);
        let before = sources.get(&source.id);
        // A tool whose first event precedes that of its source waits for the source.
        let waiting = || {
            let tools = self.snapshot.tools.iter();
            tools.filter(|entry| entry.tool.source == source.id).map(|entry| entry.slot).collect()
        };
        let tools = before.map_or_else(waiting, |entry| entry.tools.clone());
        // Selectors see the name; the switch and the visibility only decide which tools are served and where.
        let renamed = |entry: &CataloguedSource| entry.source.profile.name != source.profile.name;
        let switch = |source: &Source| (source.enabled, source.profile.visibility);
        if before.is_none_or(|entry| renamed(entry)) {
            self.reselected_tools.extend(tools.iter());
        } else if before.is_some_and(|entry| switch(&entry.source) != switch(&source)) {
            self.toggled_tools.extend(tools.iter());
        }
        sources.insert(source.id.clone(), Arc::new(CataloguedSource { source, tools }));
    }

    fn remove_source(&mut self, id: &SourceId) {
        if let Some(gone) = Arc::make_mut(&mut self.snapshot.sources).remove(id) {
            self.reselected_tools.extend(gone.tools.iter());
        }
    }

    fn put_group(&mut self, group: Group) {
        let groups = Arc::make_mut(&mut self.snapshot.groups);
        let members =
            groups.get(&group.id).map_or_else(ToolSet::default, |entry| entry.members.clone());
        self.touched_groups.insert(group.id.clone());
        groups.insert(group.id.clone(), Arc::new(CataloguedGroup { group, members }));
    }

    fn put_tool(&mut self, tool: Tool) {
        self.touched_tools.insert(tool.id.clone(), tool);
    }

    fn remove_tool(&mut self, id: &ToolId) {
        let Some(entry) = self.snapshot.tool(id).cloned() else { return };
        let slot = entry.slot;
        self.snapshot.tools.remove_tool(id);
        self.snapshot.names.remove_tool(slot, &entry.tool);
        self.reselected_tools.remove(&slot);
        self.toggled_tools.remove(&slot);
        self.replaced_tools += 1;
        self.has_other_changes = true;
        self.snapshot.served.set_member(slot, false);
        self.set_visibility(slot, None, false);
        self.set_primitive(slot, McpPrimitive::Tool);
        for entry in Arc::make_mut(&mut self.snapshot.groups).values_mut() {
            if entry.members.contains(slot) {
                Arc::make_mut(entry).members.set_member(slot, false);
            }
        }
        for entry in Arc::make_mut(&mut self.snapshot.sources).values_mut() {
            if entry.tools.contains(slot) {
                Arc::make_mut(entry).tools.set_member(slot, false);
            }
        }
    }

    /// Computes everything that is derived from the touched aggregates.
    pub(crate) async fn derive_state(
        &mut self,
        journal: &dyn Journal,
        recent: &RecentDocuments,
    ) -> Result<(), JournalError> {
        self.load_documents(journal, recent).await?;
        let tools_change = !self.touched_tools.is_empty()
            || !self.reselected_tools.is_empty()
            || !self.toggled_tools.is_empty();
        if tools_change || !self.touched_groups.is_empty() || self.has_other_changes {
            self.snapshot.generation = next_generation();
            self.has_other_changes = false;
        }
        self.place_tools();
        self.update_memberships();
        if self.documents.len() < 4 * self.replaced_tools {
            self.documents.retain(|_, text| 1 < text.owner_count());
            self.replaced_tools = 0;
        }
        Ok(())
    }

    /// Loads the schemas of touched tools unless another tool already holds them.
    async fn load_documents(
        &mut self,
        journal: &dyn Journal,
        recent: &RecentDocuments,
    ) -> Result<(), JournalError> {
        let manifests = self.touched_tools.values().filter_map(Tool::served_manifest);
        let wanted: HashSet<_> =
            manifests.flat_map(|manifest| manifest.document_digests()).collect();
        let mut missing = Vec::new();
        for digest in wanted {
            if self.documents.contains_key(&digest) {
                continue;
            }
            match recent.find(&digest) {
                Some(text) => drop(self.documents.insert(digest, text)),
                None => missing.push(digest),
            }
        }
        for some in missing.chunks(DOCUMENTS_AT_ONCE) {
            let found = journal.read_documents(some.to_vec()).await?;
            self.documents
                .extend(found.into_iter().map(|document| (document.digest, document.text)));
        }
        Ok(())
    }

    fn place_tools(&mut self) {
        for (id, tool) in std::mem::take(&mut self.touched_tools) {
            let slot = self.snapshot.tools.slot_for(&id);
            let resolve = |reference| {
                Schema::resolve(reference, |digest| self.documents.get(digest).cloned())
            };
            let manifest = tool.served_manifest();
            let input_schema = manifest.and_then(|manifest| resolve(&manifest.input_schema));
            let output_schema =
                manifest.and_then(|manifest| resolve(manifest.output_schema.as_ref()?));
            let before = self.snapshot.tool_at(slot).cloned();
            let source = before.as_ref().map(|entry| &entry.tool.source);
            if source != Some(&tool.source) {
                self.put_under_source(slot, source, false);
                self.put_under_source(slot, Some(&tool.source), true);
            }
            let renamed = |entry: &CataloguedTool| {
                (entry.tool.name(), &entry.tool.source) != (tool.name(), &tool.source)
            };
            if before.as_deref().is_none_or(renamed) {
                if let Some(entry) = &before {
                    self.snapshot.names.remove_tool(slot, &entry.tool);
                }
                self.snapshot.names.add_tool(slot, &tool);
            }
            match before.as_deref().is_some_and(|entry| same_for_selectors(&entry.tool, &tool)) {
                true => self.toggled_tools.insert(slot),
                false => self.reselected_tools.insert(slot),
            };
            self.replaced_tools += usize::from(before.is_some());
            let entry = CataloguedTool { slot, tool, input_schema, output_schema };
            if !entry.is_complete() {
                tracing::error!(tool = %id, "a document of tool `{id}` is missing from the journal: not served");
            }
            self.snapshot.tools.put_tool(entry);
        }
    }

    fn put_under_source(&mut self, slot: Slot, source: Option<&SourceId>, member: bool) {
        let Some(source) = source else { return };
        if let Some(entry) = Arc::make_mut(&mut self.snapshot.sources).get_mut(source)
            && entry.tools.contains(slot) != member
        {
            Arc::make_mut(entry).tools.set_member(slot, member);
        }
    }

    /// Sets the visibility of a tool; `None` removes it.
    fn set_visibility(&mut self, slot: Slot, visibility: Option<Visibility>, fixed: bool) {
        let sets = &mut self.snapshot.visibility;
        sets.listed.set_member(slot, visibility == Some(Visibility::Listed));
        sets.searchable.set_member(slot, visibility == Some(Visibility::Searchable));
        sets.fixed.set_member(slot, fixed);
    }

    /// Notes whether the entry is a prompt or a resource rather than a tool.
    fn set_primitive(&mut self, slot: Slot, kind: McpPrimitive) {
        self.snapshot.visibility.non_tools.set_member(slot, kind != McpPrimitive::Tool);
    }

    /// Computes the groups and the served state of moved tools, and the members of touched groups.
    fn update_memberships(&mut self) {
        let moved = std::mem::take(&mut self.reselected_tools);
        let touched = std::mem::take(&mut self.touched_groups);
        let snapshot = &self.snapshot;
        let mut changes: BTreeMap<GroupId, Vec<(Slot, bool)>> = BTreeMap::new();
        for (id, entry) in snapshot.groups.iter() {
            let mut judge = |tool: &CataloguedTool| {
                let member =
                    entry.group.contains_tool(&tool.tool.id, &snapshot.selector_facts(&tool.tool));
                if entry.members.contains(tool.slot) != member {
                    changes.entry(id.clone()).or_default().push((tool.slot, member));
                }
            };
            if touched.contains(id) {
                snapshot.tools.iter().for_each(|tool| judge(tool));
            } else {
                moved
                    .iter()
                    .filter_map(|slot| snapshot.tool_at(*slot))
                    .for_each(|tool| judge(tool));
            }
        }
        let switched = std::mem::take(&mut self.toggled_tools);
        let changed = moved.union(&switched).filter_map(|slot| snapshot.tool_at(*slot));
        let changed: Vec<_> = changed
            .map(|entry| {
                let visibility = snapshot.own_visibility(&entry.tool);
                let fixed = entry.tool.overridden.visibility.is_some();
                let kind = snapshot.selector_facts(&entry.tool).kind;
                (entry.slot, snapshot.can_be_served(entry), visibility, fixed, kind)
            })
            .collect();
        for (slot, served, visibility, fixed, kind) in changed {
            self.snapshot.served.set_member(slot, served);
            self.set_visibility(slot, Some(visibility), fixed);
            self.set_primitive(slot, kind);
        }
        if !changes.is_empty() {
            let groups = Arc::make_mut(&mut self.snapshot.groups);
            for (id, changes) in changes {
                let entry = Arc::make_mut(groups.get_mut(&id).expect("only known groups change"));
                for (slot, member) in changes {
                    entry.members.set_member(slot, member);
                }
            }
        }
    }
}

/// True if selectors cannot distinguish two states of a tool.
fn same_for_selectors(before: &Tool, after: &Tool) -> bool {
    let (one, two) = (before.current_manifest(), after.current_manifest());
    (&before.source, before.name(), &before.labels) == (&after.source, after.name(), &after.labels)
        && (&one.path, &one.method, &one.tags) == (&two.path, &two.method, &two.tags)
}

/// Unique within a process, so that a decision cached for one snapshot is never used for another.
fn next_generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
