//! A configuration file as a JSON value, with the positions of its fields. `*.toml` is TOML; any other file YAML or
//! JSON.

use std::path::{Path, PathBuf};

use json::document_text;
use json::document_text::{FieldPositions, TextPosition, field_path, item_path};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::config_problem::{ConfigProblem, ConfigProblems};
use crate::config_error::ConfigError;

/// The path of a file, and the positions of its fields.
#[derive(Debug)]
pub struct ConfigDocument {
    path: PathBuf,
    positions: FieldPositions,
}

impl ConfigDocument {
    pub(super) fn parse_bytes(path: &Path, bytes: Vec<u8>) -> Result<(Self, Value), ConfigError> {
        let nowhere = || Self { path: path.to_owned(), positions: FieldPositions::default() };
        let at = |place: Option<TextPosition>, message: String| {
            let places = place.map_or_else(String::new, |at| format!("{}:{}:", at.line, at.column));
            let problem = format!("{}:{places} {message}", path.display());
            ConfigError::Invalid { problems: vec![problem] }
        };
        let text =
            document_text::decode_document(bytes).map_err(|error| at(None, error.to_string()))?;
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml")) {
            return parse_toml(path, &text)
                .map_err(|wrong| ConfigError::Invalid { problems: wrong });
        }
        let value = match document_text::parse_document(&text) {
            Ok(node) => node.into_value(),
            Err(error) => return Err(at(error.position(), error.to_string())),
        };
        // An empty file is an error too: a server started with a truncated file would have no issuers.
        if !value.is_object() {
            let message = "is to be a mapping, such as `sources: […]`".to_owned();
            return Err(nowhere().to_failure(vec![ConfigProblem::new("", message)]));
        }
        Ok((Self { path: path.to_owned(), positions: FieldPositions::from_text(&text) }, value))
    }

    /// A document from a request body: only the client knows its lines.
    pub(super) fn without_file() -> Self {
        Self { path: PathBuf::new(), positions: FieldPositions::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The position of a field: `crib.yaml:37:5`.
    pub(crate) fn position_text(&self, field: &str) -> String {
        match self.positions.find_nearest(field) {
            Some(at) => format!("{}:{}:{}", self.path.display(), at.line, at.column),
            None => self.path.display().to_string(),
        }
    }

    /// A problem with its position.
    pub fn describe(&self, mistake: &ConfigProblem) -> String {
        format!("{}: {mistake}", self.position_text(&mistake.field))
    }

    /// The error with all problems, in the order of the file.
    pub fn to_failure(&self, mut mistakes: ConfigProblems) -> ConfigError {
        let line = |mistake: &ConfigProblem| {
            self.positions.find_nearest(&mistake.field).map_or((0, 0), |at| (at.line, at.column))
        };
        mistakes.sort_by_key(line);
        mistakes.dedup();
        ConfigError::Invalid {
            problems: mistakes.iter().map(|mistake| self.describe(mistake)).collect(),
        }
    }
}

fn parse_toml(path: &Path, text: &str) -> Result<(ConfigDocument, Value), Vec<String>> {
    let lines = LineIndex::for_text(text);
    let (table, mut errors) = DeTable::parse_recoverable(text);
    let start = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    errors.sort_by_key(start);
    let problem = |error: &toml::de::Error| {
        let (at, message) = (lines.position_at(start(error)), error.message().replace('\n', ", "));
        format!("{}:{}:{}: not TOML: {message}", path.display(), at.line, at.column)
    };
    if !errors.is_empty() {
        return Err(errors.iter().map(problem).collect());
    }
    let mut reader =
        TomlReader { lines, positions: FieldPositions::default(), problems: Vec::new() };
    let value = reader.read_table("", table.get_ref());
    let document = ConfigDocument { path: path.to_owned(), positions: reader.positions };
    match reader.problems.is_empty() {
        true => Ok((document, value)),
        false => Err(reader.problems.iter().map(|mistake| document.describe(mistake)).collect()),
    }
}

struct TomlReader<'t> {
    lines: LineIndex<'t>,
    positions: FieldPositions,
    problems: ConfigProblems,
}

impl TomlReader<'_> {
    fn read_table(&mut self, path: &str, table: &DeTable<'_>) -> Value {
        let mut members = Map::new();
        for (name, value) in table.iter() {
            let path = field_path(path, name.get_ref());
            self.positions.insert(path.clone(), self.lines.position_at(name.span().start));
            let value = self.read_value(&path, value.get_ref());
            members.insert(name.get_ref().to_string(), value);
        }
        Value::Object(members)
    }

    fn read_value(&mut self, path: &str, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::from(text.as_ref()),
            DeValue::Boolean(is_so) => Value::from(*is_so),
            // The schema has no date type: all times are strings.
            DeValue::Datetime(time) => Value::from(time.to_string()),
            DeValue::Table(table) => self.read_table(path, table),
            DeValue::Array(elements) => {
                let mut values = Vec::with_capacity(elements.len());
                for (number, value) in elements.iter().enumerate() {
                    let path = item_path(path, number);
                    self.positions.insert(path.clone(), self.lines.position_at(value.span().start));
                    values.push(self.read_value(&path, value.get_ref()));
                }
                Value::Array(values)
            }
            DeValue::Integer(integer) => {
                let (text, radix) = (integer.as_str(), integer.radix());
                let whole = i64::from_str_radix(text, radix).map(Number::from);
                let whole = whole.or_else(|_| u64::from_str_radix(text, radix).map(Number::from));
                self.read_number(path, whole.ok())
            }
            DeValue::Float(float) => {
                let real = float.as_str().parse().ok().and_then(Number::from_f64);
                self.read_number(path, real)
            }
        }
    }

    fn read_number(&mut self, path: &str, number: Option<Number>) -> Value {
        match number {
            Some(number) => Value::Number(number),
            None => {
                let message = "is a number that cannot be kept as it is: write it as a text";
                self.problems.push(ConfigProblem::new(path, message));
                Value::Null
            }
        }
    }
}

/// The offsets at which the lines of a text begin.
struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    fn for_text(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn position_at(&self, offset: usize) -> TextPosition {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        TextPosition { line, column: before.chars().count() + 1 }
    }
}
