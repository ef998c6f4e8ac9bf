//! Which tools belong to a group (G1, G2).

use std::collections::BTreeSet;

use super::patterns::matches_pattern;
use crate::agreement::world::{WorldGroup, WorldSelector};

/// The facts of a tool that selectors can match.
pub(super) struct ToolFacts<'a> {
    pub(super) source_id: &'a str,
    pub(super) source_name: &'a str,
    pub(super) name: &'a str,
    pub(super) path: &'a str,
    pub(super) method: &'a str,
    pub(super) tags: &'a BTreeSet<String>,
    pub(super) labels: &'a BTreeSet<String>,
}

/// True if the tool is selected or explicit, and not excluded.
pub(super) fn group_contains(group: &WorldGroup, id: &str, facts: &ToolFacts<'_>) -> bool {
    if group.excluded.contains(id) {
        return false;
    }
    group.tools.contains(id) || is_selected(group, facts)
}

fn is_selected(group: &WorldGroup, facts: &ToolFacts<'_>) -> bool {
    if group.selectors.is_empty() {
        return false;
    }
    let matching =
        group.selectors.iter().filter(|selector| selector_matches(selector, facts)).count();
    if group.any { 0 < matching } else { matching == group.selectors.len() }
}

fn selector_matches(selector: &WorldSelector, facts: &ToolFacts<'_>) -> bool {
    let WorldSelector {
        kind,
        source,
        name,
        path,
        method,
        required_tags,
        excluded_tags,
        required_labels,
    } = selector;
    let fits = |pattern: &Option<String>, text: &str| match pattern {
        Some(pattern) => matches_pattern(pattern, text),
        None => true,
    };
    kind.as_deref().unwrap_or("tool") == "tool"
        && (fits(source, facts.source_id) || fits(source, facts.source_name))
        && fits(name, facts.name)
        && fits(path, facts.path)
        && fits(method, facts.method)
        && required_tags.iter().all(|tag| facts.tags.contains(tag))
        && !excluded_tags.iter().any(|tag| facts.tags.contains(tag))
        && required_labels.iter().all(|label| facts.labels.contains(label))
}
