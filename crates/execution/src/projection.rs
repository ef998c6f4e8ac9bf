//! Projections: a JMESPath expression of an admin selects the part of a tool's JSON that agents receive.
//!
//! Expressions are checked when they are set. They are evaluated here, because the parsing library does not limit the
//! work, and a short expression can cause a lot (`[@,@][] | [@,@][] | …`). Fields keep their order, and numbers all
//! digits.

mod check;
mod functions;

use std::borrow::Cow;

use jmespath::ast::{Ast, Comparator};
use serde_json::{Map, Value};

/// The maximum length of an expression, in bytes.
const LONGEST: usize = 2_000;
/// The maximum cost of one evaluation, in copied bytes. Every step costs as much as one value.
const WORK: usize = 128 << 20;
/// The approximate size of a value, in bytes.
const STEP: usize = 64;

static NULL: Value = Value::Null;

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Projection(Ast);

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

type Found<'v> = Result<Cow<'v, Value>, ProjectionError>;

impl Projection {
    /// Parses and checks an expression.
    pub fn compile(text: &str) -> Result<Self, InvalidProjection> {
        check::read(text).map(Self)
    }

    /// The part of a result that the projection selects.
    pub fn apply(&self, answer: &Value) -> Result<Value, ProjectionError> {
        self.apply_within(answer, WORK)
    }

    /// Applies the projection with a smaller limit on the work, in bytes.
    pub fn apply_within(&self, answer: &Value, work: usize) -> Result<Value, ProjectionError> {
        let mut work = Work { left: work };
        let found = work.find(&self.0, answer)?;
        work.own(found)
    }
}

/// The remaining work of one evaluation.
struct Work {
    left: usize,
}

impl Work {
    fn spend(&mut self, bytes: usize) -> Result<(), ProjectionError> {
        self.left = self.left.checked_sub(bytes).ok_or(ProjectionError::TooMuchWork)?;
        Ok(())
    }

