//! Generates policies. Their matchers mostly refer to claims that an agent has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::identities::CLAIM_NAMES;
use super::{CaseBuilder, GROUPS, POLICIES, WorldRandom, identities};
use crate::agreement::oracle::contains_rounded;
use crate::agreement::world::{
    PolicyChange, WorldChange, WorldMatcher, WorldOperator, WorldPolicyRules,
};

const EXPRESSIONS: [&str; 14] = [
    "admin",
    "a|ab",
    "a.*",
    ".*",
    "[a-z]+",
    "(?i)ADMIN",
    "^a$",
    "admin|staff",
    "a*",
    r"\w+( \w+)*",
    "1",
    "(?s).+",
    "(?m)^admin$",
    "a?",
];

impl CaseBuilder {
    pub(super) fn add_policies(&mut self) {
        for id in self.random.some_of(POLICIES, 55) {
            let rules = self.random_rules();
            self.push_change(WorldChange::Policy(id.to_owned(), PolicyChange::Define(rules)));
            if self.random.percent_chance(10) {
                self.push_change(WorldChange::Policy(id.to_owned(), PolicyChange::Deactivate));
            }
        }
    }

    pub(super) fn random_rules(&mut self) -> WorldPolicyRules {
        let count = [1, 1, 1, 1, 2, 2, 3][self.random.below(7)];
        let count = if self.random.once_in(60) { 0 } else { count };
        let matchers = (0..count).map(|_| self.random_matcher()).collect();
        let mut groups = BTreeSet::new();
        let admin = self.random.percent_chance(10);
        for _ in 0..usize::from(!admin) + self.random.below(2) {
            groups.extend(self.random.one_of(self.world.groups.keys().cloned()));
        }
        if self.random.once_in(40) {
            groups.insert(self.random.pick_from(&GROUPS).to_owned());
        }
        WorldPolicyRules { priority: self.random.below(3) as u32, matchers, groups, admin }
    }

    fn random_matcher(&mut self) -> WorldMatcher {
        let random = &mut self.random;
        let claims = &self.identities[random.below(self.identities.len())];
        let (path, found) = random_claim_path(random, claims);
        // Strings this long exist to test regular expressions.
        let is_long = found.as_ref().and_then(Value::as_str).is_some_and(|text| 1000 < text.len());
        let operator = if is_long { WorldOperator::Matches } else { random_operator(random) };
        let likely = |random: &mut WorldRandom| {
            let found = if random.percent_chance(70) { found.clone() } else { None };
            let found = if random.percent_chance(20) {
                found.map(|value| nearly_equal_value(random, value))
            } else {
                found
            };
            found.filter(is_comparable).unwrap_or_else(|| random_value_that(random, is_comparable))
        };
        let value = match operator {
            WorldOperator::Equals | WorldOperator::NotEquals => Some(likely(random)),
            WorldOperator::Contains | WorldOperator::NotContains => {
                Some(contained_value(random, likely))
            }
            WorldOperator::In | WorldOperator::NotIn => {
                let count = 1 + random.below(2);
                Some((0..count).map(|_| likely(random)).collect())
            }
            WorldOperator::Matches => Some(json!(random.pick_from(&EXPRESSIONS))),
            WorldOperator::Exists | WorldOperator::NotExists => None,
        };
        let can_miss = matches!(
            operator,
            WorldOperator::NotEquals | WorldOperator::NotContains | WorldOperator::NotIn
        );
        WorldMatcher {
            claim: path,
            operator,
            value,
            missing: can_miss && random.percent_chance(40),
        }
    }
}

fn random_operator(random: &mut WorldRandom) -> WorldOperator {
    let all = [
        WorldOperator::Equals,
        WorldOperator::Equals,
        WorldOperator::NotEquals,
        WorldOperator::Contains,
        WorldOperator::Contains,
        WorldOperator::NotContains,
        WorldOperator::Matches,
        WorldOperator::In,
        WorldOperator::NotIn,
        WorldOperator::Exists,
        WorldOperator::NotExists,
    ];
    all[random.below(all.len())]
}

/// A value that differs slightly: another type, another case, or another number.
fn nearly_equal_value(random: &mut WorldRandom, value: Value) -> Value {
    match value {
        Value::Number(number) if random.percent_chance(30) => json!(number.to_string()),
        Value::Number(_) => identities::random_number(random),
        Value::Bool(is_true) => json!(is_true.to_string()),
        Value::String(text) => json!(text.to_uppercase()),
        Value::Array(mut elements) => {
            elements.reverse();
            elements.into()
        }
        Value::Object(_) | Value::Null => value,
    }
}

/// An element of an array or a word of a string, if the value is one of these.
fn contained_value(random: &mut WorldRandom, likely: impl Fn(&mut WorldRandom) -> Value) -> Value {
    let part = match likely(random) {
        Value::Array(elements) => random.one_of(elements),
        Value::String(text) => {
            random.one_of(text.split(' ').map(|word| json!(word)).collect::<Vec<_>>())
        }
        value => Some(value),
    };
    part.filter(is_scalar).unwrap_or_else(|| random_value_that(random, is_scalar))
}

fn random_value_that(random: &mut WorldRandom, suits: fn(&Value) -> bool) -> Value {
    loop {
        let value = identities::random_value(random, 2);
        if suits(&value) {
            return value;
        }
    }
}

/// True if a matcher may compare with the value: it is not empty, `null` or rounded.
fn is_comparable(value: &Value) -> bool {
    match value {
        _ if contains_rounded(value) => false,
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// True for a string, number or boolean: only these can be contained in another value.
fn is_scalar(value: &Value) -> bool {
    is_comparable(value) && !value.is_array() && !value.is_object()
}

/// A claim path, mostly an existing one, and the value there.
fn random_claim_path(random: &mut WorldRandom, claims: &Value) -> (String, Option<Value>) {
    let mut path = Vec::new();
    let mut at = Some(claims.clone());
    while path.is_empty() || (path.len() < 3 && random.percent_chance(55)) {
        let inside = match &at {
            Some(Value::Array(elements)) => random.one_of(elements.clone()),
            other => other.clone(),
        };
        let members = inside.as_ref().and_then(Value::as_object);
        let known = members.and_then(|members| random.one_of(members.keys().cloned()));
        if known.is_none() && !path.is_empty() && random.percent_chance(80) {
            break;
        }
        let key = match known {
            Some(key) if random.percent_chance(92) => key,
            _ => random.pick_from(&CLAIM_NAMES).to_owned(),
        };
        at = members.and_then(|members| members.get(&key)).cloned();
        path.push(path_segment(random, &key));
    }
    (path.join("."), at)
}

fn path_segment(random: &mut WorldRandom, key: &str) -> String {
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain && random.percent_chance(90) { key.to_owned() } else { format!("\"{key}\"") }
}
