//! Matchers on claims (G4).

use serde_json::{Number, Value};

use super::patterns::is_whole;
use crate::agreement::world::{Matcher, Operator};

/// Regular expressions never match a longer string.
const LONGEST_TEXT: usize = 16 * 1024;

pub(super) fn is_match(matcher: &Matcher, claims: &Value) -> bool {
    let found = find(&segments(&matcher.claim), claims);
    let value = || matcher.value.as_ref().expect("worlds have valid matchers only");
    let some = |test: &dyn Fn(&Value) -> bool| found.iter().any(|claim| test(claim));
    let none = |test: &dyn Fn(&Value) -> bool, can_compare: &dyn Fn(&Value) -> bool| {
        if found.is_empty() {
            return matcher.missing;
        }
        found.iter().all(|claim| can_compare(claim) && !test(claim))
    };
    match matcher.operator {
        Operator::Exists => !found.is_empty(),
        Operator::NotExists => found.is_empty(),
        Operator::Equals => some(&|claim| are_equal(claim, value())),
        Operator::NotEquals => none(&|claim| are_equal(claim, value()), &|claim| {
            kind(claim) == kind(value()) && !was_rounded(claim)
        }),
        Operator::Contains => some(&|claim| contains(claim, value())),
        Operator::NotContains => {
            none(&|claim| contains(claim, value()), &|claim| can_contain(claim, value()))
        }
        Operator::In => some(&|claim| choices(value()).iter().any(|one| are_equal(claim, one))),
        Operator::NotIn => {
            none(&|claim| choices(value()).iter().any(|one| are_equal(claim, one)), &|claim| {
                !was_rounded(claim) && choices(value()).iter().any(|one| kind(claim) == kind(one))
            })
        }
        Operator::Matches => some(&|claim| matches(claim, value())),
    }
}

/// The segments of a claim path: separated by dots, except between quotation marks.
fn segments(path: &str) -> Vec<String> {
    let mut segments = vec![String::new()];
    let mut is_quoted = false;
    for c in path.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => segments.push(String::new()),
            c => segments.last_mut().expect("there is one from the start").push(c),
        }
    }
    segments
}

/// Every value at a path. An array on the way is entered, one level deep; `null` counts as absent.
fn find<'a>(segments: &[String], value: &'a Value) -> Vec<&'a Value> {
    let Some((key, rest)) = segments.split_first() else {
        return if value.is_null() { Vec::new() } else { vec![value] };
    };
    let step = |value: &'a Value| match value {
        Value::Object(members) => members.get(key).map_or(Vec::new(), |next| find(rest, next)),
        _ => Vec::new(),
    };
    match value {
        Value::Array(elements) => elements.iter().flat_map(step).collect(),
        value => step(value),
    }
}

fn choices(value: &Value) -> &[Value] {
    value.as_array().expect("worlds have valid matchers only")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

fn are_equal(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(two)) => one == two,
        (Value::Number(one), Value::Number(two)) => are_same_number(one, two),
        (Value::String(one), Value::String(two)) => one == two,
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| are_equal(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            let is_in_two = |(key, value): (&String, &Value)| {
                two.get(key).is_some_and(|other| are_equal(value, other))
            };
            one.len() == two.len() && one.iter().all(is_in_two)
        }
        _ => false,
    }
}

/// Compares by value: `1` equals `1.0`. Integers are never rounded for the comparison.
fn are_same_number(one: &Number, two: &Number) -> bool {
    match (whole(one), whole(two)) {
        _ if is_rounded(one) || is_rounded(two) => false,
        (Some(one), Some(two)) => one == two,
        (None, None) => one.as_f64() == two.as_f64(),
        _ => false,
    }
}

/// True for a float of 2^53 or more: parsing may have rounded it, so it equals nothing.
fn is_rounded(number: &Number) -> bool {
    number.is_f64() && number.as_f64().is_some_and(|float| 2_f64.powi(53) <= float.abs())
}

/// True if a value contains such a number anywhere.
pub(in crate::agreement) fn was_rounded(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_rounded(number),
        Value::Array(elements) => elements.iter().any(was_rounded),
        Value::Object(members) => members.values().any(was_rounded),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn whole(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    // Generated worlds contain no larger numbers.
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

/// True if an array contains the value, or a string contains it as a word.
fn contains(claim: &Value, value: &Value) -> bool {
    match (claim, value) {
        (Value::Array(elements), value) => elements.iter().any(|element| are_equal(element, value)),
        (Value::String(text), Value::String(word)) => text.split(' ').any(|one| one == word),
        _ => false,
    }
}

fn can_contain(claim: &Value, value: &Value) -> bool {
    (claim.is_array() && !was_rounded(claim)) || (claim.is_string() && value.is_string())
}

fn matches(claim: &Value, expression: &Value) -> bool {
    let expression = expression.as_str().expect("worlds have valid matchers only");
    let fits = |text: &str| text.len() <= LONGEST_TEXT && is_whole(expression, text);
    match claim {
        Value::String(text) => fits(text),
        Value::Array(elements) => elements.iter().any(|element| element.as_str().is_some_and(fits)),
        _ => false,
    }
}
