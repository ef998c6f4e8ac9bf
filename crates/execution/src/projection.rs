//! Projections: a JMESPath expression of an admin selects the part of a tool's JSON that agents receive.
//!
//! Expressions are checked when they are set. They are evaluated here, because the parsing library does not limit the
//! work, and a short expression can cause a lot (`[@,@][] | [@,@][] | …`). Fields keep their order, and numbers all
//! digits.

mod jmespath_functions;
mod projection_check;

use std::borrow::Cow;

use jmespath::ast::{Ast, Comparator};
use serde_json::{Map, Value};

/// The maximum length of an expression, in bytes.
const LONGEST: usize = 2_000;
/// The maximum cost of one evaluation, in copied bytes. Every step costs as much as one value.
const MAX_WORK_BYTES: usize = 128 << 20;
/// The approximate size of a value, in bytes.
const STEP_BYTES: usize = 64;

static NULL: Value = Value::Null;

/// A checked expression.
#[derive(Clone, Debug)]
pub struct ResultProjection(Ast);

/// Why a text is not a valid projection.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProjection {
    #[error("is longer than {LONGEST} bytes")]
    TooLong,
    #[error("is nested too deeply")]
    TooDeep,
    #[error("is not JMESPath: {why} (at character {at})")]
    Syntax { why: String, at: usize },
    #[error("calls `{name}`, which is no function of JMESPath")]
    NoSuchFunction { name: String },
    #[error("calls `{name}` with other arguments than it takes")]
    WrongArguments { name: String },
    #[error("has a slice with the step 0")]
    NoStep,
}

/// Why a projection could not be applied to a result.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProjectionError {
    #[error("it takes too much work for an answer of that size")]
    TooMuchWork,
    #[error("`{function}` was given something that it does not take")]
    WrongType { function: String },
}

type EvaluationResult<'v> = Result<Cow<'v, Value>, ProjectionError>;

impl ResultProjection {
    /// Parses and checks an expression.
    pub fn compile(text: &str) -> Result<Self, InvalidProjection> {
        projection_check::parse_projection(text).map(Self)
    }

    /// The part of a result that the projection selects.
    pub fn apply(&self, answer: &Value) -> Result<Value, ProjectionError> {
        self.apply_with_limit(answer, MAX_WORK_BYTES)
    }

    /// Applies the projection with a smaller limit on the work, in bytes.
    pub fn apply_with_limit(&self, answer: &Value, work: usize) -> Result<Value, ProjectionError> {
        let mut work = ProjectionWork { remaining_bytes: work };
        let found = work.evaluate(&self.0, answer)?;
        work.own_value(found)
    }
}

/// The remaining work of one evaluation.
struct ProjectionWork {
    remaining_bytes: usize,
}

impl ProjectionWork {
    fn spend(&mut self, bytes: usize) -> Result<(), ProjectionError> {
        self.remaining_bytes =
            self.remaining_bytes.checked_sub(bytes).ok_or(ProjectionError::TooMuchWork)?;
        Ok(())
    }

