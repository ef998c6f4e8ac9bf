//! Explains why a tool belongs to a group or not (requirement G7).

use std::borrow::Cow;

use model::{SelectorMode, SelectorTarget, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Group;

/// Whether a tool belongs to a group, and what decided that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Membership")]
pub struct GroupMembership {
    /// Whether it does.
    pub member: bool,
    /// What decided.
    pub decided_by: DecidedBy,
    /// Why it is excluded, in the words of whoever excluded it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Box<str>>,
    /// What each selector says.
    pub selectors: Vec<SelectorVerdict>,
}

/// What decides whether a tool belongs to a group. The first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// It is kept out.
    Exclusion,
    /// It is named.
    ExplicitEntry,
    /// It is selected, or not.
    Selectors,
    /// Nothing speaks for it.
    NoSelectors,
}

/// What one selector says of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelectorVerdict {
    /// Whether every part of it holds.
    pub matches: bool,
    /// The first part that does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<Cow<'static, str>>,
}

impl Group {
    /// Whether a tool belongs to the group, and why. The result always agrees with [`contains_tool`](Self::contains_tool).
    pub fn explain_membership(&self, tool: &ToolId, facts: &SelectorTarget<'_>) -> GroupMembership {
        let verdict = |failing: Option<&'static str>| SelectorVerdict {
            matches: failing.is_none(),
            failing: failing.map(Cow::Borrowed),
        };
        let failing = self.selectors.iter().map(|selector| selector.first_mismatch(facts));
        let selectors: Vec<_> = failing.map(verdict).collect();
        let reason = self.excluded.get(tool).cloned();
        let mut verdicts = selectors.iter().map(|verdict| verdict.matches);
        let (decided_by, member) = if reason.is_some() {
            (DecidedBy::Exclusion, false)
        } else if self.tools.contains(tool) {
            (DecidedBy::ExplicitEntry, true)
        } else if selectors.is_empty() {
            (DecidedBy::NoSelectors, false)
        } else {
            let selected = match self.profile.selector_mode {
                SelectorMode::All => verdicts.all(|matches| matches),
                SelectorMode::Any => verdicts.any(|matches| matches),
            };
            (DecidedBy::Selectors, selected)
        };
        GroupMembership { member, decided_by, reason, selectors }
    }
}
