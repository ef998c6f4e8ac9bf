//! The variables of a template: the arguments of one call and, for a follow-up request, the previous response.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{DynObject, Object, Serde, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::{Map, Value as Json};
use upstream::http::header;
use upstream::http::header::{HeaderMap, HeaderValue};

use super::encoded_piece::EncodedPiece;

/// The only variable of most templates.
pub(super) const ARGUMENTS_VARIABLE: &str = "args";
/// The previous response, for a follow-up request: its JSON, its headers, and its `Location` header.
pub(super) const ANSWER_VARIABLE: &str = "answer";
pub(super) const HEADERS_VARIABLE: &str = "headers";
pub(super) const LOCATION_VARIABLE: &str = "location";
/// Templates cannot use this variable, because only known names are allowed.
const BUDGET_VARIABLE: &str = "budget";

/// The problem of a missing value.
pub(super) const MISSING: &str = "is missing";
const TOO_LARGE: &str = "is too large to send";

/// The arguments of a call. They are converted for the template engine on first use; sharing them is cheap.
pub(super) struct TemplateArguments<'a> {
    arguments: &'a Map<String, Json>,
    before: Option<PreviousResponse<'a>>,
    marked: OnceCell<Value>,
}

/// The response to the previous request.
#[derive(Clone, Copy)]
pub(crate) struct PreviousResponse<'a> {
    pub(crate) answer: &'a Json,
    pub(crate) headers: &'a HeaderMap,
}

impl PreviousResponse<'_> {
    fn variables(self) -> [(&'static str, Value); 3] {
        let told = |text: &HeaderValue| Some(Value::from_safe_string(text.to_str().ok()?.into()));
        let location = self.headers.get(header::LOCATION).and_then(told);
        let headers = self.headers.iter();
        let headers = headers.filter_map(|(name, text)| Some((name.as_str(), told(text)?)));
        [
            (ANSWER_VARIABLE, mark_strings(self.answer)),
            (HEADERS_VARIABLE, Value::from_pairs(headers)),
            (LOCATION_VARIABLE, location.unwrap_or(Value::UNDEFINED)),
        ]
    }

    pub(super) fn engine_context(self) -> Value {
        Value::from_pairs(self.variables())
    }
}

/// The context of expressions in one position.
pub(super) struct TemplateContext<'a> {
    shared: &'a TemplateArguments<'a>,
    budget: Arc<ValueBudget>,
}

/// The remaining bytes of values that functions may read. A template can use one large argument a thousand times.
#[derive(Debug)]
struct ValueBudget(AtomicUsize);

impl Object for ValueBudget {}

impl ValueBudget {
    fn remaining(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn spend(&self, size: usize) {
        self.0.fetch_sub(size, Ordering::Relaxed);
    }
}

impl<'a> TemplateArguments<'a> {
    pub(super) fn new(arguments: &'a Map<String, Json>) -> Self {
        Self { arguments, before: None, marked: OnceCell::new() }
    }

    pub(super) fn with_previous_response(
        arguments: &'a Map<String, Json>,
        before: PreviousResponse<'a>,
    ) -> Self {
        Self { before: Some(before), ..Self::new(arguments) }
    }

    /// A context with a budget of this many bytes.
    pub(super) fn with_budget(&'a self, budget: usize) -> TemplateContext<'a> {
        TemplateContext { shared: self, budget: Arc::new(ValueBudget(AtomicUsize::new(budget))) }
    }
}

impl TemplateContext<'_> {
    /// The value of an argument, if it is present.
    pub(super) fn take_argument(&self, name: &str) -> Result<Option<&Json>, &'static str> {
        let value = self.shared.arguments.get(name);
        if let Some(value) = value {
            self.budget.spend(json_size(value, self.budget.remaining())?);
        }
        Ok(value)
    }

    /// All arguments except the named ones.
    pub(super) fn take_other_arguments(
        &self,
        named: &[Box<str>],
    ) -> Result<Vec<(&str, &Json)>, &'static str> {
        let members = self.shared.arguments.iter().map(|(name, value)| (name.as_str(), value));
        let is_other = |(name, _): &(&str, &Json)| !named.iter().any(|named| &**named == *name);
        let rest: Vec<_> = members.filter(is_other).collect();
        self.budget.spend(fields_size(rest.iter().copied(), self.budget.remaining())?);
        Ok(rest)
    }

    /// All variables, for the template engine.
    pub(super) fn engine_context(&self) -> Value {
        let arguments = self.shared.marked.get_or_init(|| mark_fields(self.shared.arguments));
        let budget = Value::from_dyn_object(DynObject::new(Arc::clone(&self.budget)));
        let before = self.shared.before.map(PreviousResponse::variables).into_iter().flatten();
        Value::from_pairs(
            [(ARGUMENTS_VARIABLE, arguments.clone()), (BUDGET_VARIABLE, budget)]
                .into_iter()
                .chain(before),
        )
    }
}

