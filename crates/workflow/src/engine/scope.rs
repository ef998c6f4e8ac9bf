//! The variables that expressions see at each point of a run, and the evaluation of templates.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Frame, Run};
use crate::document::Step;
use crate::expression::{ExpressionError, deep};
use crate::fault::Fault;
use crate::template::{Scope, Template};

/// The step that is running.
pub(super) struct Doing<'a> {
    pub(super) step: &'a Step,
    pub(super) raw_input: Arc<Value>,
    pub(super) started: Timestamp,
}

impl Frame {
    /// The scope outside of all steps.
    pub(super) fn outermost(&self) -> Scope {
        let context = ("context".into(), Arc::clone(&self.context));
        Scope { input: Arc::default(), variables: vec![context] }
    }

    /// The scope within a step.
    pub(super) fn scope(&self) -> Scope {
        let mut scope = self.outermost();
        scope.variables.extend(self.variables.iter().cloned());
        scope
    }
}

impl Run<'_> {
    /// Applies an optional template to a value; without a template, the value stays as it is.
    pub(super) async fn made(
        &self,
        template: Option<&Arc<Template>>,
        value: Arc<Value>,
        scope: &Scope,
        at: &str,
    ) -> Result<Arc<Value>, Fault> {
        let Some(template) = template else { return Ok(value) };
        self.evaluated(template, value, scope, None, at).await
    }

    /// Evaluates a template. Within a step, expressions can also read the step's descriptor.
    pub(super) async fn evaluated(
        &self,
        template: &Arc<Template>,
        value: Arc<Value>,
        scope: &Scope,
        doing: Option<(&Doing<'_>, Option<&Value>)>,
        at: &str,
    ) -> Result<Arc<Value>, Fault> {
        let mut scope = Scope { input: value, ..scope.clone() };
        self.describe(template, &mut scope, doing);
        let (template, work) = (Arc::clone(template), self.around.budget.work());
        let evaluated = deep::soon(move || {
            let mut left = work;
            let result = template.evaluate(&scope, &mut left);
            (result, work - left)
        });
        let Some((result, worked)) = evaluated.await else {
            return Err(Fault::expression("it cannot be evaluated", at));
        };
        self.around.budget.worked(worked);
        let value = result.map_err(|error| match error {
            ExpressionError::TooMuchWork if work < crate::budget::WORK_AT_ONCE => {
                Fault::bound("has made expressions do more work than it may", at)
            }
            error => Fault::expression(&error.to_string(), at),
        })?;
        self.around.budget.keep(&value).map_err(|what| Fault::bound(what, at))?;
        Ok(Arc::new(value))
    }

    /// Adds the DSL's descriptors that the template's expressions mention.
    fn describe(
        &self,
        template: &Template,
        scope: &mut Scope,
        doing: Option<(&Doing<'_>, Option<&Value>)>,
    ) {
        let mut add = |name: &str, value: Value| {
            scope.variables.push((name.into(), Arc::new(value)));
        };
        if template.mentions("workflow") {
            let value = json!({
                "id": self.around.id,
                "definition": &*self.workflow.definition,
                "input": &*self.input,
                "startedAt": moment(self.started),
            });
            add("workflow", value);
        }
        if template.mentions("runtime") {
            let value =
                json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION"), "metadata": {}});
            add("runtime", value);
        }
        if let Some((doing, raw_output)) = doing.filter(|_| template.mentions("task")) {
            let mut value = json!({
                "name": doing.step.name,
                "reference": doing.step.reference,
                "definition": &*doing.step.definition,
                "input": &*doing.raw_input,
                "startedAt": moment(doing.started),
            });
            if let Some(output) = raw_output {
                value["output"] = output.clone();
            }
            add("task", value);
        }
    }
}

/// The DSL's date-time descriptor.
fn moment(at: Timestamp) -> Value {
    json!({
        "iso8601": at.to_string(),
        "epoch": {"seconds": at.as_second(), "milliseconds": at.as_millisecond()},
    })
}
