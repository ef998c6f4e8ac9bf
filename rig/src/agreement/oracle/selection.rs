//! Which tools belong to a group (G1, G2).

use std::collections::BTreeSet;

use super::patterns::is_match;
use crate::agreement::world::{Group, Selector};

/// The facts of a tool that selectors can match.
pub(super) struct Facts<'a> {
    pub(super) source_id: &'a str,
    pub(super) source_name: &'a str,
    pub(super) name: &'a str,
    pub(super) path: &'a str,
    pub(super) method: &'a str,
    pub(super) tags: &'a BTreeSet<String>,
    pub(super) labels: &'a BTreeSet<String>,
}

/// True if the tool is selected or explicit, and not excluded.
pub(super) fn contains(group: &Group, id: &str, facts: &Facts<'_>) -> bool {
    if group.excluded.contains(id) {
        return false;
    }
    group.tools.contains(id) || is_selected(group, facts)
}

fn is_selected(group: &Group, facts: &Facts<'_>) -> bool {
    if group.selectors.is_empty() {
        return false;
    }
    let matching = group.selectors.iter().filter(|selector| selects(selector, facts)).count();
    if group.any { 0 < matching } else { matching == group.selectors.len() }
}

fn selects(selector: &Selector, facts: &Facts<'_>) -> bool {
    let Selector {
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
        Some(pattern) => is_match(pattern, text),
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
