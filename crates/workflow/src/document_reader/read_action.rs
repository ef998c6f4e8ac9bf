//! Reading the action of a step: one field names the kind of task.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::read_steps::COMMON_TASK_FIELDS;
use super::workflow_object::WorkflowObject;
use super::{DocumentReader, DocumentScope, MOST_BRANCHES};
use crate::value_template::ValueTemplate;
use crate::workflow_document::{ForTask, RaiseTask, StepAction, SwitchCase};

const KINDS: [&str; 9] = ["call", "for", "try", "fork", "switch", "set", "wait", "raise", "do"];
/// Tasks of the DSL that are not supported, with the reason.
const UNSUPPORTED_TASKS: [(&str, &str); 3] = [
    ("emit", "there are no events here"),
    ("listen", "there are no events here"),
    ("run", "nothing is started here; to run a workflow, `call` its tool"),
];
/// Built-in functions of the DSL, which are not supported.
const FUNCTIONS: [&str; 6] = ["http", "grpc", "openapi", "asyncapi", "a2a", "mcp"];

impl DocumentReader {
    pub(super) fn read_action(
        &mut self,
        members: &WorkflowObject<'_>,
        beside: &[String],
        place: &DocumentScope,
    ) -> Option<StepAction> {
        // The order counts: `for` and `try` tasks have fields that are themselves kinds of tasks.
        let Some(kind) = KINDS.into_iter().find(|kind| members.has_field(kind)) else {
            self.report_unknown_action(members);
            return None;
        };
        let further: &[&str] = match kind {
            "call" => &["with"],
            "for" => &["while", "do"],
            "try" => &["catch"],
            _ => &[],
        };
        let known: Vec<&str> =
            COMMON_TASK_FIELDS.into_iter().chain([kind]).chain(further.to_vec()).collect();
        members.reject_unknown_fields(self, &known, &UNSUPPORTED_TASKS);
        let (path, value) = (members.field_path(kind), members.require_field(self, kind)?);
        match kind {
            "call" => self.read_call(members, place),
            "for" => self.read_for(members, place),
            "try" => self.read_try(members, place),
            "fork" => self.read_fork(&path, value, place),
            "switch" => self.read_switch(&path, value, beside, place),
            "set" => self.read_transform(&path, value, place).map(StepAction::Set),
            "wait" => self.read_duration(&path, value).map(StepAction::Wait),
            "raise" => self.read_raise(&path, value, place),
            _ => self.read_steps(&path, value, &nested_scope(place)).map(StepAction::Do),
        }
    }

    /// Reports an unsupported task, or that the task has no action.
    fn report_unknown_action(&mut self, members: &WorkflowObject<'_>) {
        members.reject_unknown_fields(self, &COMMON_TASK_FIELDS, &UNSUPPORTED_TASKS);
        if !UNSUPPORTED_TASKS.iter().any(|(name, _)| members.has_field(name)) {
            let message = format!("the task does nothing: it needs one of {}", KINDS.join(", "));
            self.report_problem(members.path(), message);
        }
    }

    fn read_call(
        &mut self,
        members: &WorkflowObject<'_>,
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let tool = members.require_text(self, "call")?;
        let path = members.field_path("call");
        if FUNCTIONS.contains(&tool) {
            let message = format!(
                "`{tool}` of the DSL is not supported: register what it calls as a source, and call its tool"
            );
            self.report_problem(&path, message);
        } else if tool.contains("${") {
            self.report_problem(&path, "the name of a tool is no expression");
        } else if tool.contains('@') {
            self.report_problem(&path, "catalogs of the DSL are not supported: call a tool");
        }
        let empty = Value::Object(Map::new());
        let with = members.get("with").unwrap_or(&empty);
        let path = members.field_path("with");
        let with = match with {
            Value::Object(_) => self.read_template(&path, with, place)?,
            Value::String(text) => self.read_expression(&path, text, place)?,
            _ => {
                self.report_problem(
                    &path,
                    "arguments are an object, or an expression that gives one",
                );
                return None;
            }
        };
        Some(StepAction::Call { tool: tool.into(), with })
    }

