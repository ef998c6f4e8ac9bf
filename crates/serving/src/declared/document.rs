//! A configuration file as a JSON value, with the positions of its fields. `*.toml` is TOML; any other file YAML or
//! JSON.

use std::path::{Path, PathBuf};

use discovery::text::{self, Place, Places, element, member};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, Mistakes};
use crate::failure::Failure;

/// The path of a file, and the positions of its fields.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    places: Places,
}

impl Document {
    pub(super) fn read(path: &Path, bytes: Vec<u8>) -> Result<(Self, Value), Failure> {
        let nowhere = || Self { path: path.to_owned(), places: Places::default() };
        let at = |place: Option<Place>, message: String| {
            let places = place.map_or_else(String::new, |at| format!("{}:{}:", at.line, at.column));
            let problem = format!("{}:{places} {message}", path.display());
            Failure::Declared { problems: vec![problem] }
        };
        let text = text::decode(bytes).map_err(|error| at(None, error.to_string()))?;
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
            return of_toml(path, &text).map_err(|wrong| Failure::Declared { problems: wrong });
        }
        let value = match text::parse(&text) {
            Ok(node) => node.into_value(),
            Err(error) => return Err(at(error.place(), error.to_string())),
        };
        // An empty file is an error too: a server started with a truncated file would have no issuers.
        if !value.is_object() {
            let message = "is to be a mapping, such as `sources: […]`".to_owned();
            return Err(nowhere().refuse(vec![Mistake::new("", message)]));
        }
        Ok((Self { path: path.to_owned(), places: Places::of(&text) }, value))
    }

    /// A document from a request body: only the client knows its lines.
    pub(super) fn nowhere() -> Self {
        Self { path: PathBuf::new(), places: Places::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The position of a field: `crib.yaml:37:5`.
    pub(crate) fn place(&self, field: &str) -> String {
        match self.places.find(field) {
            Some(at) => format!("{}:{}:{}", self.path.display(), at.line, at.column),
            None => self.path.display().to_string(),
        }
    }

    /// A problem with its position.
    pub(crate) fn told(&self, mistake: &Mistake) -> String {
        format!("{}: {mistake}", self.place(&mistake.field))
    }

    /// The error with all problems, in the order of the file.
    pub(crate) fn refuse(&self, mut mistakes: Mistakes) -> Failure {
        let line = |mistake: &Mistake| {
            self.places.find(&mistake.field).map_or((0, 0), |at| (at.line, at.column))
        };
        mistakes.sort_by_key(line);
        mistakes.dedup();
        Failure::Declared { problems: mistakes.iter().map(|mistake| self.told(mistake)).collect() }
    }
}

fn of_toml(path: &Path, text: &str) -> Result<(Document, Value), Vec<String>> {
    let lines = Lines::of(text);
    let (table, mut errors) = DeTable::parse_recoverable(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    errors.sort_by_key(start);
    let problem = |error: &toml::de::Error| {
        let (at, message) = (lines.place(start(error)), error.message().replace('\n', ", "));
        format!("{}:{}:{}: not TOML: {message}", path.display(), at.line, at.column)
    };
    if !errors.is_empty() {
        return Err(errors.iter().map(problem).collect());
    }
    let mut reader = Toml { lines, places: Places::default(), problems: Vec::new() };
    let value = reader.table("", table.get_ref());
    let document = Document { path: path.to_owned(), places: reader.places };
    match reader.problems.is_empty() {
        true => Ok((document, value)),
        false => Err(reader.problems.iter().map(|mistake| document.told(mistake)).collect()),
    }
}

struct Toml<'t> {
    lines: Lines<'t>,
    places: Places,
    problems: Mistakes,
}

impl Toml<'_> {
    fn table(&mut self, path: &str, table: &DeTable<'_>) -> Value {
        let mut members = Map::new();
        for (name, value) in table.iter() {
            let path = member(path, name.get_ref());
            self.places.put(path.clone(), self.lines.place(name.span().start));
            let value = self.value(&path, value.get_ref());
            members.insert(name.get_ref().to_string(), value);
        }
        Value::Object(members)
    }

    fn value(&mut self, path: &str, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::from(text.as_ref()),
            DeValue::Boolean(is_so) => Value::from(*is_so),
            // The schema has no date type: all times are strings.
            DeValue::Datetime(time) => Value::from(time.to_string()),
            DeValue::Table(table) => self.table(path, table),
            DeValue::Array(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for (number, value) in elements.iter().enumerate() {
                    let path = element(path, number);
                    self.places.put(path.clone(), self.lines.place(value.span().start));
                    values.push(self.value(&path, value.get_ref()));
                }
                Value::Array(values)
            }
            DeValue::Integer(integer) => {
                let (text, radix) = (integer.as_str(), integer.radix());
                let whole = i64::from_str_radix(text, radix).map(Number::from);
                let whole = whole.or_else(|_| u64::from_str_radix(text, radix).map(Number::from));
                self.number(path, whole.ok())
            }
            DeValue::Float(float) => {
                let real = float.as_str().parse().ok().and_then(Number::from_f64);
                self.number(path, real)
            }
        }
    }

    fn number(&mut self, path: &str, number: Option<Number>) -> Value {
        match number {
            Some(number) => Value::Number(number),
            None => {
                let message = "is a number that cannot be kept as it is: write it as a text";
                self.problems.push(Mistake::new(path, message));
                Value::Null
            }
        }
    }
}

/// The offsets at which the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }
}
