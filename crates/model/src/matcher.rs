//! A matcher: one condition on a claim. It compares JSON values by type, never by their text form.
//!
//! A path may find several values, because it walks lists; one that satisfies the operator is enough. The negative
//! operators negate the others, but fail closed: a missing claim matches only if `missing` is set, and a claim of a
//! different type never matches. A claim of `null` is missing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::{ClaimPath, Claims, Pattern};

/// Longest regular expression of a matcher, in bytes.
const MATCHER_REGEX_LIMIT: usize = 512;
/// Longest string that `matches` tests, in bytes; a longer string does not match.
const MATCHER_TEXT_LIMIT: usize = 16 * 1024;

/// How a matcher judges the values it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Operator")]
pub enum MatchOperator {
    /// The value is the same, of the same type: `1` is `1.0` but not `"1"`. A list is only the same as a list; for one
    /// of its elements there is `contains`.
    Equals,
    /// Not `equals`.
    NotEquals,
    /// A list with the value in it, or a text with the value as one of its words between spaces. Never part of a word.
    Contains,
    /// Not `contains`.
    NotContains,
    /// A text that a regular expression matches from the first character to the last, or a list with such a text.
    Matches,
    /// The value `equals` one of several.
    In,
    /// Not `in`.
    NotIn,
    /// The claim is there.
    Exists,
    /// The claim is missing.
    NotExists,
}

impl MatchOperator {
    fn as_str(self) -> &'static str {
        match self {
            Self::Equals => "equals",
            Self::NotEquals => "not_equals",
            Self::Contains => "contains",
            Self::NotContains => "not_contains",
            Self::Matches => "matches",
            Self::In => "in",
            Self::NotIn => "not_in",
            Self::Exists => "exists",
            Self::NotExists => "not_exists",
        }
    }
}

impl fmt::Display for MatchOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One condition on a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "MatcherJson", into = "MatcherJson")]
pub struct Matcher {
    claim: ClaimPath,
    operator: MatchOperator,
    test: MatchTest,
    missing: bool,
}

/// The operand of the operator. An operator and its negation share one test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MatchTest {
    Equals(Value),
    Contains(Value),
    Matches(Pattern),
    In(Vec<Value>),
    Exists,
}

/// A matcher as it is written in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Written")]
struct MatcherJson {
    /// Where the claim is.
    claim: ClaimPath,
    /// How the values found there are judged.
    operator: MatchOperator,
    /// What they are compared with; `exists` and `not_exists` have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// Whether a missing claim matches too: for `not_equals`, `not_contains` and `not_in`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    missing: bool,
}

/// The error for a matcher whose parts contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMatcher {
    /// The value is absent, empty, or of a type the operator cannot compare.
    #[error("`value` does not suit `{operator}`: {rule}")]
    Value {
        /// The operator.
        operator: MatchOperator,
        /// The requirement of the operator.
        rule: &'static str,
    },
    /// The value of `matches` is not a valid regular expression.
    #[error("`value` is not a regular expression: {problem}")]
    Regex {
        /// The problem, and how to fix it.
        problem: String,
    },
    /// `missing` is set for an operator that ignores it.
    #[error(
        "`missing` does not suit `{operator}`: leave it out, it is for `not_equals`, `not_contains` and `not_in`"
    )]
    Missing {
        /// The operator.
        operator: MatchOperator,
    },
}

impl Matcher {
    /// Makes a matcher; `missing` is the answer of a negative operator for a missing claim.
    pub fn new(
        claim: ClaimPath,
        operator: MatchOperator,
        value: Option<Value>,
        missing: bool,
    ) -> Result<Self, InvalidMatcher> {
        let takes_missing = matches!(
            operator,
            MatchOperator::NotEquals | MatchOperator::NotContains | MatchOperator::NotIn
        );
        if missing && !takes_missing {
            return Err(InvalidMatcher::Missing { operator });
        }
        Ok(Self { claim, operator, test: MatchTest::new(operator, value)?, missing })
    }

    /// The path to the claim.
    pub fn claim(&self) -> &ClaimPath {
        &self.claim
    }

    /// The operator.
    pub fn operator(&self) -> MatchOperator {
        self.operator
    }

    /// The operand.
    pub fn operand(&self) -> Option<Value> {
        match &self.test {
            MatchTest::Equals(value) | MatchTest::Contains(value) => Some(value.clone()),
            MatchTest::Matches(pattern) => pattern.as_str().strip_prefix("regex:").map(Value::from),
            MatchTest::In(values) => Some(values.clone().into()),
            MatchTest::Exists => None,
        }
    }

    /// Whether a missing claim matches too.
    pub fn matches_missing(&self) -> bool {
        self.missing
    }

    /// Whether these claims satisfy the condition.
    pub fn matches(&self, claims: &Claims) -> bool {
        self.matches_values(&self.claim.find(claims))
    }

    /// Whether the values that its path found satisfy the condition.
    pub fn matches_values(&self, found: &[&Value]) -> bool {
        let holds = found.iter().any(|value| self.test.is_satisfied_by(value));
        match self.operator {
            MatchOperator::Equals
            | MatchOperator::Contains
            | MatchOperator::Matches
            | MatchOperator::In
            | MatchOperator::Exists => holds,
            MatchOperator::NotEquals | MatchOperator::NotContains | MatchOperator::NotIn
                if found.is_empty() =>
            {
                self.missing
            }
            MatchOperator::NotEquals | MatchOperator::NotContains | MatchOperator::NotIn => {
                !holds && found.iter().all(|value| self.test.is_comparable(value))
            }
            MatchOperator::NotExists => !holds,
        }
    }
}

