//! Values that completion proposes for arguments.

use std::collections::BTreeMap;

use crate::provider::Unfinished;

/// Proposed values by argument name.
#[derive(Default)]
pub(super) struct Proposals(BTreeMap<Box<str>, Vec<Box<str>>>);

impl Proposals {
    pub(super) fn put<V: Into<Box<str>>>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) {
        self.0.insert(name.into(), values.into_iter().map(Into::into).collect());
    }

    /// Checks that each entry belongs to a known argument.
    pub(super) fn check(&self, is_known: impl Fn(&str) -> bool) -> Result<(), &'static str> {
        match self.0.keys().all(|name| is_known(name)) {
            true => Ok(()),
            false => Err("it proposes values for something that it does not take"),
        }
    }

    /// The values that start with the typed text.
    pub(super) fn of(&self, unfinished: &Unfinished) -> Vec<String> {
        let values = self.0.get(&unfinished.argument).into_iter().flatten();
        unfinished.among(values.map(|value| &**value))
    }
}
