//! The values of expressions: JSON values that know their size and count all work against a limit.
//!
//! The interpreter is generic over its values and does nothing without copying, comparing or creating one, so the limit
//! is enforced here. When the limit is reached, the operation unwinds instead of returning: this is the only way out of
//! an endless loop. `evaluate` catches the unwinding. Each use of a shared value counts.

mod value_access;
mod value_arithmetic;
mod value_order;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use jaq_core::Error;
use jaq_core::val::Range;
use serde_json::{Number, Value};

/// Maximum nesting depth of arrays and objects.
pub(super) const MAX_VALUE_DEPTH: u16 = 64;
/// Bytes of text that count as one value.
const TEXT_BYTES_PER_VALUE: usize = 64;

/// Maximum duration of one evaluation; checked once per `TIME_CHECK_INTERVAL` units of work.
const MAX_EVALUATION_TIME: Duration = Duration::from_secs(2);
const TIME_CHECK_INTERVAL: u64 = 256;

/// Maximum stack of one evaluation, in bytes: the input decides the length of paths, and the interpreter recurses as
/// deep. The threads of `deep_stack` have more than twice this size.
const MAX_EVALUATION_STACK: usize = 24 << 20;

thread_local! {
    static START: Cell<usize> = const { Cell::new(0) };
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The limit that stopped an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    TooMuchWork,
    TooDeep,
}

/// Starts an evaluation on this thread, with this work limit.
pub(super) fn start_limits(work: u64) {
    START.set(stack_position());
    LEFT.set(work);
    UNTIL.set(Some(Instant::now() + MAX_EVALUATION_TIME));
}

/// The work that is left to the evaluation.
pub(super) fn remaining_work() -> u64 {
    LEFT.get()
}

/// Counts some work against the limit.
pub(super) fn spend_work(work: u64) {
    if MAX_EVALUATION_STACK < START.get().abs_diff(stack_position()) {
        abort_evaluation(ExceededLimit::TooDeep);
    }
    let before = LEFT.get();
    let left = before.saturating_sub(work);
    LEFT.set(left);
    let is_late = || UNTIL.get().is_some_and(|until| until < Instant::now());
    if before < work || (before / TIME_CHECK_INTERVAL != left / TIME_CHECK_INTERVAL && is_late()) {
        abort_evaluation(ExceededLimit::TooMuchWork);
    }
}

/// The approximate address of the top of the stack.
#[inline(always)]
fn stack_position() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

fn abort_evaluation(why: ExceededLimit) -> ! {
    // Resume unwinding instead of panicking: the panic hook prints nothing, and only `evaluate` catches it.
    std::panic::resume_unwind(Box::new(why))
}

/// A JSON value as jq sees it.
#[derive(Debug)]
pub(super) enum JqValue {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    List(Rc<JqArray>),
    Object(Rc<JqObject>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct JqArray {
    items: Vec<JqValue>,
    shape: ContentSize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct JqObject {
    members: IndexMap<Rc<str>, JqValue>,
    shape: ContentSize,
}

/// Size and depth of the contents of an array or object.
#[derive(Clone, Copy, Debug, Default)]
struct ContentSize {
    size: u64,
    /// Upper bound of the nesting depth.
    depth: u16,
}

impl ContentSize {
    fn add_value(&mut self, datum: &JqValue) {
        self.size = self.size.saturating_add(datum.value_count());
        self.depth = self.depth.max(datum.nesting_depth());
        if MAX_VALUE_DEPTH <= self.depth {
            abort_evaluation(ExceededLimit::TooDeep);
        }
    }

    fn remove_value(&mut self, datum: &JqValue) {
        self.size = self.size.saturating_sub(datum.value_count());
    }

    /// Null replaces the value.
    fn replace_with_null(&mut self, datum: &JqValue) {
        self.remove_value(datum);
        self.size = self.size.saturating_add(JqValue::Null.value_count());
    }
}

type JqError = Error<JqValue>;

impl JqValue {
    /// Number of values, including nested ones.
    pub(super) fn value_count(&self) -> u64 {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => 1,
            Self::Text(text) => 1 + text_size(text.len()),
            Self::List(list) => list.shape.size.saturating_add(1),
            Self::Object(object) => object.shape.size.saturating_add(1),
        }
    }

    fn nesting_depth(&self) -> u16 {
        match self {
            Self::List(list) => list.shape.depth + 1,
            Self::Object(object) => object.shape.depth + 1,
            _ => 0,
        }
    }

    pub(super) fn from_text(text: &str) -> Self {
        spend_work(1 + text_size(text.len()));
        Self::Text(text.into())
    }

    fn from_finite(number: f64) -> Result<Self, JqError> {
        match number.is_finite() {
            true => Ok(Self::Float(number)),
            false => Err(Error::str("the result is no number that JSON has")),
        }
    }

    fn as_number(&self) -> f64 {
        match self {
            Self::Int(whole) => *whole as f64,
            Self::Float(number) => *number,
            _ => 0.0,
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }

    fn from_members(members: impl Iterator<Item = (Rc<str>, Self)>) -> Self {
        let mut object = JqObject::default();
        for (name, value) in members {
            object.insert_member(name, value);
        }
        Self::Object(Rc::new(object))
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(is_so) => Self::Bool(*is_so),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Self::from_text(text),
            Value::Array(items) => items.iter().map(Self::from_json).collect(),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    spend_work(1);
                    (Rc::from(name.as_str()), Self::from_json(value))
                };
                Self::from_members(members.iter().map(member))
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        spend_work(self.value_count());
        self.to_json_unmetered()
    }

    fn to_json_unmetered(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is_so) => Value::Bool(*is_so),
            Self::Int(whole) => Value::from(*whole),
            Self::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Self::Text(text) => Value::from(&**text),
            Self::List(list) => list.items.iter().map(Self::to_json_unmetered).collect(),
            Self::Object(object) => {
                let member = |(name, value): (&Rc<str>, &Self)| {
                    (name.to_string(), value.to_json_unmetered())
                };
                Value::Object(object.members.iter().map(member).collect())
            }
        }
    }

