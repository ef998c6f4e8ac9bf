//! Generates groups and their selectors.

use std::collections::BTreeSet;

use super::tools::{TAGS, visibility};
use super::{GROUPS, LABELS, Making, Random};
use crate::agreement::world::{Group, GroupWish, Selector, Wish};

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

pub(super) fn selectors(random: &mut Random) -> Vec<Selector> {
    let count = [0, 1, 1, 1, 2, 2, 3][random.below(7)];
    (0..count).map(|_| selector(random)).collect()
}

fn selector(random: &mut Random) -> Selector {
    let mut part = |chance: usize, patterns: &[&str]| {
        random.percent(chance).then(|| random.pick(patterns).to_owned())
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
    if says_nothing && random.percent(80) {
        name = Some("*".to_owned());
    }
    Selector { kind, source, name, path, method, required_tags, excluded_tags, required_labels }
}

impl Making {
    pub(super) fn groups(&mut self) {
        for id in self.random.some_of(GROUPS, 60) {
            let group = self.group();
            self.wish(Wish::Group(id.to_owned(), GroupWish::Create(group)));
            if self.random.percent(8) {
                self.wish(Wish::Group(id.to_owned(), GroupWish::Deactivate));
            }
        }
    }

    pub(super) fn group(&mut self) -> Group {
        Group {
            is_active: true,
            any: self.random.percent(45),
            visibility: visibility(&mut self.random),
            selectors: selectors(&mut self.random),
            tools: self.some_tool_ids(20),
            excluded: self.some_tool_ids(15),
        }
    }

    /// Mostly the id of an existing group.
    pub(super) fn group_id(&mut self) -> String {
        let there = self.world.groups.keys().cloned();
        let known = if self.random.percent(92) { self.random.one_of(there) } else { None };
        known.unwrap_or_else(|| self.random.pick(&GROUPS).to_owned())
    }
}
