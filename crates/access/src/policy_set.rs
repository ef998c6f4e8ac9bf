//! Evaluates all active policies against the claims of a caller (requirement G3).
//!
//! Policies only grant; none takes away. So the priority only orders the explanation, and adding a policy never
//! reduces a grant.
//!
//! Policies are compiled when they change: each claim path is walked once and each condition evaluated once, no
//! matter how many policies share them. Conditions on a single string are looked up in a hash map, so a token with a
//! thousand roles is not compared with a thousand policies one by one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{ClaimPath, Claims, GroupId, MatchOperator, Matcher, PolicyId, PolicyRules};
use serde_json::Value;

/// All active policies, compiled for evaluation.
#[derive(Debug, Default)]
pub struct PolicySet {
    /// Names of the top-level claims that policies read.
    claim_names: Vec<Box<str>>,
    paths: Vec<PathConditions>,
    conditions: usize,
    policies: Vec<CompiledPolicy>,
    groups: Vec<GroupId>,
}

/// The conditions on one claim path, each with its index among all conditions.
#[derive(Debug)]
struct PathConditions {
    path: ClaimPath,
    /// `equals` conditions on a string.
    equal: HashMap<Box<str>, usize>,
    /// `contains` conditions on a string.
    contained: HashMap<Box<str>, usize>,
    /// All other conditions.
    judged: Vec<(usize, Matcher)>,
}

#[derive(Debug)]
struct CompiledPolicy {
    id: PolicyId,
    conditions: Box<[usize]>,
    groups: Box<[usize]>,
    admin: bool,
}

/// The groups that a caller has right now, and the policies that grant them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The granted groups, by id.
    pub groups: Vec<GroupId>,
    /// The policies that match: highest priority first, then by id.
    pub policies: Vec<PolicyId>,
    /// Whether one of the policies makes the caller an admin.
    pub admin: bool,
}

impl PolicySet {
    /// Compiles policies. Pass each active policy once.
    pub fn compile<'a>(policies: impl Iterator<Item = (&'a PolicyId, &'a PolicyRules)>) -> Self {
        let mut ordered: Vec<_> = policies.collect();
        ordered.sort_by_key(|(id, rules)| (Reverse(rules.priority), *id));
        let granted: BTreeSet<&GroupId> =
            ordered.iter().flat_map(|(_, rules)| rules.groups()).collect();
        let groups: Vec<GroupId> = granted.into_iter().cloned().collect();
        let mut compiled = Self { groups, ..Self::default() };
        let mut known = CompiledIndex::default();
        for (id, rules) in ordered {
            let group = |id| compiled.groups.binary_search(id).expect("all groups were collected");
            let groups = rules.groups().iter().map(group).collect();
            let conditions =
                rules.matchers().iter().map(|matcher| compiled.add_condition(matcher, &mut known));
            let conditions = conditions.collect();
            let (id, admin) = (id.clone(), rules.makes_admins());
            compiled.policies.push(CompiledPolicy { id, conditions, groups, admin });
        }
        let read: BTreeSet<&str> =
            compiled.paths.iter().map(|looked| looked.path.first_segment()).collect();
        compiled.claim_names = read.into_iter().map(Into::into).collect();
        compiled
    }

    /// The index of a condition; equal conditions share one index.
    fn add_condition(&mut self, matcher: &Matcher, known: &mut CompiledIndex) -> usize {
        let text = serde_json::to_string(matcher).expect("a matcher is JSON");
        *known.conditions.entry(text).or_insert_with(|| {
            let path = *known.paths.entry(matcher.claim().to_string()).or_insert_with(|| {
                self.paths.push(PathConditions::new(matcher.claim().clone()));
                self.paths.len() - 1
            });
            self.paths[path].add_condition(self.conditions, matcher);
            self.conditions += 1;
            self.conditions - 1
        })
    }

    /// The grant of a caller with these claims.
    pub fn resolve_grant(&self, claims: &Claims) -> Grant {
        let mut holds = vec![false; self.conditions];
        self.paths.iter().for_each(|looked| looked.mark_satisfied(claims, &mut holds));
        let mut granted = vec![false; self.groups.len()];
        let mut grant = Grant::default();
        // Policies without conditions cannot be constructed; if one existed, it must not apply to every caller.
        let matching = self.policies.iter().filter(|policy| {
            !policy.conditions.is_empty() && policy.conditions.iter().all(|place| holds[*place])
        });
        for policy in matching {
            policy.groups.iter().for_each(|group| granted[*group] = true);
            grant.policies.push(policy.id.clone());
            grant.admin |= policy.admin;
        }
        let groups = self.groups.iter().zip(granted).filter(|(_, granted)| *granted);
        grant.groups = groups.map(|(group, _)| group.clone()).collect();
        grant
    }

    /// A key of everything in the claims that can affect [`resolve_grant`](Self::resolve_grant): equal keys have equal grants.
    pub fn grant_key(&self, claims: &Claims) -> GrantKey {
        GrantKey::from_claims(self.claim_names.iter().map(|name| claims.get(name)))
    }
}

impl PathConditions {
    fn new(path: ClaimPath) -> Self {
        Self { path, equal: HashMap::new(), contained: HashMap::new(), judged: Vec::new() }
    }

    fn add_condition(&mut self, place: usize, matcher: &Matcher) {
        match (matcher.operator(), matcher.operand()) {
            (MatchOperator::Equals, Some(Value::String(text))) => {
                self.equal.insert(text.into(), place);
            }
            (MatchOperator::Contains, Some(Value::String(text))) => {
                self.contained.insert(text.into(), place);
            }
            (_, _) => self.judged.push((place, matcher.clone())),
        }
    }

    /// Marks the satisfied conditions. The lookups agree with [`Matcher::matches_values`].
    fn mark_satisfied(&self, claims: &Claims, holds: &mut [bool]) {
        let found = self.path.find(claims);
        let mut note = |known: &HashMap<Box<str>, usize>, text: &str| {
            if let Some(place) = known.get(text) {
                holds[*place] = true;
            }
        };
        for value in &found {
            match value {
                Value::String(text) => {
                    note(&self.equal, text);
                    text.split(' ').for_each(|word| note(&self.contained, word));
                }
                Value::Array(elements) => {
                    let texts = elements.iter().filter_map(Value::as_str);
                    texts.for_each(|text| note(&self.contained, text));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
            }
        }
        for (place, matcher) in &self.judged {
            holds[*place] = matcher.matches_values(&found);
        }
    }
}

/// Indexes of the paths and conditions that were compiled already, by their text.
#[derive(Default)]
struct CompiledIndex {
    paths: BTreeMap<String, usize>,
    conditions: HashMap<String, usize>,
}

pub use grant_key::GrantKey;

mod grant_key;

#[cfg(test)]
mod tests;
