//! What was found in a tool: in its texts when it was discovered, and beside all others now.
//!
//! A name that another source has too is looked up whenever it is asked for: nothing about it is kept, so nothing is stale
//! when the other tool goes. It keeps nothing back, because names are told apart for each agent (requirement A5).

use catalog::Snapshot;
use catalog::tool::Tool;
use model::{Finding, Primitive, Severity};

use crate::view::MetaTool;

/// Everything that was found in the version of a tool that was last seen, the worst first.
pub fn findings(snapshot: &Snapshot, tool: &Tool) -> Vec<Finding> {
    let mut all = tool.findings.clone();
    all.extend(shadowed(snapshot, tool));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// Whose name a tool has, if somebody had it before.
fn shadowed(snapshot: &Snapshot, tool: &Tool) -> Option<Finding> {
    let is_tool = |tool: &Tool| tool.shown_manifest().execution.primitive() == Primitive::Tool;
    let name = tool.name();
    if !is_tool(tool) {
        return None;
    }
    let finding = |severity, what: String| {
        let (check, at) = ("name.shadows".into(), "/name".into());
        Some(Finding { check, severity, at, offset: 0, what: what.into() })
    };
    if MetaTool::named(name).is_some() {
        let what = "is called like a tool of toolcrib itself: agents see it under a longer name";
        return finding(Severity::Warning, what.to_owned());
    }
    let came_before = |other: &Tool| (other.created_at, &other.id) < (tool.created_at, &tool.id);
    let other = snapshot.tools_called(name).map(|entry| &entry.tool).find(|other| {
        other.source != tool.source && other.name() == name && is_tool(other) && came_before(other)
    })?;
    let source = &other.source;
    let what = format!(
        "source `{source}` had a tool of this name before: an agent of both sees longer names"
    );
    finding(Severity::Note, what)
}
