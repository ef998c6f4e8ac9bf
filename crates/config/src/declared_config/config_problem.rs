//! Problems of a configuration file, with their positions.

use std::fmt;

use api_types::problem::{FieldError, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Note")]
pub struct ConfigProblem {
    /// Which member: `groups[0].selectors[1].name`.
    pub field: String,
    /// What is to be said of it, and what to do.
    pub message: String,
}

/// All problems of a file.
pub type ConfigProblems = Vec<ConfigProblem>;

/// The beginning of the schema message for a literal secret in place of a reference.
const NOT_A_REFERENCE: &str = "is to be a reference:";

impl ConfigProblem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// The same problem, with the field path below `place`.
    pub fn under_field(mut self, place: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => place.to_owned(),
            field => format!("{place}.{field}"),
        };
        self
    }

    /// The problems that the admin API reports, with their field paths below `place`.
    pub fn from_problem(problem: Problem, place: &str) -> Vec<Self> {
        let errors = problem.into_errors().into_iter();
        errors.map(|error| Self::from(error).under_field(place)).collect()
    }
}

impl From<FieldError> for ConfigProblem {
    fn from(FieldError { field, message }: FieldError) -> Self {
        if message.starts_with(NOT_A_REFERENCE) {
            let message = format!(
                "{message}; no secret stands in this file: `toolcrib secret set NAME` keeps it sealed"
            );
            return Self { field, message };
        }
        Self { field, message }
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "`{field}`: {}", self.message),
        }
    }
}

/// The known name that is most similar to the given one, if one is close enough.
pub(crate) fn nearest_name<'a>(
    given: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = known.map(|known| (execution::edit_distance(given, known), known)).min();
    near.filter(|(distance, known)| *distance <= 1 + known.len() / 3).map(|(_, known)| known)
}

/// `; did you mean …?`, or an empty string if no known name is close enough.
pub(crate) fn did_you_mean<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest_name(given, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}
