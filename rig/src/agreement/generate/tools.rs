//! Generates sources and their tools.

use std::collections::{BTreeMap, BTreeSet};

use super::{KEYS, Making, Random};
use crate::agreement::oracle::unique_name;
use crate::agreement::world::{Manifest, SourceProfile, ToolWish, Visibility, World};

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
const TOOLS: usize = 12;

pub(super) fn profile(random: &mut Random) -> SourceProfile {
    SourceProfile {
        name: random.pick(&SOURCE_NAMES).to_owned(),
        is_reviewed: random.percent(25),
        visibility: random
            .one_of([
                Visibility::Listed,
                Visibility::Listed,
                Visibility::Searchable,
                Visibility::Hidden,
            ])
            .expect("there are some"),
    }
}

pub(super) fn visibility(random: &mut Random) -> Option<Visibility> {
    let all = [Visibility::Listed, Visibility::Searchable, Visibility::Hidden];
    if random.percent(40) { random.one_of(all) } else { None }
}

pub(super) fn inventory(
    random: &mut Random,
    source: &str,
    there_are: usize,
) -> BTreeMap<String, Manifest> {
    let keys = random.some_of(KEYS, 65);
    let keys = keys.into_iter().take(TOOLS.saturating_sub(there_are));
    keys.map(|key| (key.to_owned(), manifest(random, source))).collect()
}

pub(super) fn manifest(random: &mut Random, source: &str) -> Manifest {
    Manifest {
        name: name(random, source),
        method: random.pick(&METHODS).to_owned(),
        path: random.pick(&PATHS).to_owned(),
        tags: random.some_of(TAGS, 35).into_iter().map(str::to_owned).collect(),
        edition: random.below(2),
    }
}

fn name(random: &mut Random, source: &str) -> String {
    match random.below(40) {
        // Near the length at which names are truncated, with a difference only after that point.
        0..4 => {
            let length = 44 + random.below(22);
            format!("{}{}", "n".repeat(length), random.pick(&["a", "b"]))
        }
        // The unique name of another tool.
        4..7 => {
            let id = World::tool_id(source, random.pick(&KEYS));
            unique_name(&id, source, random.pick(&NAMES))
        }
        7 => random.pick(&["é", "ü"]).repeat(10 + random.below(60)),
        _ => random.pick(&NAMES).to_owned(),
    }
}

pub(super) fn overriding(random: &mut Random) -> ToolWish {
    let name = random.percent(60).then(|| name(random, "s"));
    ToolWish::Override { name, visibility: visibility(random) }
}

impl Making {
    pub(super) fn some_labels(&mut self) -> BTreeSet<String> {
        self.random.some_of(self.world.labels.iter().cloned(), 50).into_iter().collect()
    }

    /// Mostly the id of an existing tool.
    pub(super) fn tool_id(&mut self) -> String {
        let there = self.world.tools.keys().cloned();
        let known = if self.random.percent(90) { self.random.one_of(there) } else { None };
        known.unwrap_or_else(|| self.any_tool_id())
    }

    fn any_tool_id(&mut self) -> String {
        World::tool_id(self.random.pick(&super::SOURCES), self.random.pick(&KEYS))
    }

    pub(super) fn some_tool_ids(&mut self, chance: usize) -> BTreeSet<String> {
        let known: Vec<String> = self.world.tools.keys().cloned().collect();
        let mut some: BTreeSet<String> = self.random.some_of(known, chance).into_iter().collect();
        if self.random.percent(15) {
            some.insert(self.any_tool_id());
        }
        some
    }
}
