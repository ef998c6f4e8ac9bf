//! Tool names for agents: a clash between sources is resolved by qualifying the name with the source (requirement A5).
//!
//! A tool has three forms of its name: plain (`search`), qualified (`github__search`) and unique
//! (`github__search_1f2e3d4c`). The unique form is for two tools of one source that an admin gave the same name. Which
//! form an agent sees depends only on the other tools that it was granted.
//!
//! A source or an admin may choose a name that some model APIs reject. All of them accept the unique form.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::tool::Tool;
use crate::tool_set::Slot;

/// The longest name that most clients accept.
pub const NAME_LIMIT: usize = 64;
/// Characters of a long name that remain before its suffix of `_` and eight hexadecimal digits.
const PREFIX_CHARACTERS: usize = NAME_LIMIT - 9;
const BUCKETS: usize = 512;

/// True if every model API accepts the name: 1 to 64 ASCII letters, digits, `_` and `-`, the first a letter or `_`.
pub fn is_portable_name(name: &str) -> bool {
    let is_first = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.len() <= NAME_LIMIT
        && name.as_bytes().first().is_some_and(is_first)
        && name.bytes().all(is_portable_byte)
}

fn is_portable_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Converts any name into a portable one: unsupported characters become `_`, and a hash keeps names unique that would
/// otherwise become equal.
pub fn portable_name(name: &str, id: &str) -> String {
    let digest = Sha256::digest(id);
    let start = if name.starts_with(|c: char| c.is_ascii_digit() || c == '-') { "_" } else { "" };
    let taken = |c: char| u8::try_from(c).ok().filter(|byte| is_portable_byte(*byte));
    let others = name.chars().map(|c| taken(c).map_or('_', char::from));
    let cut: String = start.chars().chain(others).take(PREFIX_CHARACTERS).collect();
    format!("{cut}_{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

impl Tool {
    /// `github__search`; a longer name is cut and gets a unique suffix.
    pub fn qualified_name(&self) -> String {
        let whole = format!("{}__{}", self.source, self.name());
        match whole.chars().count() <= NAME_LIMIT {
            true => whole,
            false => portable_name(&whole, self.id.as_str()),
        }
    }

    /// `github__search_1f2e3d4c`: no other tool has this name, and every model API accepts it.
    pub fn unique_name(&self) -> String {
        portable_name(&format!("{}__{}", self.source, self.name()), self.id.as_str())
    }

    /// True if `text` is one of the three forms of the name.
    pub fn has_name(&self, text: &str) -> bool {
        text == self.name() || text == self.qualified_name() || text == self.unique_name()
    }

    fn name_forms(&self) -> [String; 3] {
        [self.name().to_owned(), self.qualified_name(), self.unique_name()]
    }
}

/// Finds tools by any form of their names; cheap to clone. It stores only hashes: the caller compares the names.
#[derive(Clone)]
pub(crate) struct ToolNameIndex {
    buckets: Vec<Arc<HashMap<u64, SlotList>>>,
    hasher: RandomState,
}

/// The slots of one hash, nearly always one.
#[derive(Clone)]
enum SlotList {
    One(Slot),
    Many(Box<[Slot]>),
}

impl SlotList {
    fn as_slice(&self) -> &[Slot] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Many(slots) => slots,
        }
    }

    fn from_slots(slots: Vec<Slot>) -> Option<Self> {
        match slots[..] {
            [] => None,
            [slot] => Some(Self::One(slot)),
            [..] => Some(Self::Many(slots.into())),
        }
    }
}

impl Default for ToolNameIndex {
    fn default() -> Self {
        Self { buckets: vec![Arc::default(); BUCKETS], hasher: RandomState::new() }
    }
}

impl ToolNameIndex {
    fn bucket_and_hash(&self, form: &str) -> (usize, u64) {
        let hash = self.hasher.hash_one(form);
        // The remainder is below BUCKETS, so the cast loses nothing.
        ((hash % BUCKETS as u64) as usize, hash)
    }

    /// The slots of tools that may have this name.
    pub(crate) fn find_slots(&self, text: &str) -> &[Slot] {
        let (drawer, hash) = self.bucket_and_hash(text);
        self.buckets[drawer].get(&hash).map_or(&[], SlotList::as_slice)
    }

    pub(crate) fn add_tool(&mut self, slot: Slot, tool: &Tool) {
        for form in tool.name_forms() {
            self.update_slots(&form, |slots| {
                if !slots.contains(&slot) {
                    slots.push(slot);
                }
            });
        }
    }

    pub(crate) fn remove_tool(&mut self, slot: Slot, tool: &Tool) {
        for form in tool.name_forms() {
            self.update_slots(&form, |slots| slots.retain(|other| *other != slot));
        }
    }

    fn update_slots(&mut self, form: &str, change: impl FnOnce(&mut Vec<Slot>)) {
        let (drawer, hash) = self.bucket_and_hash(form);
        let drawer = Arc::make_mut(&mut self.buckets[drawer]);
        let mut slots = drawer.remove(&hash).map_or_else(Vec::new, |old| old.as_slice().to_vec());
        change(&mut slots);
        drawer.extend(SlotList::from_slots(slots).map(|slots| (hash, slots)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_events::tool_called;

    #[test]
    fn a_long_name_is_cut_and_gets_a_unique_suffix() {
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
    fn the_unique_form_is_always_a_portable_name() {
        for name in ["", "süß", "a.b/c d", "2fa", "-", "\u{1f355}", "a\nb", &"ü".repeat(70)] {
            assert!(!is_portable_name(name), "{name}");
            for id in ["shop:a", "2shop:a"] {
                let unique = tool_called(id, name).unique_name();
                assert!(is_portable_name(&unique), "{unique}");
            }
        }
        assert_eq!(tool_called("2shop:a", "a b").unique_name(), "_2shop__a_b_5b8b2b8e");
        assert!(is_portable_name("_a-B_9") && is_portable_name(&"a".repeat(64)));
        assert!(!is_portable_name(&"a".repeat(65)));
    }

    #[test]
    fn tools_are_found_by_each_form_until_they_are_removed() {
        let mut names = ToolNameIndex::default();
        let [one, two] = ["github:a", "gitlab:a"].map(|id| tool_called(id, "search"));
        names.add_tool(1, &one);
        names.add_tool(2, &two);
        assert_eq!(names.find_slots("search"), [1, 2]);
        assert_eq!(names.find_slots("github__search"), [1]);
        assert_eq!(names.find_slots(&two.unique_name()), [2]);
        let before = names.clone();
        names.remove_tool(1, &one);
        assert_eq!(
            (names.find_slots("search"), names.find_slots("github__search")),
            (&[2][..], &[][..])
        );
        assert_eq!(before.find_slots("search"), [1, 2]);
    }
}
