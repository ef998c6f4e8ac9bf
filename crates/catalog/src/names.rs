//! Names agents may use: a clash between sources is told apart by the source (requirement A5).
//!
//! A tool has three forms of its name: plain (`search`), qualified (`github__search`), and one that no other tool has
//! (`github__search_1f2e3d4c`), for the case that an admin gave two tools of one source the same name. Which of them
//! an agent is shown depends on what else it was granted, and on nothing else.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::tool::Tool;
use crate::tool_set::Slot;

/// The longest name most clients take.
pub const NAME_LIMIT: usize = 64;
/// What is left of a longer one before its suffix: `_` and eight hexadecimal digits.
const CUT: usize = NAME_LIMIT - 9;
const DRAWERS: usize = 512;

impl Tool {
    /// `github__search`; a longer one is cut and gets a suffix of its own.
    pub fn qualified_name(&self) -> String {
        let whole = format!("{}__{}", self.source, self.name());
        match whole.chars().count() <= NAME_LIMIT {
            true => whole,
            false => self.suffixed(&whole),
        }
    }

    /// `github__search_1f2e3d4c`: nobody else has this one.
    pub fn unique_name(&self) -> String {
        self.suffixed(&format!("{}__{}", self.source, self.name()))
    }

    fn suffixed(&self, name: &str) -> String {
        let digest = Sha256::digest(self.id.as_str());
        let cut: String = name.chars().take(CUT).collect();
        format!("{cut}_{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
    }

    /// Whether this is one of its forms.
    pub fn is_called(&self, text: &str) -> bool {
        text == self.name() || text == self.qualified_name() || text == self.unique_name()
    }

    fn forms(&self) -> [String; 3] {
        [self.name().to_owned(), self.qualified_name(), self.unique_name()]
    }
}

/// Finds tools by any form of their names; cheap to clone. Only hashes are kept: whoever finds a tool compares.
#[derive(Clone)]
pub(crate) struct Names {
    drawers: Vec<Arc<HashMap<u64, Slots>>>,
    hasher: RandomState,
}

/// Nearly always one.
#[derive(Clone)]
enum Slots {
    One(Slot),
    Many(Box<[Slot]>),
}

impl Slots {
    fn as_slice(&self) -> &[Slot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
        }
    }

    fn of(slots: Vec<Slot>) -> Option<Self> {
        match slots[..] {
            [] => None,
            [slot] => Some(Self::One(slot)),
            [..] => Some(Self::Many(slots.into())),
        }
    }
}

impl Default for Names {
    fn default() -> Self {
        Self { drawers: vec![Arc::default(); DRAWERS], hasher: RandomState::new() }
    }
}

impl Names {
    fn place(&self, form: &str) -> (usize, u64) {
        let hash = self.hasher.hash_one(form);
        // The remainder is below DRAWERS, so the cast loses nothing.
        ((hash % DRAWERS as u64) as usize, hash)
    }

    /// The slots of tools that may be called so.
    pub(crate) fn find(&self, text: &str) -> &[Slot] {
        let (drawer, hash) = self.place(text);
        self.drawers[drawer].get(&hash).map_or(&[], Slots::as_slice)
    }

    pub(crate) fn add(&mut self, slot: Slot, tool: &Tool) {
        for form in tool.forms() {
            self.change(&form, |slots| {
                if !slots.contains(&slot) {
                    slots.push(slot);
                }
            });
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot, tool: &Tool) {
        for form in tool.forms() {
            self.change(&form, |slots| slots.retain(|other| *other != slot));
        }
    }

    fn change(&mut self, form: &str, change: impl FnOnce(&mut Vec<Slot>)) {
        let (drawer, hash) = self.place(form);
        let drawer = Arc::make_mut(&mut self.drawers[drawer]);
        let mut slots = drawer.remove(&hash).map_or_else(Vec::new, |old| old.as_slice().to_vec());
        change(&mut slots);
        drawer.extend(Slots::of(slots).map(|slots| (hash, slots)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tool_called;

    #[test]
    fn a_name_that_would_be_too_long_is_cut_and_gets_a_suffix_of_its_own() {
        let short = tool_called("github:search", "search");
        assert_eq!(short.qualified_name(), "github__search");
        assert!(short.unique_name().starts_with("github__search_"));
        let fits = tool_called("github:a", &"a".repeat(64 - "github__".len()));
        assert_eq!(fits.qualified_name().len(), 64);
        assert!(fits.qualified_name().ends_with('a'));
        let [one, two] = ["github:a", "github:b"].map(|id| tool_called(id, &"a".repeat(64)));
        assert_eq!(one.qualified_name().len(), 64);
        assert_ne!(one.qualified_name(), two.qualified_name());
    }

    #[test]
    fn tools_are_found_by_each_form_until_they_are_gone() {
        let mut names = Names::default();
        let [one, two] = ["github:a", "gitlab:a"].map(|id| tool_called(id, "search"));
        names.add(1, &one);
        names.add(2, &two);
        assert_eq!(names.find("search"), [1, 2]);
        assert_eq!(names.find("github__search"), [1]);
        assert_eq!(names.find(&two.unique_name()), [2]);
        let before = names.clone();
        names.remove(1, &one);
        assert_eq!((names.find("search"), names.find("github__search")), (&[2][..], &[][..]));
        assert_eq!(before.find("search"), [1, 2]);
    }
}
