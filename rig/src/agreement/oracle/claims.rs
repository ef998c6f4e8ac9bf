//! Matchers on claims (G4).

use serde_json::{Number, Value};

use super::patterns::matches_whole_text;
use crate::agreement::world::{WorldMatcher, WorldOperator};

/// Regular expressions never match a longer string.
const MAX_TEXT_LENGTH: usize = 16 * 1024;

pub(super) fn matches_claims(matcher: &WorldMatcher, claims: &Value) -> bool {
    let found = values_at(&path_segments(&matcher.claim), claims);
    let value = || matcher.value.as_ref().expect("worlds have valid matchers only");
    let some = |test: &dyn Fn(&Value) -> bool| found.iter().any(|claim| test(claim));
    let none = |test: &dyn Fn(&Value) -> bool, can_compare: &dyn Fn(&Value) -> bool| {
        if found.is_empty() {
            return matcher.missing;
        }
        found.iter().all(|claim| can_compare(claim) && !test(claim))
    };
    match matcher.operator {
        WorldOperator::Exists => !found.is_empty(),
        WorldOperator::NotExists => found.is_empty(),
        WorldOperator::Equals => some(&|claim| are_equal(claim, value())),
        WorldOperator::NotEquals => none(&|claim| are_equal(claim, value()), &|claim| {
            type_name(claim) == type_name(value()) && !contains_rounded(claim)
        }),
        WorldOperator::Contains => some(&|claim| contains_value(claim, value())),
        WorldOperator::NotContains => {
            none(&|claim| contains_value(claim, value()), &|claim| can_contain(claim, value()))
        }
        WorldOperator::In => {
            some(&|claim| as_choices(value()).iter().any(|one| are_equal(claim, one)))
        }
        WorldOperator::NotIn => {
            none(&|claim| as_choices(value()).iter().any(|one| are_equal(claim, one)), &|claim| {
                !contains_rounded(claim)
                    && as_choices(value()).iter().any(|one| type_name(claim) == type_name(one))
            })
        }
        WorldOperator::Matches => some(&|claim| matches_expression(claim, value())),
    }
}

/// The segments of a claim path: separated by dots, except between quotation marks.
fn path_segments(path: &str) -> Vec<String> {
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
fn values_at<'a>(segments: &[String], value: &'a Value) -> Vec<&'a Value> {
    let Some((key, rest)) = segments.split_first() else {
        return if value.is_null() { Vec::new() } else { vec![value] };
    };
    let step = |value: &'a Value| match value {
        Value::Object(members) => members.get(key).map_or(Vec::new(), |next| values_at(rest, next)),
        _ => Vec::new(),
    };
    match value {
        Value::Array(elements) => elements.iter().flat_map(step).collect(),
        value => step(value),
    }
}

fn as_choices(value: &Value) -> &[Value] {
    value.as_array().expect("worlds have valid matchers only")
}

fn type_name(value: &Value) -> &'static str {
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
    match (as_integer(one), as_integer(two)) {
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
pub(in crate::agreement) fn contains_rounded(value: &Value) -> bool {
    match value {
        Value::Number(number) => is_rounded(number),
        Value::Array(elements) => elements.iter().any(contains_rounded),
        Value::Object(members) => members.values().any(contains_rounded),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

fn as_integer(number: &Number) -> Option<i128> {
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64()?;
    // Generated worlds contain no larger numbers.
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

/// True if an array contains the value, or a string contains it as a word.
fn contains_value(claim: &Value, value: &Value) -> bool {
    match (claim, value) {
        (Value::Array(elements), value) => elements.iter().any(|element| are_equal(element, value)),
        (Value::String(text), Value::String(word)) => text.split(' ').any(|one| one == word),
        _ => false,
    }
}

fn can_contain(claim: &Value, value: &Value) -> bool {
    (claim.is_array() && !contains_rounded(claim)) || (claim.is_string() && value.is_string())
}

fn matches_expression(claim: &Value, expression: &Value) -> bool {
    let expression = expression.as_str().expect("worlds have valid matchers only");
    let fits = |text: &str| text.len() <= MAX_TEXT_LENGTH && matches_whole_text(expression, text);
    match claim {
        Value::String(text) => fits(text),
        Value::Array(elements) => elements.iter().any(|element| element.as_str().is_some_and(fits)),
        _ => false,
    }
}
