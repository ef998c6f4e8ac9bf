//! An index follows a catalog: what differs between two snapshots is put in anew, and nothing else is looked at.
//!
//! It stands beside the fold and not in it: a tool takes longer to index than to fold, and nobody who starts or refreshes
//! waits for that.

use std::borrow::Cow;
use std::sync::Arc;

use model::{SourceId, shown_description, shown_text};

use super::{Document, Field, SearchIndex};
use crate::snapshot::Snapshot;
use crate::tool_set::{Slot, ToolSet};
use crate::tool_table::CataloguedTool;

/// How much of a tool a model is given, in bytes: most read no more, and an endpoint may refuse what it does not read.
const LONGEST_FOR_MEANING: usize = 1_024;

/// The slots whose tools are found by other words in one snapshot than in the other. What both share is not compared, so
/// one changed tool among 100,000 takes microseconds to find.
pub fn differing(before: &Snapshot, after: &Snapshot) -> ToolSet {
    let mut differing = ToolSet::default();
    for slot in before.tools.differing(&after.tools) {
        let both = (before.tool_at(slot), after.tool_at(slot));
        let is_same = matches!(both, (Some(one), Some(two)) if read_alike(one, two));
        differing.set(slot, !is_same);
    }
    for source in renamed(before, after) {
        differing = differing.union(&source);
    }
    differing
}

/// The tools of sources that go by another name; tools are found by it.
fn renamed(before: &Snapshot, after: &Snapshot) -> Vec<ToolSet> {
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

/// Whether both are found by the same words. The manifest is the same if nothing new was seen at the source.
fn read_alike(one: &CataloguedTool, two: &CataloguedTool) -> bool {
    let (a, b) = (&one.tool, &two.tool);
    let (manifest, other) = (a.shown_manifest(), b.shown_manifest());
    a.id == b.id
        && a.name() == b.name()
        && a.description() == b.description()
        && a.labels == b.labels
        && one.input_schema.is_some() == two.input_schema.is_some()
        && (Arc::ptr_eq(manifest, other) || manifest == other)
}

impl SearchIndex {
    /// Has at these slots what a snapshot has there.
    pub fn follow(&mut self, slots: impl IntoIterator<Item = Slot>, snapshot: &Snapshot) {
        let (there, gone): (Vec<Slot>, Vec<Slot>) =
            slots.into_iter().partition(|slot| snapshot.tool_at(*slot).is_some());
        gone.into_iter().for_each(|slot| self.remove(slot));
        let there = there.into_iter().filter_map(|slot| Some((slot, snapshot.tool_at(slot)?)));
        self.put_all(there.map(|(slot, entry)| (slot, Cow::Owned(document(snapshot, entry)))));
    }
}

/// How much text some tools are found by, in bytes.
pub fn text_length(snapshot: &Snapshot, slots: &ToolSet) -> usize {
    let entries = slots.iter().filter_map(|slot| snapshot.tool_at(slot));
    entries.map(|entry| document(snapshot, entry).length()).sum()
}

/// What a tool says of itself, as one text for a model: the words of its name, whose it is, and what it does.
pub fn text_for_meaning(snapshot: &Snapshot, entry: &CataloguedTool) -> String {
    let tool = &entry.tool;
    let title = tool.shown_manifest().title.as_deref().map(shown_text);
    let name = tool.overridden.name.as_deref().or(title.as_deref()).unwrap_or(tool.name());
    let source = snapshot.source(&tool.source).map_or("", |it| it.source.profile.name.as_str());
    text_of(name, source, &shown_description(tool.description()))
}

/// The same of a tool that is in no catalog.
pub fn text_of(name: &str, source: &str, description: &str) -> String {
    let mut text = String::new();
    for part in name.split(['_', '-', '.', '/']).filter(|part| !part.is_empty()) {
        text.push_str(part);
        text.push(' ');
    }
    text.push_str(&format!("({source}): "));
    text.push_str(description);
    text.truncate(text.floor_char_boundary(LONGEST_FOR_MEANING));
    text
}

/// The texts that a tool is found by: those that agents see, and the name of its source.
fn document(snapshot: &Snapshot, entry: &CataloguedTool) -> Document {
    let (tool, manifest) = (&entry.tool, entry.tool.shown_manifest());
    let mut document = Document::new(tool.id.as_str(), tool.name());
    document.text(Field::Title, &shown_text(manifest.title.as_deref().unwrap_or_default()));
    document.text(Field::Source, tool.source.as_str());
    let source = snapshot.source(&tool.source).map(|source| &source.source.profile.name);
    source.iter().for_each(|name| document.text(Field::Source, name.as_str()));
    document.text(Field::Description, &shown_description(tool.description()));
    manifest.tags.iter().for_each(|tag| document.keyword(&shown_text(tag)));
    tool.labels.iter().for_each(|label| document.keyword(label.as_str()));
    let execution = &manifest.execution;
    if let Some(address) = execution.resource_uri().or_else(|| execution.resource_template()) {
        document.text(Field::Keyword, &shown_text(address));
    }
    if let Some(schema) = &entry.input_schema {
        document.arguments(&schema.root());
    }
    document
}
