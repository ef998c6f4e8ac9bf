//! Reading the action of a step: one field names the kind of task.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::members::Members;
use super::step::COMMON;
use super::{MOST_BRANCHES, Place, Reader};
use crate::document::{Action, Case, Loop, Raise};
use crate::template::Template;

const KINDS: [&str; 9] = ["call", "for", "try", "fork", "switch", "set", "wait", "raise", "do"];
/// Tasks of the DSL that are not supported, with the reason.
const REFUSED: [(&str, &str); 3] = [
    ("emit", "there are no events here"),
    ("listen", "there are no events here"),
    ("run", "nothing is started here; to run a workflow, `call` its tool"),
];
/// Built-in functions of the DSL, which are not supported.
const FUNCTIONS: [&str; 6] = ["http", "grpc", "openapi", "asyncapi", "a2a", "mcp"];

impl Reader {
    pub(super) fn action(
        &mut self,
        members: &Members<'_>,
        beside: &[String],
        place: &Place,
    ) -> Option<Action> {
        // The order counts: `for` and `try` tasks have fields that are themselves kinds of tasks.
        let Some(kind) = KINDS.into_iter().find(|kind| members.has(kind)) else {
            self.unknown(members);
            return None;
        };
        let further: &[&str] = match kind {
            "call" => &["with"],
            "for" => &["while", "do"],
            "try" => &["catch"],
            _ => &[],
        };
        let known: Vec<&str> = COMMON.into_iter().chain([kind]).chain(further.to_vec()).collect();
        members.only(self, &known, &REFUSED);
        let (path, value) = (members.path_of(kind), members.needed(self, kind)?);
        match kind {
            "call" => self.call(members, place),
            "for" => self.each(members, place),
            "try" => self.attempt(members, place),
            "fork" => self.fork(&path, value, place),
            "switch" => self.switch(&path, value, beside, place),
            "set" => self.transform(&path, value, place).map(Action::Set),
            "wait" => self.duration(&path, value).map(Action::Wait),
            "raise" => self.raise(&path, value, place),
            _ => self.steps(&path, value, &inner(place)).map(Action::Do),
        }
    }

    /// Reports an unsupported task, or that the task has no action.
    fn unknown(&mut self, members: &Members<'_>) {
        members.only(self, &COMMON, &REFUSED);
        if !REFUSED.iter().any(|(name, _)| members.has(name)) {
            let message = format!("the task does nothing: it needs one of {}", KINDS.join(", "));
            self.wrong(members.path(), message);
        }
    }

    fn call(&mut self, members: &Members<'_>, place: &Place) -> Option<Action> {
        let tool = members.needed_text(self, "call")?;
        let path = members.path_of("call");
        if FUNCTIONS.contains(&tool) {
            let message = format!(
                "`{tool}` of the DSL is not supported: register what it calls as a source, and call its tool"
            );
            self.wrong(&path, message);
        } else if tool.contains("${") {
            self.wrong(&path, "the name of a tool is no expression");
        } else if tool.contains('@') {
            self.wrong(&path, "catalogs of the DSL are not supported: call a tool");
        }
        let empty = Value::Object(Map::new());
        let with = members.get("with").unwrap_or(&empty);
        let path = members.path_of("with");
        let with = match with {
            Value::Object(_) => self.template(&path, with, place)?,
            Value::String(text) => self.expression(&path, text, place)?,
            _ => {
                self.wrong(&path, "arguments are an object, or an expression that gives one");
                return None;
            }
        };
        Some(Action::Call { tool: tool.into(), with })
    }

    fn each(&mut self, members: &Members<'_>, place: &Place) -> Option<Action> {
        let path = members.path_of("for");
        let value = members.needed(self, "for")?;
        let each = self.members(&path, value)?;
        each.only(self, &["each", "in", "at"], &[]);
        let item = self.variable(&each, "each", "item");
        let at = self.variable(&each, "at", "index");
        each.needed_text(self, "in");
        let list = self.condition(&each, "in", place);
        let inside = inner(place).with(&[&item, &at]);
        let condition = self.condition(members, "while", &place.with(&[&item, &at]));
        let steps = members.needed(self, "do");
        let steps = steps.and_then(|it| self.steps(&members.path_of("do"), it, &inside));
        let (list, steps) = (list?, steps?);
        Some(Action::For(Box::new(Loop { each: item, at, list, condition, steps })))
    }

