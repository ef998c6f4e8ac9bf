//! Compares an agent's tool list with that of an earlier view.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::tool_set::{Slot, ToolSet};

use super::{AgentView, ViewedTool};
use crate::viewed_tool::ToolOrigin;

/// A change of an agent's tool list.
pub enum ListChange {
    /// The tool is new.
    Added(ViewedTool),
    /// The tool was listed before and may differ now.
    Updated {
        /// The earlier state.
        before: ViewedTool,
        /// The current state.
        now: ViewedTool,
    },
    /// The tool is gone.
    Removed(ViewedTool),
}

impl AgentView {
    /// Whether the list is certainly unchanged since an earlier view. Cheap; `false` proves nothing.
    pub fn has_same_list(&self, before: &Self) -> bool {
        match (&self.pinned_tools, &before.pinned_tools) {
            (None, None) => self.has_same_tools(before),
            (Some(now), Some(then)) if now.is_empty() && then.is_empty() => true,
            (Some(now), Some(then)) => now.serial() == then.serial() && self.has_same_tools(before),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether the tools, listed or searchable, are certainly unchanged since an earlier view.
    pub fn has_same_tools(&self, before: &Self) -> bool {
        let no_others = self.own_providers.is_empty() && before.own_providers.is_empty();
        no_others
            && self.is_narrowed == before.is_narrowed
            && Arc::ptr_eq(&self.provided, &before.provided)
            && (Arc::ptr_eq(&self.toolset, &before.toolset) || self.has_same_entries(before))
    }

    fn has_same_entries(&self, before: &Self) -> bool {
        let same =
            |one: &ToolSet, two: &ToolSet| one.len() == two.len() && one.iter().eq(two.iter());
        let (now, then) = (&self.toolset, &before.toolset);
        // Compare all tools and not only the listed ones: a listed name must be unique among all of them.
        same(now.tools(), then.tools())
            && same(now.listed(), then.listed())
            && same(now.searchable(), then.searchable())
            && now.tools().iter().all(|slot| self.has_same_entry(before, slot))
    }

    /// Whether the catalog's prompts and resources are certainly unchanged since an earlier view.
    pub fn has_same_offers(&self, before: &Self) -> bool {
        let (now, then) = (&self.toolset, &before.toolset);
        Arc::ptr_eq(now, then)
            || now.prompts_and_resources().len() == then.prompts_and_resources().len()
                && now.prompts_and_resources().iter().eq(then.prompts_and_resources().iter())
                && now.prompts_and_resources().iter().all(|slot| self.has_same_entry(before, slot))
    }

    fn has_same_entry(&self, before: &Self, slot: Slot) -> bool {
        match (self.snapshot.tool_at(slot), before.snapshot.tool_at(slot)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (one, two) => one.is_none() && two.is_none(),
        }
    }

    /// The changes of the list since an earlier view, removed tools first.
    pub fn changes_since(&self, before: &Self) -> Vec<ListChange> {
        if self.has_same_list(before) {
            return Vec::new();
        }
        let key = |tool: &ViewedTool| match tool.id() {
            Some(id) => (true, id.to_string()),
            None => (false, tool.name().to_owned()),
        };
        let then = before.list();
        let mut then: HashMap<_, _> = then.into_iter().map(|tool| (key(&tool), tool)).collect();
        let mut others = Vec::new();
        for now in self.list() {
            match then.remove(&key(&now)) {
                None => others.push(ListChange::Added(now)),
                Some(before) if before.is_same_tool(&now) => {}
                Some(before) => others.push(ListChange::Updated { before, now }),
            }
        }
        let mut gone: Vec<_> = then.into_iter().collect();
        gone.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        gone.into_iter().map(|(_, tool)| ListChange::Removed(tool)).chain(others).collect()
    }
}

impl ViewedTool {
    fn is_same_tool(&self, other: &Self) -> bool {
        let same = match (&self.origin, &other.origin) {
            (ToolOrigin::Catalog(one), ToolOrigin::Catalog(two)) => Arc::ptr_eq(one, two),
            (ToolOrigin::Provider(one, _), ToolOrigin::Provider(two, _)) => {
                Arc::ptr_eq(one, two) || one == two
            }
            (ToolOrigin::Meta(one), ToolOrigin::Meta(two)) => one == two,
            (ToolOrigin::Catalog(_) | ToolOrigin::Provider(..) | ToolOrigin::Meta(_), _) => false,
        };
        same && self.name() == other.name()
    }
}
