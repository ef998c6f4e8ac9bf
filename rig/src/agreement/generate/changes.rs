//! Generates one more change to an existing world: any kind, sometimes one that reverts an earlier one.

use std::collections::BTreeMap;

use super::{LABELS, Making, POLICIES, SOURCES, groups, tools};
use crate::agreement::world::{
    GroupWish, LabelWish, Manifest, PolicyWish, SourceWish, ToolWish, Wish,
};

impl Making {
    pub(super) fn change(&mut self) {
        let wish = match self.random.below(20) {
            0 => self.label_change(),
            1..5 => self.source_change(),
            5..10 => self.tool_change(),
            10..16 => self.group_change(),
            _ => self.policy_change(),
        };
        self.wish(wish);
    }

    fn label_change(&mut self) -> Wish {
        let id = self.random.pick(&LABELS).to_owned();
        let wish = match (self.world.labels.contains(&id), self.random.below(4)) {
            (_, 0) => LabelWish::Rename("other".to_owned()),
            (true, _) => LabelWish::Delete,
            (false, _) => LabelWish::Create,
        };
        Wish::Label(id, wish)
    }

    fn source_change(&mut self) -> Wish {
        let id = self.random.one_of(self.world.sources.keys().cloned());
        let id = id.unwrap_or_else(|| self.random.pick(&SOURCES).to_owned());
        let wish = match self.random.below(12) {
            0 => SourceWish::Register(tools::profile(&mut self.random)),
            1..3 => SourceWish::Update(tools::profile(&mut self.random)),
            3 => SourceWish::Enable,
            4 => SourceWish::Disable,
            5 => SourceWish::Remove,
            _ => self.ingesting(&id),
        };
        // A missing source is often registered again; every other change to it is refused.
        if !self.world.sources.contains_key(&id) && self.random.percent(70) {
            return Wish::Source(id, SourceWish::Register(tools::profile(&mut self.random)));
        }
        Wish::Source(id, wish)
    }

    /// Ingests the same inventory again, a slightly changed one, or a new one.
    fn ingesting(&mut self, id: &str) -> SourceWish {
        let known = self.world.sources.get(id).and_then(|source| source.inventory.clone());
        let mut tools = match known {
            Some(known) if self.random.percent(80) => known,
            _ => tools::inventory(&mut self.random, id, self.world.tools.len()),
        };
        if self.random.percent(80) {
            self.alter(id, &mut tools);
        }
        SourceWish::Ingest { tools, force: self.random.percent(40) }
    }

    fn alter(&mut self, id: &str, tools: &mut BTreeMap<String, Manifest>) {
        let key = self.random.pick(&super::KEYS).to_owned();
        match (tools.get_mut(&key), self.random.below(3)) {
            (Some(manifest), 0) => manifest.edition += 1,
            (Some(_), 1) => drop(tools.remove(&key)),
            _ => drop(tools.insert(key, tools::manifest(&mut self.random, id))),
        }
    }

    fn tool_change(&mut self) -> Wish {
        let id = self.tool_id();
        let wish = match self.random.below(14) {
            0..2 => ToolWish::Enable,
            2..4 => ToolWish::Disable,
            4..7 => tools::overriding(&mut self.random),
            7..10 => ToolWish::Label(self.some_labels()),
            10..12 => ToolWish::Approve,
            12 => ToolWish::Reject,
            _ => ToolWish::Remove,
        };
        Wish::Tool(id, wish)
    }

    fn group_change(&mut self) -> Wish {
        let id = self.group_id();
        let wish = match self.random.below(16) {
            0..2 => GroupWish::Create(self.group()),
            2..4 => GroupWish::Update {
                any: self.random.percent(50),
                visibility: tools::visibility(&mut self.random),
            },
            4..6 => GroupWish::ReplaceSelectors(groups::selectors(&mut self.random)),
            6..8 => GroupWish::AddTools(self.some_tool_ids(30)),
            8 => GroupWish::RemoveTools(self.some_tool_ids(50)),
            9 => GroupWish::ReplaceTools(self.some_tool_ids(40)),
            10..12 => GroupWish::ExcludeTools(self.some_tool_ids(40)),
            12 => GroupWish::IncludeTools(self.some_tool_ids(60)),
            13 => GroupWish::Activate,
            14 => GroupWish::Deactivate,
            _ => GroupWish::Delete,
        };
        Wish::Group(id, wish)
    }

    fn policy_change(&mut self) -> Wish {
        let id = self.random.one_of(self.world.policies.keys().cloned());
        let id = if self.random.percent(70) { id } else { None };
        let id = id.unwrap_or_else(|| self.random.pick(&POLICIES).to_owned());
        let wish = match (self.world.policies.contains_key(&id), self.random.below(7)) {
            (false, 0..6) => PolicyWish::Define(self.rules()),
            (_, 0..3) => PolicyWish::Update(self.rules()),
            (_, 3) => PolicyWish::Activate,
            (_, 4) => PolicyWish::Deactivate,
            _ => PolicyWish::Delete,
        };
        Wish::Policy(id, wish)
    }
}