    /// Charges for copying or comparing a whole value.
    fn look_at(&mut self, value: &Value) -> Result<(), ProjectionError> {
        self.spend(STEP)?;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
            Value::String(text) => self.spend(text.len()),
            Value::Array(items) => items.iter().try_for_each(|item| self.look_at(item)),
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                self.spend(name.len())?;
                self.look_at(member)
            }),
        }
    }

    fn own(&mut self, found: Cow<'_, Value>) -> Result<Value, ProjectionError> {
        match found {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                self.look_at(value)?;
                Ok(value.clone())
            }
        }
    }

    fn owned<'v>(&mut self, ast: &Ast, from: &'v Value) -> Result<Value, ProjectionError> {
        let found: Cow<'v, Value> = self.find(ast, from)?;
        self.own(found)
    }

    /// Evaluates an expression on a value.
    fn find<'v>(&mut self, ast: &Ast, from: &'v Value) -> Found<'v> {
        self.spend(STEP)?;
        match ast {
            Ast::Identity { .. } => Ok(Cow::Borrowed(from)),
            Ast::Field { name, .. } => Ok(Cow::Borrowed(from.get(name).unwrap_or(&NULL))),
            Ast::Index { idx, .. } => Ok(Cow::Borrowed(item(from, *idx).unwrap_or(&NULL))),
            Ast::Literal { value, .. } => {
                let value = serde_json::to_value(value).unwrap_or_default();
                self.look_at(&value)?;
                Ok(Cow::Owned(value))
            }
            Ast::Subexpr { lhs, rhs, .. } => {
                let left = self.find(lhs, from)?;
                self.within(left, |work, left| work.find(rhs, left))
            }
            Ast::And { lhs, rhs, .. } => match self.find(lhs, from)? {
                left if is_truthy(&left) => self.find(rhs, from),
                left => Ok(left),
            },
            Ast::Or { lhs, rhs, .. } => match self.find(lhs, from)? {
                left if is_truthy(&left) => Ok(left),
                _ => self.find(rhs, from),
            },
            Ast::Not { node, .. } => {
                let is_so = is_truthy(&*self.find(node, from)?);
                Ok(Cow::Owned(Value::Bool(!is_so)))
            }
            Ast::Condition { predicate, then, .. } => {
                match is_truthy(&*self.find(predicate, from)?) {
                    true => self.find(then, from),
                    false => Ok(Cow::Borrowed(&NULL)),
                }
            }
            Ast::Comparison { comparator, lhs, rhs, .. } => {
                let (left, right) = (self.find(lhs, from)?, self.find(rhs, from)?);
                self.look_at(&left)?;
                let said = compared(comparator, &left, &right);
                Ok(Cow::Owned(said.map_or(Value::Null, Value::Bool)))
            }
            Ast::MultiList { .. } | Ast::MultiHash { .. } if from.is_null() => {
                Ok(Cow::Borrowed(&NULL))
            }
            Ast::MultiList { elements, .. } => {
                let items: Result<_, _> =
                    elements.iter().map(|ast| self.owned(ast, from)).collect();
                Ok(Cow::Owned(Value::Array(items?)))
            }
            Ast::MultiHash { elements, .. } => {
                let mut members = Map::new();
                for pair in elements {
                    members.insert(pair.key.clone(), self.owned(&pair.value, from)?);
                }
                Ok(Cow::Owned(Value::Object(members)))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let left = self.find(lhs, from)?;
                self.of_list(&left, |work, items| work.each(rhs, items))
            }
            Ast::Flatten { node, .. } => {
                let list = self.find(node, from)?;
                self.of_list(&list, Self::flattened)
            }
            Ast::ObjectValues { node, .. } => {
                let object = self.find(node, from)?;
                match &*object {
                    Value::Object(members) => self.copies(members.values()),
                    _ => Ok(Cow::Borrowed(&NULL)),
                }
            }
            Ast::Slice { start, stop, step, .. } => {
                let list = Cow::Borrowed(from);
                self.of_list(&list, |work, items| {
                    let places = places(items.len(), *start, *stop, *step);
                    let found = work.copies(places.into_iter().filter_map(|at| items.get(at)))?;
                    work.own(found)
                })
            }
            Ast::Function { name, args, .. } => {
                functions::call(self, name, args, from).map(Cow::Owned)
            }
            // `check` ensures that it occurs only as an argument.
            Ast::Expref { .. } => Ok(Cow::Borrowed(&NULL)),
        }
    }

    fn within<'v>(
        &mut self,
        left: Cow<'v, Value>,
        find: impl for<'w> FnOnce(&mut Self, &'w Value) -> Found<'w>,
    ) -> Found<'v> {
        match left {
            Cow::Borrowed(left) => find(self, left),
            Cow::Owned(left) => {
                let found = find(self, &left)?;
                self.own(found).map(Cow::Owned)
            }
        }
    }

    fn of_list(
        &mut self,
        list: &Value,
        make: impl FnOnce(&mut Self, &[Value]) -> Result<Value, ProjectionError>,
    ) -> Found<'static> {
        match list {
            Value::Array(items) => make(self, items).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(&NULL)),
        }
    }

    /// Evaluates an expression on each item, and drops null results.
    fn each(&mut self, ast: &Ast, items: &[Value]) -> Result<Value, ProjectionError> {
        let mut all = Vec::new();
        for item in items {
            let found = self.find(ast, item)?;
            if !found.is_null() {
                all.push(self.own(found)?);
            }
        }
        Ok(Value::Array(all))
    }

    fn flattened(&mut self, items: &[Value]) -> Result<Value, ProjectionError> {
        let parts = items.iter().flat_map(|item| match item {
            Value::Array(parts) => parts.as_slice(),
            item => std::slice::from_ref(item),
        });
        let all = self.copies(parts)?;
        self.own(all)
    }

    fn copies<'i>(&mut self, items: impl Iterator<Item = &'i Value>) -> Found<'static> {
        let all: Result<_, _> = items.map(|item| self.own(Cow::Borrowed(item))).collect();
        Ok(Cow::Owned(Value::Array(all?)))
    }
}

/// The item at an index; a negative index counts from the end.
fn item(from: &Value, index: i32) -> Option<&Value> {
    let items = from.as_array()?;
    let back = usize::try_from(index.unsigned_abs()).ok()?;
    match index < 0 {
        true => items.get(items.len().checked_sub(back)?),
        false => items.get(back),
    }
}

/// The indices of a slice, with the semantics of Python.
fn places(length: usize, start: Option<i32>, stop: Option<i32>, step: i32) -> Vec<usize> {
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
fn compared(comparator: &Comparator, left: &Value, right: &Value) -> Option<bool> {
    let are_numbers = left.is_number() && right.is_number();
    let order = || are_numbers.then(|| functions::order(left, right));
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
