//! A snapshot: the whole catalog at one position, immutable and cheap to share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use model::{
    Digest, GroupId, KeyId, LabelId, PolicyId, SelectorTarget, SourceId, ToolId, Visibility,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::api_key::ApiKey;
use crate::group::Group;
use crate::journal::{Position, StreamName, StreamVersion};
use crate::label::Label;
use crate::policy::Policy;
use crate::source::Source;
use crate::tool::{Tool, ToolStatus};
use crate::tool_names::ToolNameIndex;
use crate::tool_set::{Slot, ToolSet};
use crate::tool_table::{CataloguedTool, ToolTable};

/// The whole catalog at one position.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(crate) position: Position,
    pub(crate) time: Option<Timestamp>,
    pub sources: Arc<BTreeMap<SourceId, Arc<CataloguedSource>>>,
    pub tools: ToolTable,
    pub(crate) groups: Arc<BTreeMap<GroupId, Arc<CataloguedGroup>>>,
    pub(crate) policies: Arc<BTreeMap<PolicyId, Arc<Policy>>>,
    pub(crate) labels: Arc<BTreeMap<LabelId, Arc<Label>>>,
    pub(crate) keys: Arc<BTreeMap<KeyId, Arc<ApiKey>>>,
    /// Tools that are enabled, active, approved and complete, of an enabled source.
    pub(crate) served: ToolSet,
    pub(crate) visibility: VisibilitySets,
    pub(crate) names: ToolNameIndex,
    pub(crate) generation: u64,
    /// Last versions of the streams of removed aggregates: a new aggregate of the same id continues there.
    pub(crate) ended_streams: Arc<HashMap<StreamName, StreamVersion>>,
    pub(crate) not_understood: u64,
}

/// Default visibility of tools, unless a granting group overrides it.
#[derive(Clone, Debug, Default)]
pub struct VisibilitySets {
    pub listed: ToolSet,
    /// Found through search only. A tool in neither set can only be called by name.
    pub searchable: ToolSet,
    /// Set on the tool itself: no group overrides it.
    pub fixed: ToolSet,
    /// Prompts and resources: agents never see them among tools.
    pub non_tools: ToolSet,
}

/// A source in the snapshot.
#[derive(Clone, Debug)]
pub struct CataloguedSource {
    pub source: Source,
    pub tools: ToolSet,
}

/// A group in the snapshot.
#[derive(Clone, Debug)]
pub struct CataloguedGroup {
    pub group: Group,
    /// Selected + explicit − excluded, served or not.
    pub members: ToolSet,
}

impl Snapshot {
    /// Position of the last folded event.
    pub fn position(&self) -> Position {
        self.position
    }

    /// When that event was recorded.
    pub fn time(&self) -> Option<Timestamp> {
        self.time
    }

    /// Number of events in the journal that this program cannot interpret.
    pub fn not_understood(&self) -> u64 {
        self.not_understood
    }

