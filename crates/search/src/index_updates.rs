//! Updates an index from a catalog: only tools that differ between two snapshots are indexed again.
//!
//! This is separate from the fold: indexing a tool takes longer than folding it, and neither a start nor a refresh
//! should wait for it.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::snapshot::Snapshot;
use catalog::tool_set::{Slot, ToolSet};
use catalog::tool_table::CataloguedTool;
use model::{SourceId, sanitize_description, sanitize_text};

use super::{SearchDocument, SearchField, SearchIndex};

/// Upper bound for the text of a tool that an embedding model gets, in bytes: most models read no more, and an endpoint
/// may reject longer texts.
const EMBEDDING_TEXT_BYTES: usize = 1_024;

/// The slots whose searchable texts differ between two snapshots. Shared parts are not compared, so finding one changed
/// tool among 100,000 takes microseconds.
pub fn changed_tools(before: &Snapshot, after: &Snapshot) -> ToolSet {
    let mut differing = ToolSet::default();
    for slot in before.tools.changed_slots(&after.tools) {
        let both = (before.tool_at(slot), after.tool_at(slot));
        let is_same = matches!(both, (Some(one), Some(two)) if have_same_texts(one, two));
        differing.set_member(slot, !is_same);
    }
    for source in tools_of_renamed_sources(before, after) {
        differing = differing.union(&source);
    }
    differing
}

/// The tools of sources whose name changed, because the name of its source is a searchable text of a tool.
fn tools_of_renamed_sources(before: &Snapshot, after: &Snapshot) -> Vec<ToolSet> {
    if Arc::ptr_eq(&before.sources, &after.sources) {
        return Vec::new();
    }
    let has_other_name = |id: &SourceId, name: &str| {
        before.source(id).is_some_and(|source| source.source.profile.name.as_str() != name)
    };
    let sources = after.sources.iter().filter(|(id, entry)| {
        let is_shared = before.source(id).is_some_and(|other| Arc::ptr_eq(other, entry));
        !is_shared && has_other_name(id, entry.source.profile.name.as_str())
    });
    sources.map(|(_, entry)| entry.tools.clone()).collect()
}

/// True if both tools have the same searchable texts. Unless a refresh found a new version, they share their manifest.
fn have_same_texts(one: &CataloguedTool, two: &CataloguedTool) -> bool {
    let (a, b) = (&one.tool, &two.tool);
    let (manifest, other) = (a.current_manifest(), b.current_manifest());
    a.id == b.id
        && a.name() == b.name()
        && a.description() == b.description()
        && a.labels == b.labels
        && one.input_schema.is_some() == two.input_schema.is_some()
        && (Arc::ptr_eq(manifest, other) || manifest == other)
}

impl SearchIndex {
    /// Updates these slots to the tools of a snapshot.
    pub fn update_slots(&mut self, slots: impl IntoIterator<Item = Slot>, snapshot: &Snapshot) {
        let (there, gone): (Vec<Slot>, Vec<Slot>) =
            slots.into_iter().partition(|slot| snapshot.tool_at(*slot).is_some());
        gone.into_iter().for_each(|slot| self.remove_tool(slot));
        let there = there.into_iter().filter_map(|slot| Some((slot, snapshot.tool_at(slot)?)));
        self.put_tools(
            there.map(|(slot, entry)| (slot, Cow::Owned(build_document(snapshot, entry)))),
        );
    }
}

/// Size of the searchable texts of some tools, in bytes.
pub fn search_text_bytes(snapshot: &Snapshot, slots: &ToolSet) -> usize {
    let entries = slots.iter().filter_map(|slot| snapshot.tool_at(slot));
    entries.map(|entry| build_document(snapshot, entry).text_bytes()).sum()
}

/// The text of a tool for an embedding model: the words of its name, its source and its description.
pub fn embedding_text(snapshot: &Snapshot, entry: &CataloguedTool) -> String {
    let tool = &entry.tool;
    let title = tool.current_manifest().title.as_deref().map(sanitize_text);
    let name = tool.overridden.name.as_deref().or(title.as_deref()).unwrap_or(tool.name());
    let source = snapshot.source(&tool.source).map_or("", |it| it.source.profile.name.as_str());
    embedding_text_from(name, source, &sanitize_description(tool.description()))
}

/// The text for an embedding model of a tool that is not in a catalog.
pub fn embedding_text_from(name: &str, source: &str, description: &str) -> String {
    let mut text = String::new();
    for part in name.split(['_', '-', '.', '/']).filter(|part| !part.is_empty()) {
        text.push_str(part);
        text.push(' ');
    }
    text.push_str(&format!("({source}): "));
    text.push_str(description);
    text.truncate(text.floor_char_boundary(EMBEDDING_TEXT_BYTES));
    text
}

/// The searchable texts of a tool: the ones that agents see, and the name of its source.
fn build_document(snapshot: &Snapshot, entry: &CataloguedTool) -> SearchDocument {
    let (tool, manifest) = (&entry.tool, entry.tool.current_manifest());
    let mut document = SearchDocument::new(tool.id.as_str(), tool.name());
    document.add_text(
        SearchField::Title,
        &sanitize_text(manifest.title.as_deref().unwrap_or_default()),
    );
    document.add_text(SearchField::Source, tool.source.as_str());
    let source = snapshot.source(&tool.source).map(|source| &source.source.profile.name);
    source.iter().for_each(|name| document.add_text(SearchField::Source, name.as_str()));
    document.add_text(SearchField::Description, &sanitize_description(tool.description()));
    manifest.tags.iter().for_each(|tag| document.add_keyword(&sanitize_text(tag)));
    tool.labels.iter().for_each(|label| document.add_keyword(label.as_str()));
    let execution = &manifest.execution;
    if let Some(address) = execution.resource_uri().or_else(|| execution.resource_template()) {
        document.add_text(SearchField::Keyword, &sanitize_text(address));
    }
    if let Some(schema) = &entry.input_schema {
        document.add_parameters(&schema.root_value());
    }
    document
}
