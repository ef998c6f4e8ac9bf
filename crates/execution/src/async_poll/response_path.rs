//! A path to a value in a response, with fields by name and items by number: `data.jobs.0.status` or
//! `/data/jobs/0/status`. The empty path is the whole response.

use std::fmt;

use model::path_steps;
use serde_json::Value;

pub(super) struct ResponsePath {
    text: Box<str>,
    steps: Vec<Box<str>>,
}

impl ResponsePath {
    pub(super) fn parse(text: &str) -> Self {
        Self { text: text.into(), steps: path_steps(text) }
    }

    pub(super) fn find_value<'a>(&self, answer: &'a Value) -> Option<&'a Value> {
        self.steps.iter().try_fold(answer, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => value.get(&**step),
        })
    }
}

impl fmt::Display for ResponsePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
