//! Findings about a tool: from the inspection of its texts at discovery, and from its name compared to other tools.
//!
//! Duplicate names are checked on each request and not stored, so no finding is stale after the other tool is gone.
//! They do not quarantine a tool, because each agent sees unique names (requirement A5).

use catalog::Snapshot;
use catalog::tool::Tool;
use model::{Finding, McpPrimitive, Severity};

use crate::meta_tool::MetaTool;

/// All findings about the latest version of a tool, most severe first.
pub fn tool_findings(snapshot: &Snapshot, tool: &Tool) -> Vec<Finding> {
    let mut all = tool.findings.clone();
    all.extend(find_shadowed_name(snapshot, tool));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// A finding if an older tool or a meta tool has the same name.
fn find_shadowed_name(snapshot: &Snapshot, tool: &Tool) -> Option<Finding> {
    let is_tool = |tool: &Tool| tool.current_manifest().execution.primitive() == McpPrimitive::Tool;
    let name = tool.name();
    if !is_tool(tool) {
        return None;
    }
    let finding = |severity, what: String| {
        let (check, at) = ("name.shadows".into(), "/name".into());
        Some(Finding { check, severity, at, offset: 0, what: what.into() })
    };
    if MetaTool::find_by_name(name).is_some() {
        let what = "is called like a tool of toolcrib itself: agents see it under a longer name";
        return finding(Severity::Warning, what.to_owned());
    }
    let came_before = |other: &Tool| (other.created_at, &other.id) < (tool.created_at, &tool.id);
    let other = snapshot.tools_named(name).map(|entry| &entry.tool).find(|other| {
        other.source != tool.source && other.name() == name && is_tool(other) && came_before(other)
    })?;
    let source = &other.source;
    let what = format!(
        "source `{source}` had a tool of this name before: an agent of both sees longer names"
    );
    finding(Severity::Note, what)
}