    pub(super) fn length(&self) -> Result<Self, JqError> {
        spend_work(self.as_str().map_or(1, |text| text_size(text.len())));
        match self {
            Self::Null => Ok(Self::Int(0)),
            Self::Bool(_) => Err(Error::str("a boolean has no length")),
            Self::Int(whole) => {
                Ok(whole.checked_abs().map_or(Self::Float(-(*whole as f64)), Self::Int))
            }
            Self::Float(number) => Ok(Self::Float(number.abs())),
            Self::Text(text) => Ok(text.chars().count().into()),
            Self::List(list) => Ok(list.items.len().into()),
            Self::Object(object) => Ok(object.members.len().into()),
        }
    }

    pub(super) fn has_key(&self, key: &Self) -> Result<bool, JqError> {
        match (self, key) {
            (Self::Object(object), Self::Text(name)) => Ok(object.members.contains_key(name)),
            (Self::List(list), Self::Int(place)) => {
                Ok(usize::try_from(*place).is_ok_and(|place| place < list.items.len()))
            }
            _ => Err(Error::index(self.clone(), key.clone())),
        }
    }

    /// Whether the other value is contained in this one, as jq defines it.
    pub(super) fn contains(&self, other: &Self) -> bool {
        spend_work(1);
        match (self, other) {
            (Self::Text(text), Self::Text(part)) => {
                spend_work(text_size(text.len()));
                text.contains(&**part)
            }
            (Self::List(list), Self::List(parts)) => {
                parts.items.iter().all(|part| list.items.iter().any(|item| item.contains(part)))
            }
            (Self::Object(object), Self::Object(parts)) => parts
                .members
                .iter()
                .all(|(name, part)| object.members.get(name).is_some_and(|it| it.contains(part))),
            _ => self == other,
        }
    }

    /// The positions of the other value in this one.
    pub(super) fn indices_of(&self, other: &Self) -> Result<Self, JqError> {
        match (self, other) {
            (Self::Null, _) => Ok(Self::Null),
            (Self::Text(text), Self::Text(part)) => {
                spend_work(text_size(text.len()).saturating_mul(1 + text_size(part.len())));
                if part.is_empty() {
                    return Ok(Self::Null);
                }
                let starts = text.char_indices().enumerate();
                let found = starts.filter(|(_, (at, _))| {
                    text.as_bytes().get(*at..).is_some_and(|rest| rest.starts_with(part.as_bytes()))
                });
                Ok(found.map(|(place, _)| Self::from(place)).collect())
            }
            (Self::List(list), Self::List(parts)) if !parts.items.is_empty() => {
                let windows = list.items.windows(parts.items.len()).enumerate();
                let found = windows.filter(|(_, window)| *window == parts.items.as_slice());
                Ok(found.map(|(place, _)| Self::from(place)).collect())
            }
            (Self::List(_), Self::List(_)) => Ok(Self::Null),
            (Self::List(list), item) => {
                let items = list.items.iter().enumerate().filter(|(_, it)| *it == item);
                Ok(items.map(|(place, _)| Self::from(place)).collect())
            }
            _ => Err(Error::index(self.clone(), other.clone())),
        }
    }

