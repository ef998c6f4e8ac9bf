//! The functions of JMESPath.

use std::borrow::Cow;
use std::cmp::Ordering;

use jmespath::ast::Ast;
use serde_json::{Map, Number, Value};

use super::{ProjectionError, ProjectionWork, STEP_BYTES, compare_values};

/// The arguments of a function.
#[derive(Clone, Copy)]
pub(super) enum FunctionSignature {
    /// This number of values.
    Values(usize),
    /// One value or more.
    Any,
    /// A value, and an `&expression` at this position.
    Expression(usize),
}

pub(super) fn signature_of(name: &str) -> Option<FunctionSignature> {
    match name {
        "abs" | "avg" | "ceil" | "floor" | "keys" | "length" | "max" | "min" | "reverse"
        | "sort" | "sum" | "to_array" | "to_number" | "to_string" | "type" | "values" => {
            Some(FunctionSignature::Values(1))
        }
        "contains" | "ends_with" | "join" | "starts_with" => Some(FunctionSignature::Values(2)),
        "merge" | "not_null" => Some(FunctionSignature::Any),
        "map" => Some(FunctionSignature::Expression(0)),
        "max_by" | "min_by" | "sort_by" => Some(FunctionSignature::Expression(1)),
        _ => None,
    }
}

/// Calls a function whose arguments were checked against its signature.
pub(super) fn call_function(
    work: &mut ProjectionWork,
    name: &str,
    arguments: &[Ast],
    from: &Value,
) -> Result<Value, ProjectionError> {
    let wrong = || ProjectionError::WrongType { function: name.to_owned() };
    match arguments {
        [Ast::Expref { ast, .. }, list] => {
            let list = work.evaluate(list, from)?;
            let items = list.as_array().ok_or_else(wrong)?;
            let all: Result<_, _> =
                items.iter().map(|item| work.evaluate_owned(ast, item)).collect();
            Ok(Value::Array(all?))
        }
        [list, Ast::Expref { ast, .. }] => {
            let Value::Array(items) = work.evaluate_owned(list, from)? else { return Err(wrong()) };
            let mut keyed = Vec::with_capacity(items.len());
            for item in items {
                keyed.push((work.evaluate_owned(ast, &item)?, item));
            }
            let sorted = sort_items(work, keyed, |(key, _)| key).ok_or_else(wrong)??;
            let mut items = sorted.into_iter().map(|(_, item)| item);
            Ok(match name {
                "sort_by" => Value::Array(items.collect()),
                "min_by" => items.next().unwrap_or_default(),
                _ => items.next_back().unwrap_or_default(),
            })
        }
        arguments => {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                let value = work.evaluate(argument, from)?;
                work.charge_value(&value)?;
                values.push(value);
            }
            call_on_values(work, name, &values).ok_or_else(wrong)?
        }
    }
}

