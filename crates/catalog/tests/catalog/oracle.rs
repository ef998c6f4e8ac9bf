//! A slow reference implementation of group membership, taken literally from requirements G1 and G2.
//!
//! *Enabled tools that match the selectors (none if there are none) ∪ explicit − excluded. Excluded beats explicit,
//! disabled beats every group.* An inactive group has no members.

use std::collections::BTreeSet;

use model::{McpPrimitive, Pattern, Selector, SelectorMode, ToolId};
use toolcrib_catalog::group::Group;
use toolcrib_catalog::tool::{ServedVersion, Tool, ToolStatus};
use toolcrib_catalog::{CataloguedTool, Snapshot};

pub(crate) fn tools_of(snapshot: &Snapshot, group: &Group) -> BTreeSet<ToolId> {
    let mut found = BTreeSet::new();
    if !group.active {
        return found;
    }
    for entry in snapshot.tools() {
        let tool = &entry.tool;
        if is_selected(snapshot, group, tool) || group.tools.contains(&tool.id) {
            found.insert(tool.id.clone());
        }
    }
    found.retain(|id| !group.excluded.contains_key(id));
    found.retain(|id| is_enabled(snapshot, snapshot.tool(id).unwrap()));
    found
}

fn is_enabled(snapshot: &Snapshot, entry: &CataloguedTool) -> bool {
    let tool = &entry.tool;
    let source = snapshot.source(&tool.source);
    tool.enabled
        && tool.status == ToolStatus::Active
        && tool.served != ServedVersion::Nothing
        && source.is_some_and(|source| source.source.enabled)
}

fn is_selected(snapshot: &Snapshot, group: &Group, tool: &Tool) -> bool {
    let matching =
        group.selectors.iter().filter(|selector| matches(snapshot, selector, tool)).count();
    match group.profile.selector_mode {
        SelectorMode::All => 0 < matching && matching == group.selectors.len(),
        SelectorMode::Any => 0 < matching,
    }
}

fn matches(snapshot: &Snapshot, selector: &Selector, tool: &Tool) -> bool {
    let manifest = tool.current_manifest();
    let source = snapshot.source(&tool.source).unwrap();
    let name = source.source.profile.name.as_str();
    let holds = |pattern: &Option<Pattern>, text: &str| {
        pattern.as_ref().is_none_or(|pattern| glob(pattern.as_str(), text))
    };
    let tags: Vec<&str> = manifest.tags.iter().map(|tag| &**tag).collect();
    selector.kind == McpPrimitive::Tool
        && (holds(&selector.source, tool.source.as_str()) || holds(&selector.source, name))
        && holds(&selector.name, tool.name())
        && holds(&selector.path, &manifest.path)
        && holds(&selector.method, &manifest.method)
        && selector.required_tags.iter().all(|tag| tags.contains(&&**tag))
        && selector.excluded_tags.iter().all(|tag| !tags.contains(&&**tag))
        && selector.required_labels.iter().all(|label| tool.labels.contains(label))
}

/// Supports only `*`; the tests of the pattern type cover the rest.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.to_lowercase(), text.to_lowercase());
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter_map(|start| rest.get(start..)).any(|rest| glob(after, rest))
        }),
    }
}

#[test]
fn the_reference_implementation_supports_star_patterns() {
    for (pattern, text) in
        [("*", ""), ("a*", "ABC"), ("*c", "abc"), ("a*b*c", "a-b-b-c"), ("x", "X")]
    {
        assert!(glob(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [("a", "ab"), ("*c", "cb"), ("a*b", "a"), ("", "x")] {
        assert!(!glob(pattern, text), "{pattern} {text}");
    }
}
