//! Reading lists of steps: the fields that all tasks share, and the flow directives.

use std::sync::Arc;

use serde_json::Value;

use super::workflow_object::{WorkflowObject, escape_pointer_segment};
use super::{DEEPEST_STEPS, DocumentReader, DocumentScope, MOST_STEPS};
use crate::workflow_document::{FlowDirective, WorkflowStep};

/// Fields that every task may have.
pub(super) const COMMON_TASK_FIELDS: [&str; 7] =
    ["if", "input", "output", "export", "timeout", "then", "metadata"];

impl DocumentReader {
    /// Reads a list of objects with one field each: the step under its name.
    pub(super) fn read_steps(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<Vec<WorkflowStep>> {
        let named = self.read_named_entries(path, value)?;
        if DEEPEST_STEPS <= place.depth {
            let message = format!("more than {DEEPEST_STEPS} tasks stand inside each other");
            self.report_problem(path, message);
            return None;
        }
        let place = &DocumentScope { depth: place.depth + 1, ..place.clone() };
        let names: Vec<String> = named.iter().map(|(name, ..)| name.clone()).collect();
        let steps = named.into_iter().map(|(name, path, value)| {
            self.steps += 1;
            if self.steps == MOST_STEPS + 1 {
                self.report_problem(
                    &path,
                    format!("the document has more than {MOST_STEPS} tasks"),
                );
            }
            if MOST_STEPS < self.steps {
                return None;
            }
            self.read_step(&name, &path, value, &names, place)
        });
        let steps: Vec<_> = steps.collect();
        steps.into_iter().collect()
    }

    /// Reads named entries: name, JSON pointer and value of each.
    pub(super) fn read_named_entries<'a>(
        &mut self,
        path: &str,
        value: &'a Value,
    ) -> Option<Vec<(String, String, &'a Value)>> {
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            self.report_problem(path, "this must be a list with at least one entry, `- name: …`");
            return None;
        };
        let mut named: Vec<(String, String, &'a Value)> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = format!("{path}/{at}");
            let mut members = item.as_object().into_iter().flatten();
            match (members.next(), members.next()) {
                (Some((name, value)), None) => {
                    if named.iter().any(|(known, ..)| known == name) {
                        self.report_problem(&path, format!("`{name}` stands here twice"));
                    }
                    named.push((
                        name.clone(),
                        format!("{path}/{}", escape_pointer_segment(name)),
                        value,
                    ));
                }
                _ => self.report_problem(&path, "this must be an object with one member, the name"),
            }
        }
        Some(named)
    }

    fn read_step(
        &mut self,
        name: &str,
        path: &str,
        value: &Value,
        beside: &[String],
        outside: &DocumentScope,
    ) -> Option<WorkflowStep> {
        let members = self.read_object(path, value)?;
        let before = outside.with_variables(&["context", "task"]);
        let within = before.with_variables(&["input"]);
        let condition = self.read_condition(&members, "if", &before);
        let (_, input) = self.read_input_output(&members, "input", "from", &before, false);
        let (_, output) = self.read_input_output(&members, "output", "as", &within, false);
        let (_, export) = self.read_input_output(
            &members,
            "export",
            "as",
            &within.with_variables(&["output"]),
            false,
        );
        let timeout = self.read_timeout(&members);
        let then = self.read_directive(&members, beside);
        let action = self.read_action(&members, beside, &within);
        Some(WorkflowStep {
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
    pub(super) fn read_condition(
        &mut self,
        members: &WorkflowObject<'_>,
        name: &str,
        place: &DocumentScope,
    ) -> Option<Arc<crate::value_template::ValueTemplate>> {
        let text = members.get_text(self, name)?;
        self.read_expression(&members.field_path(name), text, place)
    }

    pub(super) fn read_directive(
        &mut self,
        members: &WorkflowObject<'_>,
        beside: &[String],
    ) -> Option<FlowDirective> {
        if !members.has_field("then") {
            return Some(FlowDirective::Continue);
        }
        match members.require_text(self, "then")? {
            "continue" => Some(FlowDirective::Continue),
            "exit" => Some(FlowDirective::Exit),
            "end" => Some(FlowDirective::End),
            name => match beside.iter().position(|known| known == name) {
                Some(place) => Some(FlowDirective::To(place)),
                None => {
                    let message = format!("there is no task `{name}` in the same list");
                    self.report_problem(&members.field_path("then"), message);
                    None
                }
            },
        }
    }
}
