//! What expressions see at each place, and how a value is made by one.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Frame, Run};
use crate::document::Step;
use crate::expression::{ExpressionError, deep};
use crate::fault::Fault;
use crate::template::{Scope, Template};

/// A step while it is done.
pub(super) struct Doing<'a> {
    pub(super) step: &'a Step,
    pub(super) raw_input: Arc<Value>,
    pub(super) started: Timestamp,
}

impl Frame {
    /// Outside of all steps.
    pub(super) fn outermost(&self) -> Scope {
        let context = ("context".into(), Arc::clone(&self.context));
        Scope { input: Arc::default(), variables: vec![context] }
    }

    /// Within a step.
    pub(super) fn scope(&self) -> Scope {
        let mut scope = self.outermost();
        scope.variables.extend(self.variables.iter().cloned());
        scope
    }
}

impl Run<'_> {
    /// What a template makes of a value; without one, the value itself.
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

    /// The same within a step, which expressions can ask about.
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

    /// The descriptors of the DSL, for expressions that ask for them.
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

/// The date time descriptor of the DSL.
fn moment(at: Timestamp) -> Value {
    json!({
        "iso8601": at.to_string(),
        "epoch": {"seconds": at.as_second(), "milliseconds": at.as_millisecond()},
    })
}
