//! Reading lists of steps: the fields that all tasks share, and the flow directives.

use std::sync::Arc;

use serde_json::Value;

use super::members::{Members, escaped};
use super::{DEEPEST_STEPS, MOST_STEPS, Place, Reader};
use crate::document::{Step, Then};

/// Fields that every task may have.
pub(super) const COMMON: [&str; 7] =
    ["if", "input", "output", "export", "timeout", "then", "metadata"];

impl Reader {
    /// Reads a list of objects with one field each: the step under its name.
    pub(super) fn steps(&mut self, path: &str, value: &Value, place: &Place) -> Option<Vec<Step>> {
        let named = self.named(path, value)?;
        if DEEPEST_STEPS <= place.depth {
            let message = format!("more than {DEEPEST_STEPS} tasks stand inside each other");
            self.wrong(path, message);
            return None;
        }
        let place = &Place { depth: place.depth + 1, ..place.clone() };
        let names: Vec<String> = named.iter().map(|(name, ..)| name.clone()).collect();
        let steps = named.into_iter().map(|(name, path, value)| {
            self.steps += 1;
            if self.steps == MOST_STEPS + 1 {
                self.wrong(&path, format!("the document has more than {MOST_STEPS} tasks"));
            }
            if MOST_STEPS < self.steps {
                return None;
            }
            self.step(&name, &path, value, &names, place)
        });
        let steps: Vec<_> = steps.collect();
        steps.into_iter().collect()
    }

    /// Reads named entries: name, JSON pointer and value of each.
    pub(super) fn named<'a>(
        &mut self,
        path: &str,
        value: &'a Value,
    ) -> Option<Vec<(String, String, &'a Value)>> {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            self.wrong(path, "this must be a list with at least one entry, `- name: …`");
            return None;
        };
        let mut named: Vec<(String, String, &'a Value)> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}/{at}");
            let mut members = item.as_object().into_iter().flatten();
            match (members.next(), members.next()) {
                (Some((name, value)), None) => {
                    if named.iter().any(|(known, ..)| known == name) {
                        self.wrong(&path, format!("`{name}` stands here twice"));
                    }
                    named.push((name.clone(), format!("{path}/{}", escaped(name)), value));
                }
                _ => self.wrong(&path, "this must be an object with one member, the name"),
            }
        }
        Some(named)
    }

    fn step(
        &mut self,
        name: &str,
        path: &str,
        value: &Value,
        beside: &[String],
        outside: &Place,
    ) -> Option<Step> {
        let members = self.members(path, value)?;
        let before = outside.with(&["context", "task"]);
        let within = before.with(&["input"]);
        let condition = self.condition(&members, "if", &before);
        let (_, input) = self.io(&members, "input", "from", &before, false);
        let (_, output) = self.io(&members, "output", "as", &within, false);
        let (_, export) = self.io(&members, "export", "as", &within.with(&["output"]), false);
        let timeout = self.timeout(&members);
        let then = self.then(&members, beside);
        let action = self.action(&members, beside, &within);
        Some(Step {
            name: name.into(),
            reference: path.into(),
            definition: Arc::new(value.clone()),
            condition,
            input,
            output,
            export,
            timeout,
            then: then?,
            action: action?,
        })
    }

    /// Reads a field that is a condition.
    pub(super) fn condition(
        &mut self,
        members: &Members<'_>,
        name: &str,
        place: &Place,
    ) -> Option<Arc<crate::template::Template>> {
        let text = members.text(self, name)?;
        self.expression(&members.path_of(name), text, place)
    }

    pub(super) fn then(&mut self, members: &Members<'_>, beside: &[String]) -> Option<Then> {
        if !members.has("then") {
            return Some(Then::Continue);
        }
        match members.needed_text(self, "then")? {
            "continue" => Some(Then::Continue),
            "exit" => Some(Then::Exit),
            "end" => Some(Then::End),
            name => match beside.iter().position(|known| known == name) {
                Some(place) => Some(Then::To(place)),
                None => {
                    let message = format!("there is no task `{name}` in the same list");
                    self.wrong(&members.path_of("then"), message);
                    None
                }
            },
        }
    }
}
