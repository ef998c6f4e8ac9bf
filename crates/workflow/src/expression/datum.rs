//! The values of expressions: JSON values that know their size and count all work against a limit.
//!
//! The interpreter is generic over its values and does nothing without copying, comparing or creating one, so the limit
//! is enforced here. When the limit is reached, the operation unwinds instead of returning: this is the only way out of
//! an endless loop. `evaluate` catches the unwinding. Each use of a shared value counts.

mod access;
mod arithmetic;
mod order;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use jaq_core::Error;
use jaq_core::val::Range;
use serde_json::{Number, Value};

/// Maximum nesting depth of arrays and objects.
pub(super) const DEEPEST: u16 = 64;
/// Bytes of text that count as one value.
const TEXT: usize = 64;

/// Maximum duration of one evaluation; checked once per `TIME_CHECK_INTERVAL` units of work.
const LONGEST: Duration = Duration::from_secs(2);
const LOOK_EVERY: u64 = 256;

/// Maximum stack of one evaluation, in bytes: the input decides the length of paths, and the interpreter recurses as
/// deep. The threads of `deep_stack` have more than twice this size.
const STACK: usize = 24 << 20;

thread_local! {
    static START: Cell<usize> = const { Cell::new(0) };
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The limit that stopped an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    TooMuchWork,
    TooDeep,
}

/// Starts an evaluation on this thread, with this work limit.
pub(super) fn allow(work: u64) {
    START.set(here());
    LEFT.set(work);
    UNTIL.set(Some(Instant::now() + LONGEST));
}

/// The work that is left to the evaluation.
pub(super) fn left() -> u64 {
    LEFT.get()
}

/// Counts some work against the limit.
pub(super) fn spend(work: u64) {
    if STACK < START.get().abs_diff(here()) {
        stop(Stopped::TooDeep);
    }
    let before = LEFT.get();
    let left = before.saturating_sub(work);
    LEFT.set(left);
    let is_late = || UNTIL.get().is_some_and(|until| until < Instant::now());
    if before < work || (before / LOOK_EVERY != left / LOOK_EVERY && is_late()) {
        stop(Stopped::TooMuchWork);
    }
}

/// The approximate address of the top of the stack.
#[inline(always)]
fn here() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(std::hint::black_box(&local)).addr()
}

fn stop(why: Stopped) -> ! {
    // Resume unwinding instead of panicking: the panic hook prints nothing, and only `evaluate` catches it.
    std::panic::resume_unwind(Box::new(why))
}

/// A JSON value as jq sees it.
#[derive(Debug)]
pub(super) enum Datum {
    Null,
    Bool(bool),
    Int(i64),
    /// Always finite.
    Float(f64),
    Text(Rc<str>),
    List(Rc<List>),
    Object(Rc<Object>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct List {
    items: Vec<Datum>,
    shape: Shape,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    members: IndexMap<Rc<str>, Datum>,
    shape: Shape,
}

/// Size and depth of the contents of an array or object.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    size: u64,
    /// Upper bound of the nesting depth.
    depth: u16,
}

impl Shape {
    fn add(&mut self, datum: &Datum) {
        self.size = self.size.saturating_add(datum.size());
        self.depth = self.depth.max(datum.depth());
        if DEEPEST <= self.depth {
            stop(Stopped::TooDeep);
        }
    }

    fn take(&mut self, datum: &Datum) {
        self.size = self.size.saturating_sub(datum.size());
    }

