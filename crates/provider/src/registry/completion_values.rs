//! Values that completion proposes for arguments.

use std::collections::BTreeMap;

use crate::tool_provider::CompletionRequest;

/// Proposed values by argument name.
#[derive(Default)]
pub(super) struct CompletionValues(BTreeMap<Box<str>, Vec<Box<str>>>);

impl CompletionValues {
    pub(super) fn set_values<V: Into<Box<str>>>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = V>,
    ) {
        self.0.insert(name.into(), values.into_iter().map(Into::into).collect());
    }

    /// Checks that each entry belongs to a known argument.
    pub(super) fn check_names(&self, is_known: impl Fn(&str) -> bool) -> Result<(), &'static str> {
        match self.0.keys().all(|name| is_known(name)) {
            true => Ok(()),
            false => Err("it proposes values for something that it does not take"),
        }
    }

    /// The values that start with the typed text.
    pub(super) fn values_for(&self, unfinished: &CompletionRequest) -> Vec<String> {
        let values = self.0.get(&unfinished.argument).into_iter().flatten();
        unfinished.matching_values(values.map(|value| &**value))
    }
}