impl MatchTest {
    fn new(operator: MatchOperator, value: Option<Value>) -> Result<Self, InvalidMatcher> {
        let unsuitable = |rule| InvalidMatcher::Value { operator, rule };
        match operator {
            MatchOperator::Equals | MatchOperator::NotEquals => match value {
                Some(value) if !is_empty(&value) && is_exact(&value) => Ok(Self::Equals(value)),
                Some(value) if !is_exact(&value) => Err(unsuitable(TOO_LARGE)),
                Some(_) | None => {
                    Err(unsuitable("give a value that is not empty, or use `not_exists`"))
                }
            },
            MatchOperator::Contains | MatchOperator::NotContains => match value {
                Some(value) if !is_exact(&value) => Err(unsuitable(TOO_LARGE)),
                Some(value) if !is_empty(&value) && !value.is_array() && !value.is_object() => {
                    Ok(Self::Contains(value))
                }
                Some(_) | None => Err(unsuitable("give one text, number or boolean")),
            },
            MatchOperator::Matches => match value {
                Some(Value::String(text))
                    if !text.is_empty() && text.len() <= MATCHER_REGEX_LIMIT =>
                {
                    let pattern = format!("regex:{text}").parse::<Pattern>();
                    pattern
                        .map(Self::Matches)
                        .map_err(|error| InvalidMatcher::Regex { problem: error.problem })
                }
                Some(_) | None => {
                    Err(unsuitable("give a regular expression as a text of 1 to 512 bytes"))
                }
            },
            MatchOperator::In | MatchOperator::NotIn => match value {
                Some(Value::Array(values)) if !values.iter().all(is_exact) => {
                    Err(unsuitable(TOO_LARGE))
                }
                Some(Value::Array(values))
                    if !values.is_empty() && !values.iter().any(is_empty) =>
                {
                    Ok(Self::In(values))
                }
                Some(_) | None => Err(unsuitable("give a list of values, none of them empty")),
            },
            MatchOperator::Exists | MatchOperator::NotExists => match value {
                None => Ok(Self::Exists),
                Some(_) => Err(unsuitable("leave it out")),
            },
        }
    }

    /// Whether the claim has a type that the operand can be compared with.
    fn is_comparable(&self, found: &Value) -> bool {
        match self {
            Self::Equals(value) => is_exact(found) && same_type(found, value),
            Self::In(values) => {
                is_exact(found) && values.iter().any(|value| same_type(found, value))
            }
            Self::Contains(value) => match found {
                Value::Array(elements) => elements.iter().all(is_exact),
                _ => found.is_string() && value.is_string(),
            },
            Self::Matches(_) => found.is_array() || found.is_string(),
            Self::Exists => true,
        }
    }

    fn is_satisfied_by(&self, found: &Value) -> bool {
        match self {
            Self::Equals(value) => values_equal(found, value),
            Self::Contains(value) => contains_value(found, value),
            Self::Matches(pattern) => match found {
                Value::Array(elements) => elements.iter().any(|element| is_match(pattern, element)),
                _ => is_match(pattern, found),
            },
            Self::In(values) => values.iter().any(|value| values_equal(found, value)),
            Self::Exists => true,
        }
    }
}

const TOO_LARGE: &str = "a number this large is rounded and could be another: compare it as a text";

fn same_type(one: &Value, two: &Value) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(two)
}

/// An empty operand is most likely a value that the admin forgot to fill in.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(object) => object.is_empty(),
    }
}

fn contains_value(found: &Value, value: &Value) -> bool {
    match (found, value) {
        (Value::Array(elements), _) => elements.iter().any(|element| values_equal(element, value)),
        (Value::String(text), Value::String(word)) => text.split(' ').any(|part| part == word),
        _ => false,
    }
}

fn is_match(pattern: &Pattern, found: &Value) -> bool {
    found.as_str().is_some_and(|text| text.len() <= MATCHER_TEXT_LIMIT && pattern.matches(text))
}

/// Whether two values are equal; numbers are compared by value, not by spelling.
fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers_equal(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| values_equal(a, b)))
        }
        _ => a == b,
    }
}

fn numbers_equal(a: &Number, b: &Number) -> bool {
    if is_rounded(a) || is_rounded(b) {
        return false;
    }
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64() == b.as_f64(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether every number in a value was read without rounding. A rounded number equals nothing.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !is_rounded(number),
        Value::Array(elements) => elements.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Whether the number is a float that could stand for several integers.
fn is_rounded(number: &Number) -> bool {
    let float = if number.is_f64() { number.as_f64() } else { None };
    float.is_some_and(|float| EXACT_INTEGER_LIMIT <= float.abs())
}

/// 2^53: from here on a double cannot represent every integer.
const EXACT_INTEGER_LIMIT: f64 = 9_007_199_254_740_992.0;

/// The number as an integer, if it is one. As floats, large ids could become equal by rounding.
fn as_integer(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i128() {
        return Some(integer);
    }
    let float = number.as_f64()?;
    // Within these bounds the cast is exact.
    (float.fract() == 0.0 && float.abs() < 1e30).then_some(float as i128)
}

impl TryFrom<MatcherJson> for Matcher {
    type Error = InvalidMatcher;

    fn try_from(written: MatcherJson) -> Result<Self, InvalidMatcher> {
        Self::new(written.claim, written.operator, written.value, written.missing)
    }
}
impl From<Matcher> for MatcherJson {
    fn from(matcher: Matcher) -> Self {
        let value = matcher.operand();
        Self { claim: matcher.claim, operator: matcher.operator, value, missing: matcher.missing }
    }
}

#[cfg(test)]
mod tests;
