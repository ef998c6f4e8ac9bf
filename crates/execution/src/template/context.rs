//! The variables of a template: the arguments of one call and, for a follow-up request, the previous response.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{DynObject, Object, Serde, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::{Map, Value as Json};
use upstream::http::header::{self, HeaderMap, HeaderValue};

use super::piece::Piece;

/// The only variable of most templates.
pub(super) const ARGUMENTS: &str = "args";
/// The previous response, for a follow-up request: its JSON, its headers, and its `Location` header.
pub(super) const ANSWER: &str = "answer";
pub(super) const HEADERS: &str = "headers";
pub(super) const LOCATION: &str = "location";
/// Templates cannot use this variable, because only known names are allowed.
const BUDGET: &str = "budget";

/// The problem of a missing value.
pub(super) const MISSING: &str = "is missing";
const TOO_LARGE: &str = "is too large to send";

/// The arguments of a call. They are converted for the template engine on first use; sharing them is cheap.
pub(super) struct Shared<'a> {
    arguments: &'a Map<String, Json>,
    before: Option<Before<'a>>,
    marked: OnceCell<Value>,
}

/// The response to the previous request.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    pub(crate) answer: &'a Json,
    pub(crate) headers: &'a HeaderMap,
}

impl Before<'_> {
    fn variables(self) -> [(&'static str, Value); 3] {
        let told = |text: &HeaderValue| Some(Value::from_safe_string(text.to_str().ok()?.into()));
        let location = self.headers.get(header::LOCATION).and_then(told);
        let headers = self.headers.iter();
        let headers = headers.filter_map(|(name, text)| Some((name.as_str(), told(text)?)));
        [
            (ANSWER, marked(self.answer)),
            (HEADERS, Value::from_pairs(headers)),
            (LOCATION, location.unwrap_or(Value::UNDEFINED)),
        ]
    }

    pub(super) fn context(self) -> Value {
        Value::from_pairs(self.variables())
    }
}

/// The context of expressions in one position.
pub(super) struct Seen<'a> {
    shared: &'a Shared<'a>,
    budget: Arc<Budget>,
}

/// The remaining bytes of values that functions may read. A template can use one large argument a thousand times.
#[derive(Debug)]
struct Budget(AtomicUsize);

impl Object for Budget {}

impl Budget {
    fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn take(&self, size: usize) {
        self.0.fetch_sub(size, Ordering::Relaxed);
    }
}

impl<'a> Shared<'a> {
    pub(super) fn new(arguments: &'a Map<String, Json>) -> Self {
        Self { arguments, before: None, marked: OnceCell::new() }
    }

    pub(super) fn after(arguments: &'a Map<String, Json>, before: Before<'a>) -> Self {
        Self { before: Some(before), ..Self::new(arguments) }
    }

    /// A context with a budget of this many bytes.
    pub(super) fn within(&'a self, budget: usize) -> Seen<'a> {
        Seen { shared: self, budget: Arc::new(Budget(AtomicUsize::new(budget))) }
    }
}

impl Seen<'_> {
    /// The value of an argument, if it is present.
    pub(super) fn take(&self, name: &str) -> Result<Option<&Json>, &'static str> {
        let value = self.shared.arguments.get(name);
        if let Some(value) = value {
            self.budget.take(size_of(value, self.budget.left())?);
        }
        Ok(value)
    }

    /// All arguments except the named ones.
    pub(super) fn rest(&self, named: &[Box<str>]) -> Result<Vec<(&str, &Json)>, &'static str> {
        let members = self.shared.arguments.iter().map(|(name, value)| (name.as_str(), value));
        let is_other = |(name, _): &(&str, &Json)| !named.iter().any(|named| &**named == *name);
        let rest: Vec<_> = members.filter(is_other).collect();
        self.budget.take(size_of_members(rest.iter().copied(), self.budget.left())?);
        Ok(rest)
    }

    /// All variables, for the template engine.
    pub(super) fn context(&self) -> Value {
        let arguments = self.shared.marked.get_or_init(|| marked_members(self.shared.arguments));
        let budget = Value::from_dyn_object(DynObject::new(Arc::clone(&self.budget)));
        let before = self.shared.before.map(Before::variables).into_iter().flatten();
        Value::from_pairs(
            [(ARGUMENTS, arguments.clone()), (BUDGET, budget)].into_iter().chain(before),
        )
    }
}

fn marked_members(members: &Map<String, Json>) -> Value {
    Value::from_pairs(members.iter().map(|(name, value)| (name.as_str(), marked(value))))
}

/// Marks every string of a value as safe HTML, a flag of the engine that is otherwise unused: it distinguishes strings
/// of an agent from literals of the template. No allowed operator loses the mark.
fn marked(value: &Json) -> Value {
    match value {
        Json::String(text) => Value::from_safe_string(text.clone()),
        Json::Array(items) => items.iter().map(marked).collect(),
        Json::Object(members) => marked_members(members),
        Json::Null | Json::Bool(_) | Json::Number(_) => Value::from(Serde(value)),
    }
}

/// The text of a string literal in the template.
pub(super) fn literal(value: &Value) -> Option<&str> {
    value.as_str().filter(|_| !value.is_safe())
}

/// The value passed to a function, if it is present. The result of `json(…)` is a string like any other.
pub(super) fn given(state: &State<'_, '_>, value: &Value) -> Result<Option<Json>, Error> {
    match Piece::of(value) {
        Some(Piece::Json(text)) => return Ok(Some(String::from_utf8_lossy(text).into())),
        Some(Piece::Nothing) => return Ok(None),
        Some(_) | None if value.is_undefined() => return Ok(None),
        Some(_) | None => {}
    }
    let budget = state.lookup(BUDGET).unwrap_or_default();
    let Some(budget) = budget.downcast_object_ref::<Budget>() else {
        return Err(failed("has no arguments to see"));
    };
    budget.take(size(value, budget.left())?);
    Ok(Some(serde_json::to_value(value).map_err(|_| failed("is not JSON"))?))
}

/// The approximate size of a value when written, in bytes; fails as soon as it exceeds the limit.
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
        ValueKind::Undefined => return Err(failed(MISSING)),
        _ if Piece::of(value).is_some() => return Err(failed("is already encoded")),
        _ => return Err(failed("is not a value")),
    }
    if limit < size { Err(failed(TOO_LARGE)) } else { Ok(size) }
}

/// The approximate size of a JSON value, with the same limit.
fn size_of(value: &Json, limit: usize) -> Result<usize, &'static str> {
    let size = match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 4,
        Json::String(text) => 4 + text.len(),
        Json::Array(items) => {
            let mut size: usize = 4;
            for item in items {
                size += size_of(item, limit.saturating_sub(size))?;
            }
            size
        }
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.as_str(), value));
            return size_of_members(members, limit);
        }
    };
    if limit < size { Err(TOO_LARGE) } else { Ok(size) }
}

fn size_of_members<'a>(
    members: impl Iterator<Item = (&'a str, &'a Json)>,
    limit: usize,
) -> Result<usize, &'static str> {
    let mut size: usize = 4;
    for (name, value) in members {
        size += 4 + name.len();
        size += size_of(value, limit.saturating_sub(size))?;
    }
    if limit < size { Err(TOO_LARGE) } else { Ok(size) }
}

/// The error of a function about its argument: "the argument `id` …".
pub(super) fn failed(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
