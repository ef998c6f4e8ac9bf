//! A place in an answer: members by name and items by number, `data.jobs.0.status`; nothing is the whole answer.

use std::fmt;

use serde_json::Value;

pub(super) struct Path(Box<[Box<str>]>);

impl Path {
    pub(super) fn read(text: &str) -> Self {
        Self(text.split('.').filter(|step| !step.is_empty()).map(Into::into).collect())
    }

    pub(super) fn find<'a>(&self, answer: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(answer, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => value.get(&**step),
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}