    /// Null replaces the value.
    fn lift(&mut self, datum: &Datum) {
        self.take(datum);
        self.size = self.size.saturating_add(Datum::Null.size());
    }
}

type Failed = Error<Datum>;

impl Datum {
    /// Number of values, including nested ones.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => 1,
            Self::Text(text) => 1 + size_of_text(text.len()),
            Self::List(list) => list.shape.size.saturating_add(1),
            Self::Object(object) => object.shape.size.saturating_add(1),
        }
    }

    fn depth(&self) -> u16 {
        match self {
            Self::List(list) => list.shape.depth + 1,
            Self::Object(object) => object.shape.depth + 1,
            _ => 0,
        }
    }

    pub(super) fn text(text: &str) -> Self {
        spend(1 + size_of_text(text.len()));
        Self::Text(text.into())
    }

    fn number(number: f64) -> Result<Self, Failed> {
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

    fn object(members: impl Iterator<Item = (Rc<str>, Self)>) -> Self {
        let mut object = Object::default();
        for (name, value) in members {
            object.put(name, value);
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
            Value::String(text) => Self::text(text),
            Value::Array(items) => items.iter().map(Self::from_json).collect(),
            Value::Object(members) => {
                let member = |(name, value): (&String, &Value)| {
                    spend(1);
                    (Rc::from(name.as_str()), Self::from_json(value))
                };
                Self::object(members.iter().map(member))
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        spend(self.size());
        self.json()
    }

    fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is_so) => Value::Bool(*is_so),
            Self::Int(whole) => Value::from(*whole),
            Self::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Self::Text(text) => Value::from(&**text),
            Self::List(list) => list.items.iter().map(Self::json).collect(),
            Self::Object(object) => {
                let member = |(name, value): (&Rc<str>, &Self)| (name.to_string(), value.json());
                Value::Object(object.members.iter().map(member).collect())
            }
        }
    }

    pub(super) fn length(&self) -> Result<Self, Failed> {
        spend(self.as_str().map_or(1, |text| size_of_text(text.len())));
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

    pub(super) fn has(&self, key: &Self) -> Result<bool, Failed> {
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
        spend(1);
        match (self, other) {
            (Self::Text(text), Self::Text(part)) => {
                spend(size_of_text(text.len()));
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
    pub(super) fn indices(&self, other: &Self) -> Result<Self, Failed> {
        match (self, other) {
            (Self::Null, _) => Ok(Self::Null),
            (Self::Text(text), Self::Text(part)) => {
                spend(size_of_text(text.len()).saturating_mul(1 + size_of_text(part.len())));
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
    fn bounds(&self, range: Range<&Self>) -> Result<(usize, usize), Failed> {
        let length = match self {
            Self::Text(text) => {
                spend(size_of_text(text.len()));
                text.chars().count()
            }
            Self::List(list) => list.items.len(),
            _ => return Err(Error::typ(self.clone(), "something to take a part of")),
        };
        let place = |bound: Option<&Self>, otherwise: usize| match bound {
            None | Some(Self::Null) => Ok(otherwise),
            Some(Self::Int(place)) => Ok(absolute(*place, length)),
            Some(Self::Float(place)) => Ok(absolute(place.floor() as i64, length)),
            Some(other) => Err(Error::typ(other.clone(), "a place")),
        };
        let start = place(range.start, 0)?;
        let end = place(range.end, length)?;
        Ok((start, end.max(start)))
    }

    /// The range that an object with `start` and `end` describes.
    fn said_range(&self) -> Option<Range<&Self>> {
        let Self::Object(object) = self else { return None };
        Some(object.members.get("start")..object.members.get("end"))
    }

    fn place_in(&self, length: usize) -> Option<usize> {
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

impl Object {
    fn put(&mut self, name: Rc<str>, value: Datum) {
        spend(1);
        self.shape.add(&value);
        let of_name = 1 + size_of_text(name.len());
        match self.members.insert(name, value) {
            Some(old) => self.shape.take(&old),
            None => self.shape.size = self.shape.size.saturating_add(of_name),
        }
    }
}

fn size_of_text(bytes: usize) -> u64 {
    (bytes / TEXT) as u64
}

/// Clamps an index to the length; a negative index counts from the end.
fn absolute(place: i64, length: usize) -> usize {
    let length_too = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if place < 0 { place.saturating_add(length_too).max(0) } else { place };
    usize::try_from(place).map_or(length, |place| place.min(length))
}

impl Clone for Datum {
    fn clone(&self) -> Self {
        spend(1);
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

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_json())
    }
}

impl From<bool> for Datum {
    fn from(is_so: bool) -> Self {
        Self::Bool(is_so)
    }
}
impl From<isize> for Datum {
    fn from(whole: isize) -> Self {
        spend(1);
        Self::Int(whole as i64)
    }
}
impl From<usize> for Datum {
    fn from(whole: usize) -> Self {
        spend(1);
        i64::try_from(whole).map_or(Self::Float(whole as f64), Self::Int)
    }
}
impl From<f64> for Datum {
    fn from(number: f64) -> Self {
        spend(1);
        if number.is_finite() { Self::Float(number) } else { Self::Null }
    }
}
impl From<String> for Datum {
    fn from(text: String) -> Self {
        Self::text(&text)
    }
}
impl From<Range<Self>> for Datum {
    fn from(range: Range<Self>) -> Self {
        let bounds = [("start", range.start), ("end", range.end)];
        let said = bounds.into_iter().filter_map(|(name, bound)| Some((name, bound?)));
        Self::object(said.map(|(name, bound)| (Rc::from(name), bound)))
    }
}

impl FromIterator<Self> for Datum {
    fn from_iter<T: IntoIterator<Item = Self>>(items: T) -> Self {
        let mut list = List::default();
        spend(1);
        for item in items {
            list.push(item);
        }
        Self::List(Rc::new(list))
    }
}

impl List {
    fn push(&mut self, item: Datum) {
        spend(1);
        self.shape.add(&item);
        self.items.push(item);
    }
}
