//! Who may use what: the claims of one agent against all active policies (requirement G3).
//!
//! Any policy that matches grants; nothing takes away. So priority only orders the explanation and never the answer, and
//! one more policy can never leave an agent with less.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::{Claims, GroupId, PolicyId, PolicyRules};

/// The groups an agent has right now, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    by_group: BTreeMap<GroupId, Vec<PolicyId>>,
}

impl Grant {
    /// The granted groups, by id.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &GroupId> {
        self.by_group.keys()
    }

    /// Whether the group is granted.
    pub fn contains(&self, group: &GroupId) -> bool {
        self.by_group.contains_key(group)
    }

    /// The policies that grant a group: highest priority first, then by id. None if it is not granted.
    pub fn policies(&self, group: &GroupId) -> &[PolicyId] {
        self.by_group.get(group).map_or(&[], Vec::as_slice)
    }

    /// Whether nothing is granted. That is an answer, not an error.
    pub fn is_empty(&self) -> bool {
        self.by_group.is_empty()
    }
}

/// What policies grant to an agent with these claims. Each policy is handed in once, and only if it is active.
pub fn resolve<'a>(
    policies: impl Iterator<Item = (&'a PolicyId, &'a PolicyRules)>,
    claims: &Claims,
) -> Grant {
    let mut matching: Vec<_> = policies.filter(|(_, rules)| rules.matches(claims)).collect();
    matching.sort_by_key(|(id, rules)| (Reverse(rules.priority), *id));
    let mut grant = Grant::default();
    for (id, rules) in matching {
        for group in rules.groups() {
            grant.by_group.entry(group.clone()).or_default().push(id.clone());
        }
    }
    grant
}

#[cfg(test)]
mod tests;
