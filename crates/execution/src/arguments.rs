//! The arguments of a call, checked against the tool's input schema.
//!
//! The schema comes from outside. Nothing it says can make a check slow, fetch anything, or make a tool unusable: a
//! pattern that needs backtracking is not checked, and neither is what lies below the top of a schema that cannot be
//! compiled or would take too long. The upstream checks again.

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

/// How many problems are told, and how much of each, in characters.
const PROBLEMS: usize = 20;
const SHOWN: usize = 300;
/// Arguments of this size are counted only where a schema may have them looked at again.
const SMALL: u64 = 500;
/// Arguments of no more values, texts and depth are not what makes a check costly. Nobody gets around it by sending more.
const FEW: u64 = 40;
const SHORT: u64 = 64;
const FLAT: usize = 40;
/// So many characters of text count as one value.
const TEXT: u64 = 64;
/// How many visits (see `visits.rs`) a check may take: about a millisecond, and ten if there are few values. Saying what is
/// wrong takes far longer.
const VISITS: u64 = 100_000;
const VISITS_OF_FEW: u64 = 1_000_000;
const VISITS_EXPLAINED: u64 = 4_000;

/// The input schema of a tool, compiled.
#[derive(Debug)]
pub struct Arguments {
    schema: Value,
    validator: Option<Validator>,
    /// Whether what the schema does not name is a mistake.
    is_closed: bool,
    /// Whether no value is looked at more than once, however it is checked.
    looks_once: bool,
    patterns: Patterns,
    /// Whether all that the schema says is checked.
    is_whole: bool,
    /// Whether there are several ways to be right nowhere, so that the first thing that is wrong is found soon.
    has_one_way: bool,
}

/// What happens to an argument that the schema neither names nor forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// It is a mistake: no template would send it.
    Refused,
    /// It is sent along.
    Sent,
}

/// What is wrong with an argument. The value is not repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as a JSON pointer.
    pub path: String,
    /// What.
    pub message: String,
}

impl Arguments {
    /// Compiles any schema, as well as it can be.
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

    /// About how much memory it takes, against that of a small one.
    pub fn weight(&self) -> u32 {
        u32::try_from(1 + self.patterns.size() / 16).unwrap_or(u32::MAX)
    }

    /// All that is wrong with these arguments, up to a sensible number.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        self.checked(arguments.clone()).map(drop)
    }

    /// The same without a copy: arguments that are right are given back.
    pub fn checked(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<Problem>> {
        let mut problems = Vec::new();
        if self.is_closed {
            problems.extend(names::unknown(&self.schema, &arguments));
        }
        problems.extend(top::too_large(&self.schema, &arguments));
        // The validator wants them as a value.
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
        // A schema that is costly by itself is its source's doing; arguments that make it so are the caller's.
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
        // To say all that is wrong would take long.
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

/// Why a schema cannot be one of arguments or results, if it cannot. One of an upstream is taken as it is; one that an
/// admin writes is to be right.
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

/// How large a schema of somebody's own may be, in values, and how long all its patterns, in bytes.
const SCHEMA: u64 = 5_000;
const PATTERNS: usize = 1_000;

/// All that does not fit a schema of somebody's own, up to a sensible number; or why that cannot be said in full.
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

/// How many values there are, and how much text.
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

/// Whether nothing in it stands deeper than this.
fn is_flat(value: &Value, depth: usize) -> bool {
    let mut below = visits::children(value).peekable();
    below.peek().is_none() || 0 < depth && below.all(|value| is_flat(value, depth - 1))
}

fn explained(validator: &Validator, instance: &Value, is_closed: bool) -> Vec<Problem> {
    let errors = validator.iter_errors(instance).filter(|error| !is_told(error, is_closed));
    errors.take(PROBLEMS).map(|error| problem(&error)).collect()
}

/// Of several ways to be right, all that is wrong is collected before anything is told.
fn has_one_way(schema: &Value) -> bool {
    let ways = |name: &String| ["anyOf", "oneOf"].contains(&name.as_str());
    let has_several = schema.as_object().is_some_and(|members| members.keys().any(ways));
    !has_several && visits::children(schema).all(has_one_way)
}

/// Names that are not allowed at the top were told already where a schema is closed.
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