    fn read_for(
        &mut self,
        members: &WorkflowObject<'_>,
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let path = members.field_path("for");
        let value = members.require_field(self, "for")?;
        let each = self.read_object(&path, value)?;
        each.reject_unknown_fields(self, &["each", "in", "at"], &[]);
        let item = self.read_variable_name(&each, "each", "item");
        let at = self.read_variable_name(&each, "at", "index");
        each.require_text(self, "in");
        let list = self.read_condition(&each, "in", place);
        let inside = nested_scope(place).with_variables(&[&item, &at]);
        let condition = self.read_condition(members, "while", &place.with_variables(&[&item, &at]));
        let steps = members.require_field(self, "do");
        let steps = steps.and_then(|it| self.read_steps(&members.field_path("do"), it, &inside));
        let (list, steps) = (list?, steps?);
        Some(StepAction::For(Box::new(ForTask {
            item_variable: item,
            index_variable: at,
            list,
            condition,
            steps,
        })))
    }

    /// Reads the name of a variable, written without `$`.
    pub(super) fn read_variable_name(
        &mut self,
        members: &WorkflowObject<'_>,
        name: &str,
        otherwise: &str,
    ) -> Box<str> {
        let said = members.get_text(self, name).unwrap_or(otherwise);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let taken = ["context", "input", "output", "task", "workflow", "runtime"];
        let begins = said.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !said.chars().all(is_name) || taken.contains(&said) {
            self.report_problem(
                &members.field_path(name),
                format!("`{said}` cannot be a variable"),
            );
            return otherwise.into();
        }
        said.into()
    }

    fn read_fork(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let fork = self.read_object(path, value)?;
        fork.reject_unknown_fields(self, &["branches", "compete"], &[]);
        let compete = fork.get_flag(self, "compete").unwrap_or_default();
        let branches = fork.require_field(self, "branches")?;
        let path = fork.field_path("branches");
        let number = branches.as_array().map_or(1, Vec::len).max(1);
        let at_once = place.branches.max(1).saturating_mul(number);
        if MOST_BRANCHES < at_once {
            self.report_problem(
                &path,
                format!("more than {MOST_BRANCHES} branches would be at work at once"),
            );
            return None;
        }
        let inside = DocumentScope { branches: at_once, ..nested_scope(place) };
        let branches = self.read_steps(&path, branches, &inside)?;
        Some(StepAction::Fork { branches, compete })
    }

    fn read_switch(
        &mut self,
        path: &str,
        value: &Value,
        beside: &[String],
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let mut cases = Vec::new();
        for (_, path, value) in self.read_named_entries(path, value)? {
            let case = self.read_object(&path, value)?;
            case.reject_unknown_fields(self, &["when", "then"], &[]);
            let when = self.read_condition(&case, "when", place);
            case.require_field(self, "then");
            let then = self.read_directive(&case, beside)?;
            if when.is_none() && cases.iter().any(|case: &SwitchCase| case.when.is_none()) {
                self.report_problem(&path, "only one case may be without `when`");
            }
            cases.push(SwitchCase { when, then });
        }
        Some(StepAction::Switch(cases))
    }

    fn read_raise(
        &mut self,
        path: &str,
        value: &Value,
        place: &DocumentScope,
    ) -> Option<StepAction> {
        let raise = self.read_object(path, value)?;
        raise.reject_unknown_fields(self, &["error"], &[]);
        let error = raise.require_field(self, "error")?;
        let path = raise.field_path("error");
        let (path, error) = match error {
            Value::String(name) => self.resolve_reference(&path, "errors", name)?,
            other => (path, other.clone()),
        };
        let error = self.read_object(&path, &error)?;
        error.reject_unknown_fields(self, &["type", "status", "title", "detail", "instance"], &[]);
        error.require_text(self, "type");
        let status = error.require_field(self, "status").unwrap_or(&json!(500)).as_u64();
        let status = status.and_then(|status| u16::try_from(status).ok());
        if status.is_none() {
            self.report_problem(&error.field_path("status"), "this must be a status, like 400");
        }
        let mut part = |name: &str| -> Option<Arc<ValueTemplate>> {
            error.get_text(self, name)?;
            self.read_template(&error.field_path(name), error.get(name)?, place)
        };
        let (kind, title, detail) = (part("type"), part("title"), part("detail"));
        let instance = error.get_text(self, "instance").map(Into::into);
        Some(StepAction::Raise(Box::new(RaiseTask {
            kind: kind?,
            status: status?,
            title,
            detail,
            instance,
        })))
    }
}

/// The scope of nested steps, which define `$input`, `$task` and `$context` themselves.
fn nested_scope(place: &DocumentScope) -> DocumentScope {
    let mut place = place.clone();
    place.variables.retain(|name| !matches!(&**name, "input" | "task" | "context"));
    place
}
