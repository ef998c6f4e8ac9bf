//! Validates the arguments of a call against the input schema of the tool.
//!
//! The schema is untrusted. It must not make validation slow, fetch anything, or make the tool unusable. A pattern that
//! needs backtracking is not checked. If a schema cannot be compiled or validation would take too long, only the top
//! level is checked. The upstream validates again.

mod schema_patterns;
mod top_level;
mod undeclared_arguments;
mod unevaluated;
mod usable_schema;
mod visit_count;

use std::fmt;

use jsonschema::Validator;
use schema_patterns::PatternBudget;
use serde_json::{Map, Value};
use usable_schema::{UsableSchema, usable_schema};

pub use undeclared_arguments::edit_distance;

/// The maximum number of reported problems, and the maximum length of each, in characters.
const MAX_PROBLEMS: usize = 20;
const PROBLEM_CHARS: usize = 300;
/// Visits of larger arguments are always counted; of smaller ones only if the schema may visit a value more than once.
const SMALL_VALUE_COUNT: u64 = 500;
/// Limits within which arguments count as small: values, bytes of a text, and depth. If validating small arguments is
/// costly, the schema is the cause. Sending more cannot avoid the check.
const FEW_VALUES: u64 = 40;
const SHORT_TEXT_BYTES: u64 = 64;
const FLAT_DEPTH: usize = 40;
/// The number of characters of text that count as one value.
const TEXT_PER_VALUE: u64 = 64;
/// The maximum number of visits (see module `visit_count`) of a validation: about 1 ms, or 10 ms for few values.
/// Collecting all problems takes far longer, so it has its own limit.
const MAX_VISITS: u64 = 100_000;
const MAX_VISITS_OF_FEW_VALUES: u64 = 1_000_000;
const MAX_VISITS_TO_EXPLAIN: u64 = 4_000;

/// The compiled input schema of a tool.
#[derive(Debug)]
pub struct ArgumentValidator {
    schema: Value,
    validator: Option<Validator>,
    /// Whether arguments that the schema does not declare are rejected.
    rejects_undeclared: bool,
    /// Whether no value is visited more than once.
    visits_values_once: bool,
    patterns: PatternBudget,
    /// Whether everything in the schema is checked.
    is_complete: bool,
    /// True if the schema has no `anyOf` or `oneOf`: then the first error is found quickly.
    has_no_alternatives: bool,
}

/// The treatment of an argument that the schema neither declares nor forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndeclaredArguments {
    /// Report a problem: no template would send the argument.
    Rejected,
    /// Send the argument.
    Sent,
}

/// A problem of one argument. It does not contain the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidArgument {
    /// The location, as a JSON pointer.
    pub path: String,
    /// The description of the problem.
    pub message: String,
}

impl ArgumentValidator {
    /// Compiles any schema; parts that cannot be used are not checked.
    pub fn compile(schema: &Value, others: UndeclaredArguments) -> Self {
        Self::compile_with_patterns(schema, others, PatternBudget::default())
    }

    fn compile_with_patterns(
        schema: &Value,
        others: UndeclaredArguments,
        patterns: PatternBudget,
    ) -> Self {
        let UsableSchema {
            mut schema,
            patterns,
            is_complete: mut is_whole,
            has_relocated_references: is_bundled,
        } = usable_schema(schema, patterns);
        if unevaluated::has_costly_unevaluated(&schema) {
            unevaluated::remove_unevaluated(&mut schema);
            is_whole = false;
        }
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(schema_patterns::pattern_options());
        let validator = if is_bundled { None } else { options.build(&schema).ok() };
        let is_closed = undeclared_arguments::rejects_undeclared(&schema, others);
        let (looks_once, has_one_way) =
            (visit_count::visits_values_once(&schema), has_no_alternatives(&schema));
        Self {
            schema,
            validator,
            rejects_undeclared: is_closed,
            visits_values_once: looks_once,
            patterns,
            is_complete: is_whole,
            has_no_alternatives: has_one_way,
        }
    }

    /// The approximate memory, relative to a small validator.
    pub fn relative_size(&self) -> u32 {
        u32::try_from(1 + self.patterns.total_kib() / 16).unwrap_or(u32::MAX)
    }

