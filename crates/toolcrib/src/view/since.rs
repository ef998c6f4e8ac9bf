//! Compares an agent's tool list with that of an earlier view.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::tool_set::{Slot, ToolSet};

use super::tool::Origin;
use super::{AgentView, ViewedTool};

/// A change of an agent's tool list.
pub enum Changed {
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
    pub fn is_as(&self, before: &Self) -> bool {
        match (&self.by_search, &before.by_search) {
            (None, None) => self.has_the_tools_of(before),
            (Some(now), Some(then)) if now.is_empty() && then.is_empty() => true,
            (Some(now), Some(then)) => {
                now.number() == then.number() && self.has_the_tools_of(before)
            }
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Whether the tools, listed or searchable, are certainly unchanged since an earlier view.
    pub fn has_the_tools_of(&self, before: &Self) -> bool {
        let no_others = self.own_providers.is_empty() && before.own_providers.is_empty();
        no_others
            && self.is_narrowed == before.is_narrowed
            && Arc::ptr_eq(&self.provided, &before.provided)
            && (Arc::ptr_eq(&self.toolset, &before.toolset) || self.has_the_entries_of(before))
    }

    fn has_the_entries_of(&self, before: &Self) -> bool {
        let same =
            |one: &ToolSet, two: &ToolSet| one.len() == two.len() && one.iter().eq(two.iter());
        let (now, then) = (&self.toolset, &before.toolset);
        // Compare all tools and not only the listed ones: a listed name must be unique among all of them.
        same(now.tools(), then.tools())
            && same(now.listed(), then.listed())
            && same(now.searchable(), then.searchable())
            && now.tools().iter().all(|slot| self.has_the_entry_of(before, slot))
    }

    /// Whether the catalog's prompts and resources are certainly unchanged since an earlier view.
    pub fn has_the_offers_of(&self, before: &Self) -> bool {
        let (now, then) = (&self.toolset, &before.toolset);
        Arc::ptr_eq(now, then)
            || now.others().len() == then.others().len()
                && now.others().iter().eq(then.others().iter())
                && now.others().iter().all(|slot| self.has_the_entry_of(before, slot))
    }

    fn has_the_entry_of(&self, before: &Self, slot: Slot) -> bool {
        match (self.snapshot.tool_at(slot), before.snapshot.tool_at(slot)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (one, two) => one.is_none() && two.is_none(),
        }
    }

    /// The changes of the list since an earlier view, removed tools first.
    pub fn since(&self, before: &Self) -> Vec<Changed> {
        if self.is_as(before) {
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
                None => others.push(Changed::Added(now)),
                Some(before) if before.is_same(&now) => {}
                Some(before) => others.push(Changed::Updated { before, now }),
            }
        }
        let mut gone: Vec<_> = then.into_iter().collect();
        gone.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
        gone.into_iter().map(|(_, tool)| Changed::Removed(tool)).chain(others).collect()
    }
}

impl ViewedTool {
    fn is_same(&self, other: &Self) -> bool {
        let same = match (&self.origin, &other.origin) {
            (Origin::Catalog(one), Origin::Catalog(two)) => Arc::ptr_eq(one, two),
            (Origin::Provider(one, _), Origin::Provider(two, _)) => {
                Arc::ptr_eq(one, two) || one == two
            }
            (Origin::Meta(one), Origin::Meta(two)) => one == two,
            (Origin::Catalog(_) | Origin::Provider(..) | Origin::Meta(_), _) => false,
        };
        same && self.name() == other.name()
    }
}
