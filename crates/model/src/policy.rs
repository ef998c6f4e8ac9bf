//! A policy: if all its matchers match a caller's claims, it grants its groups and may make the caller an admin.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Claims, DisplayName, GroupId, Matcher};

/// What a policy says. It has at least one matcher, as one without would be for everyone, and grants at least one group
/// or makes admins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "PolicyRulesJson")]
pub struct PolicyRules {
    /// For people.
    pub name: DisplayName,
    /// For people.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Order of evaluation and of explanation, highest first. It never changes what is granted.
    pub priority: u32,
    matchers: Vec<Matcher>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    groups: BTreeSet<GroupId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    admin: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Unchecked")]
struct PolicyRulesJson {
    /// For people.
    name: DisplayName,
    /// For people.
    #[serde(default)]
    description: Box<str>,
    /// Order of evaluation and of explanation, highest first. It never changes what is granted.
    #[serde(default)]
    priority: u32,
    /// All must match. There is at least one: a policy without would be for everyone.
    #[serde(default)]
    #[schemars(length(min = 1))]
    matchers: Vec<Matcher>,
    /// What is granted. There is at least one, unless the policy makes admins.
    #[serde(default)]
    groups: BTreeSet<GroupId>,
    /// Whether it makes an admin of whoever it matches.
    #[serde(default)]
    admin: bool,
}

/// The error for rules that would apply to every caller, or grant nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// Without a matcher, the policy would apply to every caller.
    #[error("`matchers` is empty: a policy without one would be for everyone")]
    NoMatcher,
    /// The policy would grant nothing.
    #[error("`groups` is empty: a policy grants at least one group, or makes admins")]
    NoGroup,
}

impl PolicyRules {
    /// Makes rules; requires at least one matcher and one group.
    pub fn new(
        name: DisplayName,
        matchers: Vec<Matcher>,
        groups: BTreeSet<GroupId>,
    ) -> Result<Self, InvalidPolicy> {
        let (description, priority, admin) = ("".into(), 0, false);
        PolicyRulesJson { name, description, priority, matchers, groups, admin }.try_into()
    }

    /// The matchers; all must match.
    pub fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    /// The granted groups.
    pub fn groups(&self) -> &BTreeSet<GroupId> {
        &self.groups
    }

    /// Whether matching callers become admins.
    pub fn makes_admins(&self) -> bool {
        self.admin
    }

    /// Whether all matchers match these claims.
    pub fn matches(&self, claims: &Claims) -> bool {
        self.matchers.iter().all(|matcher| matcher.matches(claims))
    }
}

impl TryFrom<PolicyRulesJson> for PolicyRules {
    type Error = InvalidPolicy;

    fn try_from(unchecked: PolicyRulesJson) -> Result<Self, InvalidPolicy> {
        let PolicyRulesJson { name, description, priority, matchers, groups, admin } = unchecked;
        if matchers.is_empty() {
            return Err(InvalidPolicy::NoMatcher);
        }
        if groups.is_empty() && !admin {
            return Err(InvalidPolicy::NoGroup);
        }
        Ok(Self { name, description, priority, matchers, groups, admin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_without_matchers_or_groups_is_rejected() {
        let read = |text: &str| {
            serde_json::from_str::<PolicyRules>(text).map_err(|error| error.to_string())
        };
        assert!(read(r#"{"name":"p","groups":["g"]}"#).unwrap_err().contains("everyone"));
        let matcher = r#"[{"claim":"role","operator":"equals","value":"staff"}]"#;
        assert!(
            read(&format!(r#"{{"name":"p","matchers":{matcher}}}"#))
                .unwrap_err()
                .contains("at least one group")
        );
        assert!(read(&format!(r#"{{"name":"p","matchers":{matcher},"groups":["g"]}}"#)).is_ok());
        assert!(read(r#"{"name":"p","admin":true}"#).unwrap_err().contains("everyone"));
        assert!(read(&format!(r#"{{"name":"p","matchers":{matcher},"admin":true}}"#)).is_ok());
    }
}
