//! Validates the arguments of a call against the input schema of the tool.
//!
//! The schema is untrusted. It must not make validation slow, fetch anything, or make the tool unusable. A pattern that
//! needs backtracking is not checked. If a schema cannot be compiled or validation would take too long, only the top
//! level is checked. The upstream validates again.

mod names;
mod patterns;
mod top;
mod unevaluated;
mod usable;
mod visits;

use std::fmt;

use jsonschema::Validator;
use serde_json::{Map, Value};

use patterns::Patterns;
use usable::{Usable, usable};

pub use names::distance;

/// The maximum number of reported problems, and the maximum length of each, in characters.
const PROBLEMS: usize = 20;
const SHOWN: usize = 300;
/// Visits of larger arguments are always counted; of smaller ones only if the schema may visit a value more than once.
const SMALL: u64 = 500;
/// Limits within which arguments count as small: values, bytes of a text, and depth. If validating small arguments is
/// costly, the schema is the cause. Sending more cannot avoid the check.
const FEW: u64 = 40;
const SHORT: u64 = 64;
const FLAT: usize = 40;
/// The number of characters of text that count as one value.
const TEXT: u64 = 64;
/// The maximum number of visits (see module `visit_count`) of a validation: about 1 ms, or 10 ms for few values.
/// Collecting all problems takes far longer, so it has its own limit.
const VISITS: u64 = 100_000;
const VISITS_OF_FEW: u64 = 1_000_000;
const VISITS_EXPLAINED: u64 = 4_000;

/// The compiled input schema of a tool.
#[derive(Debug)]
pub struct Arguments {
    schema: Value,
    validator: Option<Validator>,
    /// Whether arguments that the schema does not declare are rejected.
    is_closed: bool,
    /// Whether no value is visited more than once.
    looks_once: bool,
    patterns: Patterns,
    /// Whether everything in the schema is checked.
    is_whole: bool,
    /// True if the schema has no `anyOf` or `oneOf`: then the first error is found quickly.
    has_one_way: bool,
}

/// The treatment of an argument that the schema neither declares nor forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Report a problem: no template would send the argument.
    Refused,
    /// Send the argument.
    Sent,
}

/// A problem of one argument. It does not contain the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The location, as a JSON pointer.
    pub path: String,
    /// The description of the problem.
    pub message: String,
}

impl Arguments {
    /// Compiles any schema; parts that cannot be used are not checked.
    pub fn compile(schema: &Value, others: Others) -> Self {
        Self::compile_within(schema, others, Patterns::default())
    }

    fn compile_within(schema: &Value, others: Others, patterns: Patterns) -> Self {
        let Usable { mut schema, patterns, mut is_whole, is_bundled } = usable(schema, patterns);
        if unevaluated::is_costly(&schema) {
            unevaluated::remove(&mut schema);
            is_whole = false;
        }
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(patterns::options());
        let validator = if is_bundled { None } else { options.build(&schema).ok() };
        let is_closed = names::is_closed(&schema, others);
        let (looks_once, has_one_way) = (visits::looks_once(&schema), has_one_way(&schema));
        Self { schema, validator, is_closed, looks_once, patterns, is_whole, has_one_way }
    }

    /// The approximate memory, relative to a small validator.
    pub fn weight(&self) -> u32 {
        u32::try_from(1 + self.patterns.size() / 16).unwrap_or(u32::MAX)
    }

    /// Reports all problems of these arguments, up to `MAX_PROBLEMS`.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        self.checked(arguments.clone()).map(drop)
    }

    /// Validates arguments without copying them, and returns them if they are valid.
    pub fn checked(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.is_closed {
            problems.extend(names::unknown(&self.schema, &arguments));
        }
        problems.extend(top::too_large(&self.schema, &arguments));
        // The validator takes a `Value`.
        let instance = Value::Object(arguments);
        problems.extend(self.misfits(&instance));
        problems.truncate(PROBLEMS);
        match instance {
            Value::Object(arguments) if problems.is_empty() => Ok(arguments),
            _ => Err(problems),
        }
    }

    fn misfits(&self, instance: &Value) -> Vec<Problem> {
        let at_top = || top::problems(&self.schema, instance);
        let Some(validator) = &self.validator else { return at_top() };
        let size = size(instance);
        let visits = match self.looks_once && size <= SMALL {
            true => Ok(size),
            false => visits::visits(&self.schema, instance, &self.patterns),
        };
        let Ok(visits) = visits else { return at_top() };
        // If the schema itself is costly, the source is responsible; if the arguments make it costly, the caller is.
        let are_few = size <= FEW && is_flat(instance, FLAT);
        if (if are_few { VISITS_OF_FEW } else { VISITS }) < visits {
            let of_short = || visits::of_short_texts(&self.schema, instance, &self.patterns);
            let is_costly = are_few && of_short().is_ok_and(|visits| VISITS_OF_FEW < visits);
            let told = "the arguments are too large to be checked: send less at once";
            return if is_costly { at_top() } else { vec![Problem::new("", told)] };
        }
        if validator.is_valid(instance) {
            return Vec::new();
        }
        if visits <= VISITS_EXPLAINED {
            return explained(validator, instance, self.is_closed);
        }
        // Collecting all problems would take too long.
        let mut told = at_top();
        if self.has_one_way
            && let Err(error) = validator.validate(instance)
            && !is_told(&error, self.is_closed)
            && let first = problem(&error)
            && !told.contains(&first)
        {
            told.push(first);
        }
        told.truncate(PROBLEMS - 1);
        let rest = match told.is_empty() {
            true => "the arguments do not fit the input schema",
            false => "there may be more that does not fit the input schema",
        };
        told.push(Problem::new("", rest));
        told
    }
}

