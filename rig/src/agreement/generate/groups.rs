//! Generates groups and their selectors.

use std::collections::BTreeSet;

use super::tools::{TAGS, random_visibility};
use super::{CaseBuilder, GROUPS, LABELS, WorldRandom};
use crate::agreement::world::{GroupChange, WorldChange, WorldGroup, WorldSelector};

const SOURCE_PATTERNS: [&str; 10] =
    ["*", "s", "S", "shop", "Shop*", "{s,b}", "?", "[!s]*", "regex:s|b", "regex:S.*"];
const NAME_PATTERNS: [&str; 36] = [
    "*",
    "*",
    "*",
    "a",
    "a",
    "A",
    "b",
    "a*",
    "a*",
    "A?",
    "?",
    "??",
    "get_*",
    "*a",
    "*_*",
    "[a-b]",
    "[A-B]*",
    "[!a]*",
    "[!A-M]*",
    "[ab]",
    "{a,b}",
    "{a*,get_?}",
    "get_{a,b}",
    "*__a",
    "**",
    "a.b",
    "n*",
    "*_*_*",
    "é*",
    "B__A",
    "regex:a|ab",
    "regex:[a-z]+",
    "regex:A",
    "regex:(?i)A.*",
    "regex:a.b",
    "regex:.*",
];
const PATH_PATTERNS: [&str; 11] = [
    "/*",
    "/a",
    "/a*",
    "/A/B",
    "/b/{id}",
    "/b/{*}",
    "/b/[{]id[}]",
    "/?/*",
    "/a.b",
    "regex:/a/.*",
    "regex:/a.b",
];
const METHOD_PATTERNS: [&str; 7] =
    ["get", "GET", "{get,post}", "*", "p*", "regex:GET", "regex:P.*"];

pub(super) fn random_selectors(random: &mut WorldRandom) -> Vec<WorldSelector> {
    let count = [0, 1, 1, 1, 2, 2, 3][random.below(7)];
    (0..count).map(|_| random_selector(random)).collect()
}

fn random_selector(random: &mut WorldRandom) -> WorldSelector {
    let mut part = |chance: usize, patterns: &[&str]| {
        random.percent_chance(chance).then(|| random.pick_from(patterns).to_owned())
    };
    let kind = part(8, &["tool", "tool", "prompt", "resource"]);
    let source = part(25, &SOURCE_PATTERNS);
    let mut name = part(45, &NAME_PATTERNS);
    let path = part(20, &PATH_PATTERNS);
    let method = part(20, &METHOD_PATTERNS);
    let mut some = |chance: usize, words: [&str; 3]| -> BTreeSet<String> {
        random.some_of(words, chance).into_iter().map(str::to_owned).collect()
    };
    let (required_tags, excluded_tags) = (some(5, TAGS), some(8, TAGS));
    let required_labels = some(6, LABELS);
    let says_nothing = [&source, &name, &path, &method].into_iter().all(Option::is_none)
        && required_tags.len() + excluded_tags.len() + required_labels.len() == 0;
    // Some selectors stay without a condition: both sides must refuse them.
    if says_nothing && random.percent_chance(80) {
        name = Some("*".to_owned());
    }
    WorldSelector {
        kind,
        source,
        name,
        path,
        method,
        required_tags,
        excluded_tags,
        required_labels,
    }
}

impl CaseBuilder {
    pub(super) fn add_groups(&mut self) {
        for id in self.random.some_of(GROUPS, 60) {
            let group = self.random_group();
            self.push_change(WorldChange::Group(id.to_owned(), GroupChange::Create(group)));
            if self.random.percent_chance(8) {
                self.push_change(WorldChange::Group(id.to_owned(), GroupChange::Deactivate));
            }
        }
    }

    pub(super) fn random_group(&mut self) -> WorldGroup {
        WorldGroup {
            is_active: true,
            any: self.random.percent_chance(45),
            visibility: random_visibility(&mut self.random),
            selectors: random_selectors(&mut self.random),
            tools: self.some_tool_ids(20),
            excluded: self.some_tool_ids(15),
        }
    }

    /// Mostly the id of an existing group.
    pub(super) fn likely_group_id(&mut self) -> String {
        let there = self.world.groups.keys().cloned();
        let known = if self.random.percent_chance(92) { self.random.one_of(there) } else { None };
        known.unwrap_or_else(|| self.random.pick_from(&GROUPS).to_owned())
    }
}