    /// Reports all problems of these arguments, up to `MAX_PROBLEMS`.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), Vec<InvalidArgument>> {
        self.validate(arguments.clone()).map(drop)
    }

    /// Validates arguments without copying them, and returns them if they are valid.
    pub fn validate(
        &self,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<InvalidArgument>> {
        let mut problems = Vec::new();
        if self.rejects_undeclared {
            problems.extend(undeclared_arguments::undeclared_problems(&self.schema, &arguments));
        }
        problems.extend(top_level::rounded_integers(&self.schema, &arguments));
        // The validator takes a `Value`.
        let instance = Value::Object(arguments);
        problems.extend(self.find_problems(&instance));
        problems.truncate(MAX_PROBLEMS);
        match instance {
            Value::Object(arguments) if problems.is_empty() => Ok(arguments),
            _ => Err(problems),
        }
    }

    fn find_problems(&self, instance: &Value) -> Vec<InvalidArgument> {
        let at_top = || top_level::top_level_problems(&self.schema, instance);
        let Some(validator) = &self.validator else { return at_top() };
        let size = count_values(instance);
        let visits = match self.visits_values_once && size <= SMALL_VALUE_COUNT {
            true => Ok(size),
            false => visit_count::count_visits(&self.schema, instance, &self.patterns),
        };
        let Ok(visits) = visits else { return at_top() };
        // If the schema itself is costly, the source is responsible; if the arguments make it costly, the caller is.
        let are_few = size <= FEW_VALUES && is_nested_at_most(instance, FLAT_DEPTH);
        if (if are_few { MAX_VISITS_OF_FEW_VALUES } else { MAX_VISITS }) < visits {
            let of_short =
                || visit_count::count_visits_of_short_texts(&self.schema, instance, &self.patterns);
            let is_costly =
                are_few && of_short().is_ok_and(|visits| MAX_VISITS_OF_FEW_VALUES < visits);
            let told = "the arguments are too large to be checked: send less at once";
            return if is_costly { at_top() } else { vec![InvalidArgument::new("", told)] };
        }
        if validator.is_valid(instance) {
            return Vec::new();
        }
        if visits <= MAX_VISITS_TO_EXPLAIN {
            return explain_problems(validator, instance, self.rejects_undeclared);
        }
        // Collecting all problems would take too long.
        let mut told = at_top();
        if self.has_no_alternatives
            && let Err(error) = validator.validate(instance)
            && !is_reported(&error, self.rejects_undeclared)
            && let first = problem_of_error(&error)
            && !told.contains(&first)
        {
            told.push(first);
        }
        told.truncate(MAX_PROBLEMS - 1);
        let rest = match told.is_empty() {
            true => "the arguments do not fit the input schema",
            false => "there may be more that does not fit the input schema",
        };
        told.push(InvalidArgument::new("", rest));
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
        .with_pattern_options(schema_patterns::pattern_options())
        .build(schema);
    let error = built.err()?;
    let at = error.instance_path().as_str();
    let at = if at.is_empty() { String::new() } else { format!("at `{at}`: ") };
    Some(format!("is no JSON Schema 2020-12: {at}{error}").chars().take(PROBLEM_CHARS).collect())
}

/// The maximum size of an admin's own schema in values, and of all its patterns together in bytes.
const MAX_OWN_SCHEMA_VALUES: u64 = 5_000;
const MAX_OWN_PATTERN_BYTES: usize = 1_000;

/// The problems of a value by an admin's own schema, up to `MAX_PROBLEMS`; or why they cannot be determined.
pub fn problems_by_schema(schema: &Value, value: &Value) -> Result<Vec<InvalidArgument>, String> {
    if MAX_OWN_SCHEMA_VALUES < count_values(schema) {
        return Err("the schema is too large".to_owned());
    }
    let compiled = ArgumentValidator::compile_with_patterns(
        schema,
        UndeclaredArguments::Sent,
        PatternBudget::with_bytes(MAX_OWN_PATTERN_BYTES),
    );
    if !compiled.is_complete {
        return Err("the schema has patterns or conditions that take too long to check".to_owned());
    }
    if compiled.validator.is_none() {
        return Err("the schema is not valid, or refers to something outside itself".to_owned());
    }
    match visit_count::count_visits(&compiled.schema, value, &compiled.patterns) {
        Ok(..=MAX_VISITS) => Ok(compiled.find_problems(value)),
        Ok(_) => Err("it takes too long to check that much against this schema".to_owned()),
        Err(visit_count::UnresolvableReference) => {
            Err("the schema has references that cannot be followed".to_owned())
        }
    }
}

/// The number of values, with long texts counted as several.
fn count_values(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / TEXT_PER_VALUE,
        Value::Array(items) => 1 + items.iter().map(count_values).sum::<u64>(),
        Value::Object(members) => {
            let one = |(name, value): (&String, &Value)| {
                name.len() as u64 / TEXT_PER_VALUE + count_values(value)
            };
            1 + members.iter().map(one).sum::<u64>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Whether a value is not nested deeper than `depth`.
fn is_nested_at_most(value: &Value, depth: usize) -> bool {
    let mut below = visit_count::children(value).peekable();
    below.peek().is_none() || 0 < depth && below.all(|value| is_nested_at_most(value, depth - 1))
}

fn explain_problems(
    validator: &Validator,
    instance: &Value,
    is_closed: bool,
) -> Vec<InvalidArgument> {
    let errors = validator.iter_errors(instance).filter(|error| !is_reported(error, is_closed));
    errors.take(MAX_PROBLEMS).map(|error| problem_of_error(&error)).collect()
}

/// Whether a schema has no `anyOf` or `oneOf`; with them, the validator collects all errors before it reports any.
fn has_no_alternatives(schema: &Value) -> bool {
    let ways = |name: &String| ["anyOf", "oneOf"].contains(&name.as_str());
    let has_several = schema.as_object().is_some_and(|members| members.keys().any(ways));
    !has_several && visit_count::children(schema).all(has_no_alternatives)
}

/// Whether an error is already reported: undeclared arguments of a closed schema are.
fn is_reported(error: &jsonschema::ValidationError<'_>, is_closed: bool) -> bool {
    is_closed && error.schema_path().as_str() == "/additionalProperties"
}

fn problem_of_error(error: &jsonschema::ValidationError<'_>) -> InvalidArgument {
    InvalidArgument::new(error.instance_path().as_str(), &error.masked_with("it").to_string())
}

impl fmt::Display for InvalidArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl InvalidArgument {
    fn new(path: &str, message: &str) -> Self {
        let short = |text: &str| text.chars().take(PROBLEM_CHARS).collect();
        Self { path: short(path), message: short(message) }
    }
}

#[cfg(test)]
mod tests;
