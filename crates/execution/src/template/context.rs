//! What a template can see: the arguments of one call, and nothing else.

use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Object, Serde, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::{Map, Value as Json};

use super::piece::Piece;

/// The one variable of templates.
pub(super) const ARGUMENTS: &str = "args";
/// Out of reach for templates: they may only use the names they know.
const BUDGET: &str = "budget";

/// How many bytes of values functions may still take. A template can name one large argument a thousand times.
#[derive(Debug)]
struct Budget(AtomicUsize);

impl Object for Budget {}

/// The arguments in the engine's own form, which is cheap to share.
pub(super) fn shared(arguments: &Map<String, Json>) -> Value {
    Value::from_pairs(arguments.iter().map(|(name, value)| (name.as_str(), marked(value))))
}

/// Every text in it bears the mark that the engine has for HTML, which has no use here: it tells what an agent wrote
/// from what the template says. Expressions have no operator that would lose it.
fn marked(value: &Json) -> Value {
    match value {
        Json::String(text) => Value::from_safe_string(text.clone()),
        Json::Array(items) => items.iter().map(marked).collect(),
        Json::Object(members) => shared(members),
        Json::Null | Json::Bool(_) | Json::Number(_) => Value::from(Serde(value)),
    }
}

/// The text of a string literal in the template.
pub(super) fn literal(value: &Value) -> Option<&str> {
    value.as_str().filter(|_| !value.is_safe())
}

pub(super) fn context(arguments: &Value, budget: usize) -> Value {
    Value::from_pairs([
        (ARGUMENTS, arguments.clone()),
        (BUDGET, Value::from_object(Budget(AtomicUsize::new(budget)))),
    ])
}

/// The value a function was given, or none if it is not there. `json(…)` is a text like any other.
pub(super) fn given(state: &State<'_, '_>, value: &Value) -> Result<Option<Json>, Error> {
    match Piece::of(value) {
        Some(Piece::Json(text)) => return Ok(Some(String::from_utf8_lossy(text).into())),
        Some(Piece::Nothing) => return Ok(None),
        Some(_) | None if value.is_undefined() => return Ok(None),
        Some(_) | None => {}
    }
    let budget = state.lookup(BUDGET).unwrap_or_default();
    let Some(Budget(left)) = budget.downcast_object_ref() else {
        return Err(failed("has no arguments to see"));
    };
    let size = size(value, left.load(Ordering::Relaxed))?;
    left.fetch_sub(size, Ordering::Relaxed);
    Ok(Some(serde_json::to_value(value).map_err(|_| failed("is not JSON"))?))
}

/// About as many bytes as the value takes when it is written, or an error as soon as it is more than the limit.
fn size(value: &Value, limit: usize) -> Result<usize, Error> {
    let mut size = 4;
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {}
        ValueKind::String => size += value.as_str().map_or(0, str::len),
        ValueKind::Seq => {
            for item in value.try_iter()? {
                size += self::size(&item, limit.saturating_sub(size))?;
            }
        }
        ValueKind::Map => {
            for name in value.try_iter()? {
                size += self::size(&name, limit.saturating_sub(size))?;
                size += self::size(&value.get_item(&name)?, limit.saturating_sub(size))?;
            }
        }
        ValueKind::Undefined => return Err(failed("is missing")),
        _ if Piece::of(value).is_some() => return Err(failed("is already encoded")),
        _ => return Err(failed("is not a value")),
    }
    if limit < size { Err(failed("is too large to send")) } else { Ok(size) }
}

/// A failure of a function, told about its argument: "the argument `id` …".
pub(super) fn failed(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
