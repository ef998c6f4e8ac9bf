//! The functions of JMESPath.

use std::borrow::Cow;
use std::cmp::Ordering;

use jmespath::ast::Ast;
use serde_json::{Map, Number, Value};

use super::{ProjectionError, STEP, Work, compared};

/// What a function takes.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    /// So many values.
    Values(usize),
    /// One value or more.
    Any,
    /// A value, and `&expression` at this place.
    Expression(usize),
}

pub(super) fn takes(name: &str) -> Option<Takes> {
    match name {
        "abs" | "avg" | "ceil" | "floor" | "keys" | "length" | "max" | "min" | "reverse"
        | "sort" | "sum" | "to_array" | "to_number" | "to_string" | "type" | "values" => {
            Some(Takes::Values(1))
        }
        "contains" | "ends_with" | "join" | "starts_with" => Some(Takes::Values(2)),
        "merge" | "not_null" => Some(Takes::Any),
        "map" => Some(Takes::Expression(0)),
        "max_by" | "min_by" | "sort_by" => Some(Takes::Expression(1)),
        _ => None,
    }
}

/// Calls a function whose arguments fit in number and kind.
pub(super) fn call(
    work: &mut Work,
    name: &str,
    arguments: &[Ast],
    from: &Value,
) -> Result<Value, ProjectionError> {
    let wrong = || ProjectionError::WrongType { function: name.to_owned() };
    match arguments {
        [Ast::Expref { ast, .. }, list] => {
            let list = work.find(list, from)?;
            let items = list.as_array().ok_or_else(wrong)?;
            let all: Result<_, _> = items.iter().map(|item| work.owned(ast, item)).collect();
            Ok(Value::Array(all?))
        }
        [list, Ast::Expref { ast, .. }] => {
            let Value::Array(items) = work.owned(list, from)? else { return Err(wrong()) };
            let mut keyed = Vec::with_capacity(items.len());
            for item in items {
                keyed.push((work.owned(ast, &item)?, item));
            }
            let sorted = sorted(work, keyed, |(key, _)| key).ok_or_else(wrong)??;
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
                let value = work.find(argument, from)?;
                work.look_at(&value)?;
                values.push(value);
            }
            of_values(work, name, &values).ok_or_else(wrong)?
        }
    }
}

/// None if it was given something that it does not take.
fn of_values(
    work: &mut Work,
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
                let is_it = |item| compared(&jmespath::ast::Comparator::Equal, item, wanted);
                items.iter().any(|item| is_it(item) == Some(true))
            }
            _ => return None,
        }),
        "starts_with" => Value::Bool(first.as_str()?.starts_with(second()?.as_str()?)),
        "ends_with" => Value::Bool(first.as_str()?.ends_with(second()?.as_str()?)),
        "join" => return joined(work, first.as_str()?, second()?.as_array()?),
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
            let sorted = match sorted(work, first.as_array()?.clone(), |item| item)? {
                Ok(sorted) => sorted,
                Err(error) => return Some(Err(error)),
            };
            match name {
                "sort" => Value::Array(sorted),
                "min" => sorted.into_iter().next().unwrap_or_default(),
                _ => sorted.into_iter().next_back().unwrap_or_default(),
            }
        }
        _ => of_numbers(name, first)?,
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

/// What stands between is written again and again, so it is paid for each time.
fn joined(
    work: &mut Work,
    between: &str,
    items: &[Value],
) -> Option<Result<Value, ProjectionError>> {
    let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
    let texts = texts?;
    let paid = work.spend(between.len().saturating_mul(texts.len()));
    Some(paid.map(|()| Value::String(texts.join(between))))
}

fn of_numbers(name: &str, value: &Value) -> Option<Value> {
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

/// Sorted by numbers or by texts; none if there is something else among them, or both.
fn sorted<T>(
    work: &mut Work,
    mut items: Vec<T>,
    key: impl Fn(&T) -> &Value,
) -> Option<Result<Vec<T>, ProjectionError>> {
    let all = |is: fn(&Value) -> bool| items.iter().all(|item| is(key(item)));
    if !all(Value::is_number) && !all(Value::is_string) {
        return None;
    }
    let steps =
        usize::try_from(items.len().checked_ilog2().unwrap_or_default()).unwrap_or_default();
    if let Err(error) = work.spend(items.len().saturating_mul(steps).saturating_mul(STEP)) {
        return Some(Err(error));
    }
    items.sort_by(|one, two| order(key(one), key(two)));
    Some(Ok(items))
}

fn order(one: &Value, two: &Value) -> Ordering {
    match (one, two) {
        (Value::String(one), Value::String(two)) => one.cmp(two),
        _ => match (one.as_i64(), two.as_i64()) {
            (Some(one), Some(two)) => one.cmp(&two),
            _ => {
                let number = |value: &Value| value.as_f64().unwrap_or_default();
                number(one).total_cmp(&number(two))
            }
        },
    }
}