    /// All sources, by id.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &Arc<CataloguedSource>> {
        self.sources.values()
    }

    pub fn source(&self, id: &SourceId) -> Option<&Arc<CataloguedSource>> {
        self.sources.get(id)
    }

    /// Number of tools, served or not.
    pub fn tool_count(&self) -> usize {
        self.tools.len()
    }

    /// All tools, in the order of their slots.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<CataloguedTool>> {
        self.tools.iter()
    }

    pub fn tool(&self, id: &ToolId) -> Option<&Arc<CataloguedTool>> {
        self.tools.get(id)
    }

    pub fn tool_at(&self, slot: Slot) -> Option<&Arc<CataloguedTool>> {
        self.tools.tool_at(slot)
    }

    /// When a tool was last seen at its source.
    pub fn last_seen_at(&self, tool: &Tool) -> Timestamp {
        let refreshed = || self.source(&tool.source)?.source.inventory.as_ref()?.at;
        tool.missing_since.or_else(refreshed).unwrap_or(tool.created_at)
    }

    /// All groups, by id.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<CataloguedGroup>> {
        self.groups.values()
    }

    pub fn group(&self, id: &GroupId) -> Option<&Arc<CataloguedGroup>> {
        self.groups.get(id)
    }

    /// The servable tools of a group: selected + explicit − excluded, without disabled tools.
    /// Empty if the group is inactive.
    pub fn group_tools(&self, id: &GroupId) -> Option<ToolSet> {
        let entry = self.groups.get(id)?;
        Some(match entry.group.active {
            true => entry.members.intersection(&self.served),
            false => ToolSet::default(),
        })
    }

    /// All policies, by id.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = &Arc<Policy>> {
        self.policies.values()
    }

    pub fn policy(&self, id: &PolicyId) -> Option<&Arc<Policy>> {
        self.policies.get(id)
    }

    /// All labels, by id.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = &Arc<Label>> {
        self.labels.values()
    }

    pub fn label(&self, id: &LabelId) -> Option<&Arc<Label>> {
        self.labels.get(id)
    }

    /// All API keys, by id.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<ApiKey>> {
        self.keys.values()
    }

    pub fn key(&self, id: &KeyId) -> Option<&Arc<ApiKey>> {
        self.keys.get(id)
    }

    /// All tools that can be served.
    pub fn served(&self) -> &ToolSet {
        &self.served
    }

    /// Default visibility of tools, unless a granting group overrides it.
    pub fn visibility(&self) -> &VisibilitySets {
        &self.visibility
    }

    /// Changes whenever the tools, or the rules of who may use them, change. Two snapshots of one process that differ
    /// in these never share a generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All policies; equal pointers in two snapshots mean equal policies.
    pub fn policies_by_id(&self) -> &Arc<BTreeMap<PolicyId, Arc<Policy>>> {
        &self.policies
    }

    /// The tools with this name, in any of its forms, served or not.
    pub fn tools_named<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = &'a Arc<CataloguedTool>> {
        let found = self.names.find_slots(text).iter().filter_map(|slot| self.tool_at(*slot));
        found.filter(move |entry| entry.tool.has_name(text))
    }

    /// The tools of a set with this name. Names of tools outside the set are not even compared.
    pub fn tools_named_within<'a>(
        &'a self,
        text: &'a str,
        set: &'a ToolSet,
    ) -> impl Iterator<Item = &'a Arc<CataloguedTool>> {
        let slots = self.names.find_slots(text).iter().filter(|slot| set.contains(**slot));
        let found = slots.filter_map(|slot| self.tool_at(*slot));
        found.filter(move |entry| entry.tool.has_name(text))
    }

    /// Visibility of a tool as set on itself or on its source.
    pub(crate) fn own_visibility(&self, tool: &Tool) -> Visibility {
        let of_source = || Some(self.source(&tool.source)?.source.profile.visibility);
        tool.overridden.visibility.or_else(of_source).unwrap_or_default()
    }

    /// The facts of a tool that selectors match against.
    pub fn selector_facts<'a>(&'a self, tool: &'a Tool) -> SelectorTarget<'a> {
        let manifest = tool.current_manifest();
        let source_name =
            self.source(&tool.source).map_or("", |source| source.source.profile.name.as_str());
        SelectorTarget {
            kind: manifest.execution.primitive(),
            source_id: tool.source.as_str(),
            source_name,
            name: tool.name(),
            path: &manifest.path,
            method: &manifest.method,
            tags: &manifest.tags,
            labels: &tool.labels,
        }
    }

    /// True if nothing prevents serving this tool, regardless of the caller.
    pub(crate) fn can_be_served(&self, entry: &CataloguedTool) -> bool {
        let tool = &entry.tool;
        tool.served_manifest().is_some()
            && entry.is_complete()
            && tool.enabled
            && tool.status == ToolStatus::Active
            && self.source(&tool.source).is_some_and(|source| source.source.enabled)
    }

    /// All entries in one canonical order, as a checkpoint stores them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = SnapshotEntry<'_>> {
        let mut tools: Vec<_> = self.tools.iter().map(|entry| &entry.tool).collect();
        tools.sort_by(|one, two| one.id.cmp(&two.id));
        let mut ended: Vec<_> = self.ended_streams.iter().collect();
        ended.sort();
        let sources = self.sources.values().map(|entry| SnapshotEntry::Source(&entry.source));
        let groups = self.groups.values().map(|entry| SnapshotEntry::Group(&entry.group));
        let policies = self.policies.values().map(|policy| SnapshotEntry::Policy(policy));
        let labels = self.labels.values().map(|label| SnapshotEntry::Label(label));
        let keys = self.keys.values().map(|key| SnapshotEntry::Key(key));
        let tools = tools.into_iter().map(SnapshotEntry::Tool);
        let ended =
            ended.into_iter().map(|(stream, version)| SnapshotEntry::Ended(stream, *version));
        sources.chain(labels).chain(tools).chain(groups).chain(policies).chain(keys).chain(ended)
    }

    /// SHA-256 over the whole catalog including derived state. Two snapshots are equal exactly if their digests are.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let mut line = |text: &str| {
            hash.update(text);
            hash.update("\n");
        };
        for entry in self.entries() {
            line(&serde_json::to_string(&entry).expect("entries are JSON"));
        }
        let ids = |set: &ToolSet| {
            let mut ids: Vec<_> = set
                .iter()
                .filter_map(|slot| Some(self.tool_at(slot)?.tool.id.to_string()))
                .collect();
            ids.sort();
            ids.join("\t")
        };
        for entry in self.groups.values() {
            line(&format!("members of {}: {}", entry.group.id, ids(&entry.members)));
        }
        for entry in self.sources.values() {
            line(&format!("tools of {}: {}", entry.source.id, ids(&entry.tools)));
        }
        line(&format!("served: {}", ids(&self.served)));
        line(&format!("listed: {}", ids(&self.visibility.listed)));
        line(&format!("searchable: {}", ids(&self.visibility.searchable)));
        Digest::from_bytes(&hash.finalize()).expect("SHA-256 has 32 bytes")
    }
}

/// One aggregate of a snapshot, as a checkpoint stores it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SnapshotEntry<'a> {
    Source(&'a Source),
    Tool(&'a Tool),
    Group(&'a Group),
    Policy(&'a Policy),
    Label(&'a Label),
    Key(&'a ApiKey),
    Ended(&'a StreamName, StreamVersion),
}

/// One aggregate read back from a checkpoint.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OwnedSnapshotEntry {
    Source(Source),
    Tool(Box<Tool>),
    Group(Group),
    Policy(Policy),
    Label(Label),
    Key(ApiKey),
    Ended(StreamName, StreamVersion),
}
