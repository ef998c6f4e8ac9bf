//! Generates sources and their tools.

use std::collections::{BTreeMap, BTreeSet};

use super::{CaseBuilder, KEYS, WorldRandom};
use crate::agreement::oracle::unique_name;
use crate::agreement::world::{
    ToolChange, World, WorldManifest, WorldSourceProfile, WorldVisibility,
};

const NAMES: [&str; 16] = [
    "a",
    "a",
    "a",
    "b",
    "ab",
    "A",
    "get_a",
    "get_b",
    "b__a",
    "s__a",
    "shop__a",
    "s__b__a",
    "a.b",
    "tool_search",
    "execute_tool",
    "a b",
];
const PATHS: [&str; 8] = ["/a", "/a/b", "/A/b", "/b/{id}", "/b/id", "/a.b", "/axb", "/"];
const METHODS: [&str; 4] = ["GET", "POST", "DELETE", "get"];
pub(super) const TAGS: [&str; 3] = ["x", "y", "X"];
const SOURCE_NAMES: [&str; 5] = ["Shop One", "B", "s", "Other", "shop"];
/// Maximum number of tools in a world.
const MAX_TOOLS: usize = 12;

pub(super) fn random_profile(random: &mut WorldRandom) -> WorldSourceProfile {
    WorldSourceProfile {
        name: random.pick_from(&SOURCE_NAMES).to_owned(),
        is_reviewed: random.percent_chance(25),
        visibility: random
            .one_of([
                WorldVisibility::Listed,
                WorldVisibility::Listed,
                WorldVisibility::Searchable,
                WorldVisibility::Hidden,
            ])
            .expect("there are some"),
    }
}

pub(super) fn random_visibility(random: &mut WorldRandom) -> Option<WorldVisibility> {
    let all = [WorldVisibility::Listed, WorldVisibility::Searchable, WorldVisibility::Hidden];
    if random.percent_chance(40) { random.one_of(all) } else { None }
}

pub(super) fn random_inventory(
    random: &mut WorldRandom,
    source: &str,
    there_are: usize,
) -> BTreeMap<String, WorldManifest> {
    let keys = random.some_of(KEYS, 65);
    let keys = keys.into_iter().take(MAX_TOOLS.saturating_sub(there_are));
    keys.map(|key| (key.to_owned(), random_manifest(random, source))).collect()
}

pub(super) fn random_manifest(random: &mut WorldRandom, source: &str) -> WorldManifest {
    WorldManifest {
        name: random_tool_name(random, source),
        method: random.pick_from(&METHODS).to_owned(),
        path: random.pick_from(&PATHS).to_owned(),
        tags: random.some_of(TAGS, 35).into_iter().map(str::to_owned).collect(),
        edition: random.below(2),
    }
}

fn random_tool_name(random: &mut WorldRandom, source: &str) -> String {
    match random.below(40) {
        // Near the length at which names are truncated, with a difference only after that point.
        0..4 => {
            let length = 44 + random.below(22);
            format!("{}{}", "n".repeat(length), random.pick_from(&["a", "b"]))
        }
        // The unique name of another tool.
        4..7 => {
            let id = World::tool_id(source, random.pick_from(&KEYS));
            unique_name(&id, source, random.pick_from(&NAMES))
        }
        7 => random.pick_from(&["é", "ü"]).repeat(10 + random.below(60)),
        _ => random.pick_from(&NAMES).to_owned(),
    }
}

pub(super) fn random_override(random: &mut WorldRandom) -> ToolChange {
    let name = random.percent_chance(60).then(|| random_tool_name(random, "s"));
    ToolChange::Override { name, visibility: random_visibility(random) }
}

impl CaseBuilder {
    pub(super) fn some_labels(&mut self) -> BTreeSet<String> {
        self.random.some_of(self.world.labels.iter().cloned(), 50).into_iter().collect()
    }

    /// Mostly the id of an existing tool.
    pub(super) fn likely_tool_id(&mut self) -> String {
        let there = self.world.tools.keys().cloned();
        let known = if self.random.percent_chance(90) { self.random.one_of(there) } else { None };
        known.unwrap_or_else(|| self.any_tool_id())
    }

    fn any_tool_id(&mut self) -> String {
        World::tool_id(self.random.pick_from(&super::SOURCES), self.random.pick_from(&KEYS))
    }

    pub(super) fn some_tool_ids(&mut self, chance: usize) -> BTreeSet<String> {
        let known: Vec<String> = self.world.tools.keys().cloned().collect();
        let mut some: BTreeSet<String> = self.random.some_of(known, chance).into_iter().collect();
        if self.random.percent_chance(15) {
            some.insert(self.any_tool_id());
        }
        some
    }
}