fn mark_fields(members: &Map<String, Json>) -> Value {
    Value::from_pairs(members.iter().map(|(name, value)| (name.as_str(), mark_strings(value))))
}

/// Marks every string of a value as safe HTML, a flag of the engine that is otherwise unused: it distinguishes strings
/// of an agent from literals of the template. No allowed operator loses the mark.
fn mark_strings(value: &Json) -> Value {
    match value {
        Json::String(text) => Value::from_safe_string(text.clone()),
        Json::Array(items) => items.iter().map(mark_strings).collect(),
        Json::Object(members) => mark_fields(members),
        Json::Null | Json::Bool(_) | Json::Number(_) => Value::from(Serde(value)),
    }
}

/// The text of a string literal in the template.
pub(super) fn template_literal(value: &Value) -> Option<&str> {
    value.as_str().filter(|_| !value.is_safe())
}

/// The value passed to a function, if it is present. The result of `json(…)` is a string like any other.
pub(super) fn value_argument(state: &State<'_, '_>, value: &Value) -> Result<Option<Json>, Error> {
    match EncodedPiece::from_value(value) {
        Some(EncodedPiece::Json(text)) => return Ok(Some(String::from_utf8_lossy(text).into())),
        Some(EncodedPiece::Nothing) => return Ok(None),
        Some(_) | None if value.is_undefined() => return Ok(None),
        Some(_) | None => {}
    }
    let budget = state.lookup(BUDGET_VARIABLE).unwrap_or_default();
    let Some(budget) = budget.downcast_object_ref::<ValueBudget>() else {
        return Err(argument_failure("has no arguments to see"));
    };
    budget.spend(engine_value_size(value, budget.remaining())?);
    Ok(Some(serde_json::to_value(value).map_err(|_| argument_failure("is not JSON"))?))
}

/// The approximate size of a value when written, in bytes; fails as soon as it exceeds the limit.
fn engine_value_size(value: &Value, limit: usize) -> Result<usize, Error> {
    let mut size = 4;
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {}
        ValueKind::String => size += value.as_str().map_or(0, str::len),
        ValueKind::Seq => {
            for item in value.try_iter()? {
                size += self::engine_value_size(&item, limit.saturating_sub(size))?;
            }
        }
        ValueKind::Map => {
            for name in value.try_iter()? {
                size += self::engine_value_size(&name, limit.saturating_sub(size))?;
                size +=
                    self::engine_value_size(&value.get_item(&name)?, limit.saturating_sub(size))?;
            }
        }
        ValueKind::Undefined => return Err(argument_failure(MISSING)),
        _ if EncodedPiece::from_value(value).is_some() => {
            return Err(argument_failure("is already encoded"));
        }
        _ => return Err(argument_failure("is not a value")),
    }
    if limit < size { Err(argument_failure(TOO_LARGE)) } else { Ok(size) }
}

/// The approximate size of a JSON value, with the same limit.
fn json_size(value: &Json, limit: usize) -> Result<usize, &'static str> {
    let size = match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 4,
        Json::String(text) => 4 + text.len(),
        Json::Array(items) => {
            let mut size: usize = 4;
            for item in items {
                size += json_size(item, limit.saturating_sub(size))?;
            }
            size
        }
        Json::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.as_str(), value));
            return fields_size(members, limit);
        }
    };
    if limit < size { Err(TOO_LARGE) } else { Ok(size) }
}

fn fields_size<'a>(
    members: impl Iterator<Item = (&'a str, &'a Json)>,
    limit: usize,
) -> Result<usize, &'static str> {
    let mut size: usize = 4;
    for (name, value) in members {
        size += 4 + name.len();
        size += json_size(value, limit.saturating_sub(size))?;
    }
    if limit < size { Err(TOO_LARGE) } else { Ok(size) }
}

/// The error of a function about its argument: "the argument `id` …".
pub(super) fn argument_failure(problem: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem)
}