/// Calls a function of values; `None` if an argument has the wrong type.
fn call_on_values(
    work: &mut ProjectionWork,
    name: &str,
    values: &[Cow<'_, Value>],
) -> Option<Result<Value, ProjectionError>> {
    let first: &Value = values.first()?;
    let second = || values.get(1).map(|value| &**value);
    let said = match name {
        "length" => Value::from(match first {
            Value::String(text) => text.chars().count(),
            Value::Array(items) => items.len(),
            Value::Object(members) => members.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) => return None,
        }),
        "keys" => first.as_object()?.keys().map(String::as_str).collect(),
        "values" => first.as_object()?.values().cloned().collect(),
        "type" => Value::from(type_of(first)),
        "not_null" => values.iter().find(|value| !value.is_null())?.as_ref().clone(),
        "to_array" if first.is_array() => first.clone(),
        "to_array" => Value::Array(vec![first.clone()]),
        "to_string" if first.is_string() => first.clone(),
        "to_string" => Value::String(first.to_string()),
        "to_number" => match first {
            Value::Number(_) => first.clone(),
            Value::String(text) => text.parse::<Number>().map_or(Value::Null, Value::Number),
            _ => Value::Null,
        },
        "contains" => Value::Bool(match first {
            Value::String(text) => second()?.as_str().is_some_and(|part| text.contains(part)),
            Value::Array(items) => {
                let wanted = second()?;
                let is_it = |item| compare_values(&jmespath::ast::Comparator::Equal, item, wanted);
                items.iter().any(|item| is_it(item) == Some(true))
            }
            _ => return None,
        }),
        "starts_with" => Value::Bool(first.as_str()?.starts_with(second()?.as_str()?)),
        "ends_with" => Value::Bool(first.as_str()?.ends_with(second()?.as_str()?)),
        "join" => return join_strings(work, first.as_str()?, second()?.as_array()?),
        "reverse" => match first {
            Value::String(text) => Value::String(text.chars().rev().collect()),
            list => list.as_array()?.iter().rev().cloned().collect(),
        },
        "merge" => {
            let mut merged = Map::new();
            for value in values {
                merged.extend(value.as_object()?.clone());
            }
            Value::Object(merged)
        }
        "sort" | "min" | "max" => {
            let sorted = match sort_items(work, first.as_array()?.clone(), |item| item)? {
                Ok(sorted) => sorted,
                Err(error) => return Some(Err(error)),
            };
            match name {
                "sort" => Value::Array(sorted),
                "min" => sorted.into_iter().next().unwrap_or_default(),
                _ => sorted.into_iter().next_back().unwrap_or_default(),
            }
        }
        _ => call_on_numbers(name, first)?,
    };
    Some(Ok(said))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Joins strings. The separator is charged for each repetition.
fn join_strings(
    work: &mut ProjectionWork,
    between: &str,
    items: &[Value],
) -> Option<Result<Value, ProjectionError>> {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let texts = texts?;
    let paid = work.spend(between.len().saturating_mul(texts.len()));
    Some(paid.map(|()| Value::String(texts.join(between))))
}

fn call_on_numbers(name: &str, value: &Value) -> Option<Value> {
    let number = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    let whole = |whole: f64| match whole.abs() < 9e15 {
        true => Value::from(whole as i64),
        false => number(whole),
    };
    Some(match name {
        "abs" => match value.as_i64() {
            Some(negative) => Value::from(negative.unsigned_abs()),
            None if value.is_u64() => value.clone(),
            None => number(value.as_f64()?.abs()),
        },
        "ceil" | "floor" if value.is_i64() || value.is_u64() => value.clone(),
        "ceil" => whole(value.as_f64()?.ceil()),
        "floor" => whole(value.as_f64()?.floor()),
        "sum" | "avg" => {
            let items = value.as_array()?;
            let exact = items.iter().try_fold(0_i64, |sum, item| sum.checked_add(item.as_i64()?));
            let sum: Option<f64> = items.iter().map(Value::as_f64).sum();
            match (name, exact) {
                ("sum", Some(exact)) => Value::from(exact),
                ("sum", None) => number(sum?),
                _ => number(sum? / items.len() as f64),
            }
        }
        _ => return None,
    })
}

/// Sorts items by numbers or by strings; `None` for other or mixed types.
fn sort_items<T>(
    work: &mut ProjectionWork,
    mut items: Vec<T>,
    key: impl Fn(&T) -> &Value,
) -> Option<Result<Vec<T>, ProjectionError>> {
    let all = |is: fn(&Value) -> bool| items.iter().all(|item| is(key(item)));
    if !all(Value::is_number) && !all(Value::is_string) {
        return None;
    }
    let steps =
        usize::try_from(items.len().checked_ilog2().unwrap_or_default()).unwrap_or_default();
    if let Err(error) = work.spend(items.len().saturating_mul(steps).saturating_mul(STEP_BYTES)) {
        return Some(Err(error));
    }
    items.sort_by(|one, two| compare_exactly(key(one), key(two)));
    Some(Ok(items))
}

/// Orders numbers by their exact value, in any notation. Rounding would make the order inconsistent: two different
/// integers could both equal the same double, and sorting by an inconsistent order may panic.
pub(super) fn compare_exactly(one: &Value, two: &Value) -> Ordering {
    if let (Value::String(one), Value::String(two)) = (one, two) {
        return one.cmp(two);
    }
    let integer = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    let double = |value: &Value| value.as_f64().unwrap_or_default();
    match (integer(one), integer(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        (Some(one), None) => compare_with_double(one, double(two)),
        (None, Some(two)) => compare_with_double(two, double(one)).reverse(),
        // `total_cmp` would order -0.0 before 0.0, but both are equal.
        (None, None) => double(one).partial_cmp(&double(two)).unwrap_or(Ordering::Equal),
    }
}

/// Compares an integer with a double. A double beyond all integers saturates at `i128`, which no JSON integer reaches.
fn compare_with_double(integer: i128, double: f64) -> Ordering {
    let below = double.floor();
    let is_above = if below < double { Ordering::Less } else { Ordering::Equal };
    integer.cmp(&(below as i128)).then(is_above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{
        Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };
    use serde_json::json;

    use super::*;

    /// Numbers in every notation, many of them nearly equal.
    fn number() -> impl Strategy<Value = Value> {
        let edges = [
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(9_007_199_254_740_992.0),
            json!(-9_007_199_254_740_993_i64),
            json!(-9_007_199_254_740_992.0),
            json!(u64::MAX),
            json!(u64::MAX - 1),
            json!(18_446_744_073_709_551_616.0),
            json!(i64::MIN),
            json!(i64::MAX),
            json!(9_223_372_036_854_775_808.0),
            json!(1e300),
            json!(-1e300),
            json!(0),
            json!(0.0),
            json!(-0.0),
            json!(0.5),
            json!(-0.5),
            json!(5e-324),
        ];
        let finite = any::<f64>().prop_filter_map("JSON has no others", |number| {
            Number::from_f64(number).map(Value::Number)
        });
        prop_oneof![
            4 => proptest::sample::select(edges.to_vec()),
            1 => any::<i64>().prop_map(Value::from),
            1 => any::<u64>().prop_map(Value::from),
            1 => finite,
            1 => Just(json!(1)),
        ]
    }

    proptest! {
        #[test]
        fn numbers_have_a_total_order(one in number(), two in number(), three in number()) {
            prop_assert_eq!(compare_exactly(&one, &two), compare_exactly(&two, &one).reverse());
            prop_assert_eq!(compare_exactly(&one, &one), Ordering::Equal);
            if compare_exactly(&one, &two).is_le() && compare_exactly(&two, &three).is_le() {
                prop_assert!(compare_exactly(&one, &three).is_le());
            }
            if compare_exactly(&one, &two).is_eq() {
                prop_assert_eq!(compare_exactly(&one, &three), compare_exactly(&two, &three));
            }
        }

        #[test]
        fn any_numbers_can_be_sorted(mut numbers in proptest::collection::vec(number(), 0..200)) {
            numbers.sort_by(compare_exactly);
            prop_assert!(numbers.is_sorted_by(|one, two| compare_exactly(one, two).is_le()));
        }
    }

    #[test]
    fn integers_are_compared_without_rounding() {
        let double = json!(9_007_199_254_740_992.0);
        assert_eq!(compare_exactly(&json!(9_007_199_254_740_993_u64), &double), Ordering::Greater);
        assert_eq!(compare_exactly(&double, &json!(9_007_199_254_740_992_u64)), Ordering::Equal);
        assert_eq!(
            compare_exactly(&json!(u64::MAX), &json!(18_446_744_073_709_551_616.0)),
            Ordering::Less
        );
        assert_eq!(compare_exactly(&json!(u64::MAX), &json!(u64::MAX - 1)), Ordering::Greater);
        assert_eq!(compare_exactly(&json!(-1), &json!(-0.5)), Ordering::Less);
        assert_eq!(compare_exactly(&json!(-1e300), &json!(i64::MIN)), Ordering::Less);
        assert_eq!(compare_exactly(&json!(-0.0), &json!(0)), Ordering::Equal);
    }
}