    /// The bounds of a slice. Slices of strings count characters.
    fn slice_bounds(&self, range: Range<&Self>) -> Result<(usize, usize), JqError> {
        let length = match self {
            Self::Text(text) => {
                spend_work(text_size(text.len()));
                text.chars().count()
            }
            Self::List(list) => list.items.len(),
            _ => return Err(Error::typ(self.clone(), "something to take a part of")),
        };
        let place = |bound: Option<&Self>, otherwise: usize| match bound {
            None | Some(Self::Null) => Ok(otherwise),
            Some(Self::Int(place)) => Ok(clamp_index(*place, length)),
            Some(Self::Float(place)) => Ok(clamp_index(place.floor() as i64, length)),
            Some(other) => Err(Error::typ(other.clone(), "a place")),
        };
        let start = place(range.start, 0)?;
        let end = place(range.end, length)?;
        Ok((start, end.max(start)))
    }

    /// The range that an object with `start` and `end` describes.
    fn range_of_object(&self) -> Option<Range<&Self>> {
        let Self::Object(object) = self else { return None };
        Some(object.members.get("start")..object.members.get("end"))
    }

    fn index_within(&self, length: usize) -> Option<usize> {
        let place = match self {
            Self::Int(place) => *place,
            Self::Float(place) => place.floor() as i64,
            _ => return None,
        };
        let length = i64::try_from(length).ok()?;
        let place = if place < 0 { place.checked_add(length)? } else { place };
        usize::try_from(place).ok().filter(|_| place < length)
    }
}

impl JqObject {
    fn insert_member(&mut self, name: Rc<str>, value: JqValue) {
        spend_work(1);
        self.shape.add_value(&value);
        let of_name = 1 + text_size(name.len());
        match self.members.insert(name, value) {
            Some(old) => self.shape.remove_value(&old),
            None => self.shape.size = self.shape.size.saturating_add(of_name),
        }
    }
}

fn text_size(bytes: usize) -> u64 {
    (bytes / TEXT_BYTES_PER_VALUE) as u64
}

/// Clamps an index to the length; a negative index counts from the end.
fn clamp_index(place: i64, length: usize) -> usize {
    let length_too = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if place < 0 { place.saturating_add(length_too).max(0) } else { place };
    usize::try_from(place).map_or(length, |place| place.min(length))
}

impl Clone for JqValue {
    fn clone(&self) -> Self {
        spend_work(1);
        match self {
            Self::Null => Self::Null,
            Self::Bool(is_so) => Self::Bool(*is_so),
            Self::Int(whole) => Self::Int(*whole),
            Self::Float(number) => Self::Float(*number),
            Self::Text(text) => Self::Text(Rc::clone(text)),
            Self::List(list) => Self::List(Rc::clone(list)),
            Self::Object(object) => Self::Object(Rc::clone(object)),
        }
    }
}

impl fmt::Display for JqValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

impl From<bool> for JqValue {
    fn from(is_so: bool) -> Self {
        Self::Bool(is_so)
    }
}
impl From<isize> for JqValue {
    fn from(whole: isize) -> Self {
        spend_work(1);
        Self::Int(whole as i64)
    }
}
impl From<usize> for JqValue {
    fn from(whole: usize) -> Self {
        spend_work(1);
        i64::try_from(whole).map_or(Self::Float(whole as f64), Self::Int)
    }
}
impl From<f64> for JqValue {
    fn from(number: f64) -> Self {
        spend_work(1);
        if number.is_finite() { Self::Float(number) } else { Self::Null }
    }
}
impl From<String> for JqValue {
    fn from(text: String) -> Self {
        Self::from_text(&text)
    }
}
impl From<Range<Self>> for JqValue {
    fn from(range: Range<Self>) -> Self {
        let bounds = [("start", range.start), ("end", range.end)];
        let said = bounds.into_iter().filter_map(|(name, bound)| Some((name, bound?)));
        Self::from_members(said.map(|(name, bound)| (Rc::from(name), bound)))
    }
}

impl FromIterator<Self> for JqValue {
    fn from_iter<T: IntoIterator<Item = Self>>(items: T) -> Self {
        let mut list = JqArray::default();
        spend_work(1);
        for item in items {
            list.push_item(item);
        }
        Self::List(Rc::new(list))
    }
}

impl JqArray {
    fn push_item(&mut self, item: JqValue) {
        spend_work(1);
        self.shape.add_value(&item);
        self.items.push(item);
    }
}
