//! The possible names of a snapshot's tools, computed once for all agents: the size of each form of a name, and which
//! other tools conflict with it. Choosing the form for an agent is then a bit test. The result equals
//! [`Toolset::name_for_agent`](crate::Toolset); a test compares the two.

use std::cell::OnceCell;

use catalog::tool_set::{Slot, ToolSet};
use catalog::{CataloguedTool, Snapshot};
use serde_json::json;

use crate::meta_tool::MetaTool;

/// The tools of a snapshot, computed when first requested.
pub(super) struct SnapshotNameForms<'a> {
    snapshot: &'a Snapshot,
    /// Indexed by slot.
    known: Vec<OnceCell<ToolNameForms>>,
    /// The rank of each tool in the order of ids, indexed by slot.
    ranks: Vec<usize>,
}

/// The size of a tool in lists, and its possible names.
pub(super) struct ToolNameForms {
    /// Its size in bytes, without its name.
    bytes: usize,
    /// The plain form, then the qualified one.
    forms: [NameForm; 2],
    /// The fallback form, which is unique in the snapshot.
    unique_form: Box<str>,
}

struct NameForm {
    text: Box<str>,
    is_allowed: bool,
    /// The other tools with the same form.
    others: Box<[Slot]>,
}

impl NameForm {
    fn new_form(snapshot: &Snapshot, slot: Slot, text: String) -> Self {
        let others = snapshot.tools_named(&text).map(|entry| entry.slot);
        let others = others.filter(|other| *other != slot).collect();
        let is_good = model::is_fully_visible(&text) && MetaTool::find_by_name(&text).is_none();
        Self { text: text.into(), is_allowed: is_good, others }
    }

    fn is_free(&self, all: &ToolSet) -> bool {
        self.is_allowed && !self.others.iter().any(|other| all.contains(*other))
    }
}

impl ToolNameForms {
    fn from_entry(snapshot: &Snapshot, entry: &CataloguedTool) -> Self {
        let forms = [entry.tool.name().to_owned(), entry.tool.qualified_name()];
        let forms = forms.map(|text| NameForm::new_form(snapshot, entry.slot, text));
        Self {
            bytes: listed_tool_bytes(entry),
            forms,
            unique_form: entry.tool.unique_name().into(),
        }
    }

    /// The tool's name for an agent with these tools.
    pub(super) fn name_among(&self, all: &ToolSet) -> &str {
        let free = self.forms.iter().find(|form| form.is_free(all));
        free.map_or(&*self.unique_form, |form| &*form.text)
    }
}

impl<'a> SnapshotNameForms<'a> {
    pub(super) fn from_snapshot(snapshot: &'a Snapshot) -> Self {
        let mut order: Vec<&CataloguedTool> = snapshot.tools().map(AsRef::as_ref).collect();
        order.sort_unstable_by(|one, two| one.tool.id.cmp(&two.tool.id));
        let places = order.iter().map(|entry| entry.slot as usize + 1).max().unwrap_or_default();
        let mut ranks = vec![usize::MAX; places];
        for (rank, entry) in order.iter().enumerate() {
            ranks[entry.slot as usize] = rank;
        }
        Self {
            snapshot,
            known: std::iter::repeat_with(OnceCell::new).take(places).collect(),
            ranks,
        }
    }

    pub(super) fn id_rank(&self, slot: Slot) -> usize {
        self.ranks.get(slot as usize).copied().unwrap_or(usize::MAX)
    }

    pub(super) fn tool_forms(&self, slot: Slot) -> Option<&ToolNameForms> {
        let known = self.known.get(slot as usize)?;
        if known.get().is_none() {
            drop(known.set(ToolNameForms::from_entry(self.snapshot, self.snapshot.tool_at(slot)?)));
        }
        known.get()
    }

    /// The size in bytes of a list of the `listed` tools, for an agent that has `all`.
    pub(super) fn list_bytes(&self, listed: &ToolSet, all: &ToolSet) -> usize {
        let mut bytes = 0;
        for slot in listed.iter() {
            if let Some(known) = self.tool_forms(slot) {
                bytes += known.bytes + known.name_among(all).len();
            }
        }
        bytes
    }
}

fn listed_tool_bytes(entry: &CataloguedTool) -> usize {
    let schema = entry.input_schema.as_ref().map(model::Schema::to_served);
    let shown = json!({"name": "", "description": entry.tool.description(), "inputSchema": schema});
    shown.to_string().len() + 1
}
