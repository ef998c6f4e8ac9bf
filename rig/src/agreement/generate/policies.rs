//! Generates policies. Their matchers mostly refer to claims that an agent has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::identities::{self, NAMES};
use super::{GROUPS, Making, POLICIES, Random};
use crate::agreement::oracle::was_rounded;
use crate::agreement::world::{Matcher, Operator, PolicyWish, Rules, Wish};

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

impl Making {
    pub(super) fn policies(&mut self) {
        for id in self.random.some_of(POLICIES, 55) {
            let rules = self.rules();
            self.wish(Wish::Policy(id.to_owned(), PolicyWish::Define(rules)));
            if self.random.percent(10) {
                self.wish(Wish::Policy(id.to_owned(), PolicyWish::Deactivate));
            }
        }
    }

    pub(super) fn rules(&mut self) -> Rules {
        let count = [1, 1, 1, 1, 2, 2, 3][self.random.below(7)];
        let count = if self.random.once_in(60) { 0 } else { count };
        let matchers = (0..count).map(|_| self.matcher()).collect();
        let mut groups = BTreeSet::new();
        let admin = self.random.percent(10);
        for _ in 0..usize::from(!admin) + self.random.below(2) {
            groups.extend(self.random.one_of(self.world.groups.keys().cloned()));
        }
        if self.random.once_in(40) {
            groups.insert(self.random.pick(&GROUPS).to_owned());
        }
        Rules { priority: self.random.below(3) as u32, matchers, groups, admin }
    }

    fn matcher(&mut self) -> Matcher {
        let random = &mut self.random;
        let claims = &self.identities[random.below(self.identities.len())];
        let (path, found) = place(random, claims);
        // Strings this long exist to test regular expressions.
        let is_long = found.as_ref().and_then(Value::as_str).is_some_and(|text| 1000 < text.len());
        let operator = if is_long { Operator::Matches } else { operator(random) };
        let likely = |random: &mut Random| {
            let found = if random.percent(70) { found.clone() } else { None };
            let found =
                if random.percent(20) { found.map(|value| near(random, value)) } else { found };
            found.filter(suits).unwrap_or_else(|| other(random, suits))
        };
        let value = match operator {
            Operator::Equals | Operator::NotEquals => Some(likely(random)),
            Operator::Contains | Operator::NotContains => Some(part(random, likely)),
            Operator::In | Operator::NotIn => {
                let count = 1 + random.below(2);
                Some((0..count).map(|_| likely(random)).collect())
            }
            Operator::Matches => Some(json!(random.pick(&EXPRESSIONS))),
            Operator::Exists | Operator::NotExists => None,
        };
        let can_miss =
            matches!(operator, Operator::NotEquals | Operator::NotContains | Operator::NotIn);
        Matcher { claim: path, operator, value, missing: can_miss && random.percent(40) }
    }
}

fn operator(random: &mut Random) -> Operator {
    let all = [
        Operator::Equals,
        Operator::Equals,
        Operator::NotEquals,
        Operator::Contains,
        Operator::Contains,
        Operator::NotContains,
        Operator::Matches,
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::NotExists,
    ];
    all[random.below(all.len())]
}

/// A value that differs slightly: another type, another case, or another number.
fn near(random: &mut Random, value: Value) -> Value {
    match value {
        Value::Number(number) if random.percent(30) => json!(number.to_string()),
        Value::Number(_) => identities::number(random),
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
fn part(random: &mut Random, likely: impl Fn(&mut Random) -> Value) -> Value {
    let part = match likely(random) {
        Value::Array(elements) => random.one_of(elements),
        Value::String(text) => {
            random.one_of(text.split(' ').map(|word| json!(word)).collect::<Vec<_>>())
        }
        value => Some(value),
    };
    part.filter(is_one).unwrap_or_else(|| other(random, is_one))
}

fn other(random: &mut Random, suits: fn(&Value) -> bool) -> Value {
    loop {
        let value = identities::value(random, 2);
        if suits(&value) {
            return value;
        }
    }
}

/// True if a matcher may compare with the value: it is not empty, `null` or rounded.
fn suits(value: &Value) -> bool {
    match value {
        _ if was_rounded(value) => false,
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// True for a string, number or boolean: only these can be contained in another value.
fn is_one(value: &Value) -> bool {
    suits(value) && !value.is_array() && !value.is_object()
}

/// A claim path, mostly an existing one, and the value there.
fn place(random: &mut Random, claims: &Value) -> (String, Option<Value>) {
    let mut path = Vec::new();
    let mut at = Some(claims.clone());
    while path.is_empty() || (path.len() < 3 && random.percent(55)) {
        let inside = match &at {
            Some(Value::Array(elements)) => random.one_of(elements.clone()),
            other => other.clone(),
        };
        let members = inside.as_ref().and_then(Value::as_object);
        let known = members.and_then(|members| random.one_of(members.keys().cloned()));
        if known.is_none() && !path.is_empty() && random.percent(80) {
            break;
        }
        let key = match known {
            Some(key) if random.percent(92) => key,
            _ => random.pick(&NAMES).to_owned(),
        };
        at = members.and_then(|members| members.get(&key)).cloned();
        path.push(segment(random, &key));
    }
    (path.join("."), at)
}

fn segment(random: &mut Random, key: &str) -> String {
    let is_plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain && random.percent(90) { key.to_owned() } else { format!("\"{key}\"") }
}