/// Why a schema is not valid JSON Schema 2020-12, if so. Schemas of an upstream are accepted anyway; schemas that an
/// admin writes must be valid.
pub fn schema_problem(schema: &Value) -> Option<String> {
    let built = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(patterns::options())
        .build(schema);
    let error = built.err()?;
    let at = error.instance_path().as_str();
    let at = if at.is_empty() { String::new() } else { format!("at `{at}`: ") };
    Some(format!("is no JSON Schema 2020-12: {at}{error}").chars().take(SHOWN).collect())
}

/// The maximum size of an admin's own schema in values, and of all its patterns together in bytes.
const SCHEMA: u64 = 5_000;
const PATTERNS: usize = 1_000;

/// The problems of a value by an admin's own schema, up to `MAX_PROBLEMS`; or why they cannot be determined.
pub fn misfits(schema: &Value, value: &Value) -> Result<Vec<Problem>, String> {
    if SCHEMA < size(schema) {
        return Err("the schema is too large".to_owned());
    }
    let compiled = Arguments::compile_within(schema, Others::Sent, Patterns::within(PATTERNS));
    if !compiled.is_whole {
        return Err("the schema has patterns or conditions that take too long to check".to_owned());
    }
    if compiled.validator.is_none() {
        return Err("the schema is not valid, or refers to something outside itself".to_owned());
    }
    match visits::visits(&compiled.schema, value, &compiled.patterns) {
        Ok(..=VISITS) => Ok(compiled.misfits(value)),
        Ok(_) => Err("it takes too long to check that much against this schema".to_owned()),
        Err(visits::Lost) => Err("the schema has references that cannot be followed".to_owned()),
    }
}

/// The number of values, with long texts counted as several.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / TEXT,
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| name.len() as u64 / TEXT + size(value);
            1 + members.iter().map(one).sum::<u64>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Whether a value is not nested deeper than `depth`.
fn is_flat(value: &Value, depth: usize) -> bool {
    let mut below = visits::children(value).peekable();
    below.peek().is_none() || 0 < depth && below.all(|value| is_flat(value, depth - 1))
}

fn explained(validator: &Validator, instance: &Value, is_closed: bool) -> Vec<Problem> {
    let errors = validator.iter_errors(instance).filter(|error| !is_told(error, is_closed));
    errors.take(PROBLEMS).map(|error| problem(&error)).collect()
}

/// Whether a schema has no `anyOf` or `oneOf`; with them, the validator collects all errors before it reports any.
fn has_one_way(schema: &Value) -> bool {
    let ways = |name: &String| ["anyOf", "oneOf"].contains(&name.as_str());
    let has_several = schema.as_object().is_some_and(|members| members.keys().any(ways));
    !has_several && visits::children(schema).all(has_one_way)
}

/// Whether an error is already reported: undeclared arguments of a closed schema are.
fn is_told(error: &jsonschema::ValidationError<'_>, is_closed: bool) -> bool {
    is_closed && error.schema_path().as_str() == "/additionalProperties"
}

fn problem(error: &jsonschema::ValidationError<'_>) -> Problem {
    Problem::new(error.instance_path().as_str(), &error.masked_with("it").to_string())
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl Problem {
    fn new(path: &str, message: &str) -> Self {
        let short = |text: &str| text.chars().take(SHOWN).collect();
        Self { path: short(path), message: short(message) }
    }
}

#[cfg(test)]
mod tests;