    /// Reads the name of a variable, written without `$`.
    pub(super) fn variable(
        &mut self,
        members: &Members<'_>,
        name: &str,
        otherwise: &str,
    ) -> Box<str> {
        let said = members.text(self, name).unwrap_or(otherwise);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let taken = ["context", "input", "output", "task", "workflow", "runtime"];
        let begins = said.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins || !said.chars().all(is_name) || taken.contains(&said) {
            self.wrong(&members.path_of(name), format!("`{said}` cannot be a variable"));
            return otherwise.into();
        }
        said.into()
    }

    fn fork(&mut self, path: &str, value: &Value, place: &Place) -> Option<Action> {
        let fork = self.members(path, value)?;
        fork.only(self, &["branches", "compete"], &[]);
        let compete = fork.flag(self, "compete").unwrap_or_default();
        let branches = fork.needed(self, "branches")?;
        let path = fork.path_of("branches");
        let number = branches.as_array().map_or(1, Vec::len).max(1);
        let at_once = place.branches.max(1).saturating_mul(number);
        if MOST_BRANCHES < at_once {
            self.wrong(
                &path,
                format!("more than {MOST_BRANCHES} branches would be at work at once"),
            );
            return None;
        }
        let inside = Place { branches: at_once, ..inner(place) };
        let branches = self.steps(&path, branches, &inside)?;
        Some(Action::Fork { branches, compete })
    }

    fn switch(
        &mut self,
        path: &str,
        value: &Value,
        beside: &[String],
        place: &Place,
    ) -> Option<Action> {
        let mut cases = Vec::new();
        for (_, path, value) in self.named(path, value)? {
            let case = self.members(&path, value)?;
            case.only(self, &["when", "then"], &[]);
            let when = self.condition(&case, "when", place);
            case.needed(self, "then");
            let then = self.then(&case, beside)?;
            if when.is_none() && cases.iter().any(|case: &Case| case.when.is_none()) {
                self.wrong(&path, "only one case may be without `when`");
            }
            cases.push(Case { when, then });
        }
        Some(Action::Switch(cases))
    }

    fn raise(&mut self, path: &str, value: &Value, place: &Place) -> Option<Action> {
        let raise = self.members(path, value)?;
        raise.only(self, &["error"], &[]);
        let error = raise.needed(self, "error")?;
        let path = raise.path_of("error");
        let (path, error) = match error {
            Value::String(name) => self.reused(&path, "errors", name)?,
            other => (path, other.clone()),
        };
        let error = self.members(&path, &error)?;
        error.only(self, &["type", "status", "title", "detail", "instance"], &[]);
        error.needed_text(self, "type");
        let status = error.needed(self, "status").unwrap_or(&json!(500)).as_u64();
        let status = status.and_then(|status| u16::try_from(status).ok());
        if status.is_none() {
            self.wrong(&error.path_of("status"), "this must be a status, like 400");
        }
        let mut part = |name: &str| -> Option<Arc<Template>> {
            error.text(self, name)?;
            self.template(&error.path_of(name), error.get(name)?, place)
        };
        let (kind, title, detail) = (part("type"), part("title"), part("detail"));
        let instance = error.text(self, "instance").map(Into::into);
        Some(Action::Raise(Box::new(Raise {
            kind: kind?,
            status: status?,
            title,
            detail,
            instance,
        })))
    }
}

/// The scope of nested steps, which define `$input`, `$task` and `$context` themselves.
fn inner(place: &Place) -> Place {
    let mut place = place.clone();
    place.variables.retain(|name| !matches!(&**name, "input" | "task" | "context"));
    place
}