    /// Charges for copying or comparing a whole value.
    fn charge_value(&mut self, value: &Value) -> Result<(), ProjectionError> {
        self.spend(STEP_BYTES)?;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.spend(text.len()),
            Value::Array(items) => items.iter().try_for_each(|item| self.charge_value(item)),
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                self.spend(name.len())?;
                self.charge_value(member)
            }),
        }
    }

    fn own_value(&mut self, found: Cow<'_, Value>) -> Result<Value, ProjectionError> {
        match found {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                self.charge_value(value)?;
                Ok(value.clone())
            }
        }
    }

    fn evaluate_owned<'v>(&mut self, ast: &Ast, from: &'v Value) -> Result<Value, ProjectionError> {
        let found: Cow<'v, Value> = self.evaluate(ast, from)?;
        self.own_value(found)
    }

    /// Evaluates an expression on a value.
    fn evaluate<'v>(&mut self, ast: &Ast, from: &'v Value) -> EvaluationResult<'v> {
        self.spend(STEP_BYTES)?;
        match ast {
            Ast::Identity { .. } => Ok(Cow::Borrowed(from)),
            Ast::Field { name, .. } => Ok(Cow::Borrowed(from.get(name).unwrap_or(&NULL))),
            Ast::Index { idx, .. } => Ok(Cow::Borrowed(item_at(from, *idx).unwrap_or(&NULL))),
            Ast::Literal { value, .. } => {
                let value = serde_json::to_value(value).unwrap_or_default();
                self.charge_value(&value)?;
                Ok(Cow::Owned(value))
            }
            Ast::Subexpr { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, from)?;
                self.evaluate_on(left, |work, left| work.evaluate(rhs, left))
            }
            Ast::And { lhs, rhs, .. } => match self.evaluate(lhs, from)? {
                left if is_truthy(&left) => self.evaluate(rhs, from),
                left => Ok(left),
            },
            Ast::Or { lhs, rhs, .. } => match self.evaluate(lhs, from)? {
                left if is_truthy(&left) => Ok(left),
                _ => self.evaluate(rhs, from),
            },
            Ast::Not { node, .. } => {
                let is_so = is_truthy(&*self.evaluate(node, from)?);
                Ok(Cow::Owned(Value::Bool(!is_so)))
            }
            Ast::Condition { predicate, then, .. } => {
                match is_truthy(&*self.evaluate(predicate, from)?) {
                    true => self.evaluate(then, from),
                    false => Ok(Cow::Borrowed(&NULL)),
                }
            }
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                let (left, right) = (self.evaluate(lhs, from)?, self.evaluate(rhs, from)?);
                self.charge_value(&left)?;
                let said = compare_values(comparator, &left, &right);
                Ok(Cow::Owned(said.map_or(Value::Null, Value::Bool)))
            }
            Ast::MultiList { .. } | Ast::MultiHash { .. } if from.is_null() => {
                Ok(Cow::Borrowed(&NULL))
            }
            Ast::MultiList { elements, .. } => {
                let items: Result<_, _> =
                    elements.iter().map(|ast| self.evaluate_owned(ast, from)).collect();
                Ok(Cow::Owned(Value::Array(items?)))
            }
            Ast::MultiHash { elements, .. } => {
                let mut members = Map::new();
                for pair in elements {
                    members.insert(pair.key.clone(), self.evaluate_owned(&pair.value, from)?);
                }
                Ok(Cow::Owned(Value::Object(members)))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, from)?;
                self.map_list(&left, |work, items| work.project_items(rhs, items))
            }
            Ast::Flatten { node, .. } => {
                let list = self.evaluate(node, from)?;
                self.map_list(&list, Self::flatten_items)
            }
            Ast::ObjectValues { node, .. } => {
                let object = self.evaluate(node, from)?;
                match &*object {
                    Value::Object(members) => self.copy_items(members.values()),
                    _ => Ok(Cow::Borrowed(&NULL)),
                }
            }
            Ast::Slice { start, stop, step, .. } => {
                let list = Cow::Borrowed(from);
                self.map_list(&list, |work, items| {
                    let places = slice_indices(items.len(), *start, *stop, *step);
                    let found =
                        work.copy_items(places.into_iter().filter_map(|at| items.get(at)))?;
                    work.own_value(found)
                })
            }
            Ast::Function { name, args, .. } => {
                jmespath_functions::call_function(self, name, args, from).map(Cow::Owned)
            }
            // `check` ensures that it occurs only as an argument.
            Ast::Expref { .. } => Ok(Cow::Borrowed(&NULL)),
        }
    }

    fn evaluate_on<'v>(
        &mut self,
        left: Cow<'v, Value>,
        find: impl for<'w> FnOnce(&mut Self, &'w Value) -> EvaluationResult<'w>,
    ) -> EvaluationResult<'v> {
        match left {
            Cow::Borrowed(left) => find(self, left),
            Cow::Owned(left) => {
                let found = find(self, &left)?;
                self.own_value(found).map(Cow::Owned)
            }
        }
    }

    fn map_list(
        &mut self,
        list: &Value,
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Value, ProjectionError>,
    ) -> EvaluationResult<'static> {
        match list {
            Value::Array(items) => make(self, items).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(&NULL)),
        }
    }

    /// Evaluates an expression on each item, and drops null results.
    fn project_items(&mut self, ast: &Ast, items: &[Value]) -> Result<Value, ProjectionError> {
        let mut all = Vec::new();
        for item in items {
            let found = self.evaluate(ast, item)?;
            if !found.is_null() {
                all.push(self.own_value(found)?);
            }
        }
        Ok(Value::Array(all))
    }

    fn flatten_items(&mut self, items: &[Value]) -> Result<Value, ProjectionError> {
        let parts = items.iter().flat_map(|item| match item {
            Value::Array(parts) => parts.as_slice(),
            item => std::slice::from_ref(item),
        });
        let all = self.copy_items(parts)?;
        self.own_value(all)
    }

    fn copy_items<'i>(
        &mut self,
        items: impl Iterator<Item = &'i Value>,
    ) -> EvaluationResult<'static> {
        let all: Result<_, _> = items.map(|item| self.own_value(Cow::Borrowed(item))).collect();
        Ok(Cow::Owned(Value::Array(all?)))
    }
}

/// The item at an index; a negative index counts from the end.
fn item_at(from: &Value, index: i32) -> Option<&Value> {
    let items = from.as_array()?;
    let back = usize::try_from(index.unsigned_abs()).ok()?;
    match index < 0 {
        true => items.get(items.len().checked_sub(back)?),
        false => items.get(back),
    }
}

/// The indices of a slice, with the semantics of Python.
fn slice_indices(length: usize, start: Option<i32>, stop: Option<i32>, step: i32) -> Vec<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let step = i64::from(step);
    let (lowest, highest) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let clamped = |given: Option<i32>, otherwise: i64| match given.map(i64::from) {
        Some(given) if given < 0 => (given + length).clamp(lowest, highest),
        Some(given) => given.clamp(lowest, highest),
        None => otherwise,
    };
    let (first, end) = if step < 0 { (highest, lowest) } else { (lowest, highest) };
    let (mut at, end) = (clamped(start, first), clamped(stop, end));
    let mut places = Vec::new();
    while step != 0 && (if step < 0 { end < at } else { at < end }) {
        places.extend(usize::try_from(at));
        at += step;
    }
    places
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_so) => *is_so,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

/// Compares two values; ordering is defined only for numbers.
fn compare_values(comparator: &Comparator, left: &Value, right: &Value) -> Option<bool> {
    let are_numbers = left.is_number() && right.is_number();
    let order = || are_numbers.then(|| jmespath_functions::compare_exactly(left, right));
    let is_equal = || left == right || order().is_some_and(std::cmp::Ordering::is_eq);
    match comparator {
        Comparator::Equal => Some(is_equal()),
        Comparator::NotEqual => Some(!is_equal()),
        Comparator::LessThan => order().map(std::cmp::Ordering::is_lt),
        Comparator::LessThanEqual => order().map(std::cmp::Ordering::is_le),
        Comparator::GreaterThan => order().map(std::cmp::Ordering::is_gt),
        Comparator::GreaterThanEqual => order().map(std::cmp::Ordering::is_ge),
    }
}

#[cfg(test)]
mod tests;
