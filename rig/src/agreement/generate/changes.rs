//! Generates one more change to an existing world: any kind, sometimes one that reverts an earlier one.

use std::collections::BTreeMap;

use super::{CaseBuilder, LABELS, POLICIES, SOURCES, groups, tools};
use crate::agreement::world::{
    GroupChange, LabelChange, PolicyChange, SourceChange, ToolChange, WorldChange, WorldManifest,
};

impl CaseBuilder {
    pub(super) fn add_random_change(&mut self) {
        let wish = match self.random.below(20) {
            0 => self.label_change(),
            1..5 => self.source_change(),
            5..10 => self.tool_change(),
            10..16 => self.group_change(),
            _ => self.policy_change(),
        };
        self.push_change(wish);
    }

    fn label_change(&mut self) -> WorldChange {
        let id = self.random.pick_from(&LABELS).to_owned();
        let wish = match (self.world.labels.contains(&id), self.random.below(4)) {
            (_, 0) => LabelChange::Rename("other".to_owned()),
            (true, _) => LabelChange::Delete,
            (false, _) => LabelChange::Create,
        };
        WorldChange::Label(id, wish)
    }

    fn source_change(&mut self) -> WorldChange {
        let id = self.random.one_of(self.world.sources.keys().cloned());
        let id = id.unwrap_or_else(|| self.random.pick_from(&SOURCES).to_owned());
        let wish = match self.random.below(12) {
            0 => SourceChange::Register(tools::random_profile(&mut self.random)),
            1..3 => SourceChange::Update(tools::random_profile(&mut self.random)),
            3 => SourceChange::Enable,
            4 => SourceChange::Disable,
            5 => SourceChange::Remove,
            _ => self.random_ingest(&id),
        };
        // A missing source is often registered again; every other change to it is refused.
        if !self.world.sources.contains_key(&id) && self.random.percent_chance(70) {
            return WorldChange::Source(
                id,
                SourceChange::Register(tools::random_profile(&mut self.random)),
            );
        }
        WorldChange::Source(id, wish)
    }

    /// Ingests the same inventory again, a slightly changed one, or a new one.
    fn random_ingest(&mut self, id: &str) -> SourceChange {
        let known = self.world.sources.get(id).and_then(|source| source.inventory.clone());
        let mut tools = match known {
            Some(known) if self.random.percent_chance(80) => known,
            _ => tools::random_inventory(&mut self.random, id, self.world.tools.len()),
        };
        if self.random.percent_chance(80) {
            self.alter_inventory(id, &mut tools);
        }
        SourceChange::Ingest { tools, force: self.random.percent_chance(40) }
    }

    fn alter_inventory(&mut self, id: &str, tools: &mut BTreeMap<String, WorldManifest>) {
        let key = self.random.pick_from(&super::KEYS).to_owned();
        match (tools.get_mut(&key), self.random.below(3)) {
            (Some(manifest), 0) => manifest.edition += 1,
            (Some(_), 1) => drop(tools.remove(&key)),
            _ => drop(tools.insert(key, tools::random_manifest(&mut self.random, id))),
        }
    }

    fn tool_change(&mut self) -> WorldChange {
        let id = self.likely_tool_id();
        let wish = match self.random.below(14) {
            0..2 => ToolChange::Enable,
            2..4 => ToolChange::Disable,
            4..7 => tools::random_override(&mut self.random),
            7..10 => ToolChange::Label(self.some_labels()),
            10..12 => ToolChange::Approve,
            12 => ToolChange::Reject,
            _ => ToolChange::Remove,
        };
        WorldChange::Tool(id, wish)
    }

    fn group_change(&mut self) -> WorldChange {
        let id = self.likely_group_id();
        let wish = match self.random.below(16) {
            0..2 => GroupChange::Create(self.random_group()),
            2..4 => GroupChange::Update {
                any: self.random.percent_chance(50),
                visibility: tools::random_visibility(&mut self.random),
            },
            4..6 => GroupChange::ReplaceSelectors(groups::random_selectors(&mut self.random)),
            6..8 => GroupChange::AddTools(self.some_tool_ids(30)),
            8 => GroupChange::RemoveTools(self.some_tool_ids(50)),
            9 => GroupChange::ReplaceTools(self.some_tool_ids(40)),
            10..12 => GroupChange::ExcludeTools(self.some_tool_ids(40)),
            12 => GroupChange::IncludeTools(self.some_tool_ids(60)),
            13 => GroupChange::Activate,
            14 => GroupChange::Deactivate,
            _ => GroupChange::Delete,
        };
        WorldChange::Group(id, wish)
    }

    fn policy_change(&mut self) -> WorldChange {
        let id = self.random.one_of(self.world.policies.keys().cloned());
        let id = if self.random.percent_chance(70) { id } else { None };
        let id = id.unwrap_or_else(|| self.random.pick_from(&POLICIES).to_owned());
        let wish = match (self.world.policies.contains_key(&id), self.random.below(7)) {
            (false, 0..6) => PolicyChange::Define(self.random_rules()),
            (_, 0..3) => PolicyChange::Update(self.random_rules()),
            (_, 3) => PolicyChange::Activate,
            (_, 4) => PolicyChange::Deactivate,
            _ => PolicyChange::Delete,
        };
        WorldChange::Policy(id, wish)
    }
}
