//! The variables that expressions see at each point of a run, and the evaluation of templates.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{StepFrame, WorkflowRun};
use crate::runtime_expression::{ExpressionError, deep_stack};
use crate::value_template::{ExpressionScope, ValueTemplate};
use crate::workflow_document::WorkflowStep;
use crate::workflow_fault::WorkflowFault;

/// The step that is running.
pub(super) struct ActiveStep<'a> {
    pub(super) step: &'a WorkflowStep,
    pub(super) raw_input: Arc<Value>,
    pub(super) started: Timestamp,
}

impl StepFrame {
    /// The scope outside of all steps.
    pub(super) fn workflow_scope(&self) -> ExpressionScope {
        let context = ("context".into(), Arc::clone(&self.context));
        ExpressionScope { input: Arc::default(), variables: vec![context] }
    }

    /// The scope within a step.
    pub(super) fn step_scope(&self) -> ExpressionScope {
        let mut scope = self.workflow_scope();
        scope.variables.extend(self.variables.iter().cloned());
        scope
    }
}

impl WorkflowRun<'_> {
    /// Applies an optional template to a value; without a template, the value stays as it is.
    pub(super) async fn apply_template(
        &self,
        template: Option<&Arc<ValueTemplate>>,
        value: Arc<Value>,
        scope: &ExpressionScope,
        at: &str,
    ) -> Result<Arc<Value>, WorkflowFault> {
        let Some(template) = template else { return Ok(value) };
        self.evaluate_template(template, value, scope, None, at).await
    }

    /// Evaluates a template. Within a step, expressions can also read the step's descriptor.
    pub(super) async fn evaluate_template(
        &self,
        template: &Arc<ValueTemplate>,
        value: Arc<Value>,
        scope: &ExpressionScope,
        doing: Option<(&ActiveStep<'_>, Option<&Value>)>,
        at: &str,
    ) -> Result<Arc<Value>, WorkflowFault> {
        let mut scope = ExpressionScope { input: value, ..scope.clone() };
        self.add_descriptors(template, &mut scope, doing);
        let (template, work) = (Arc::clone(template), self.environment.budget.work_allowance());
        let evaluated = deep_stack::run_on_pool(move || {
            let mut left = work;
            let result = template.evaluate(&scope, &mut left);
            (result, work - left)
        });
        let Some((result, worked)) = evaluated.await else {
            return Err(WorkflowFault::expression_failed("it cannot be evaluated", at));
        };
        self.environment.budget.consume_work(worked);
        let value = result.map_err(|error| match error {
            ExpressionError::TooMuchWork if work < crate::run_budget::MAX_EXPRESSION_WORK => {
                WorkflowFault::limit_reached("has made expressions do more work than it may", at)
            }
            error => WorkflowFault::expression_failed(&error.to_string(), at),
        })?;
        self.environment
            .budget
            .consume_data(&value)
            .map_err(|what| WorkflowFault::limit_reached(what, at))?;
        Ok(Arc::new(value))
    }

    /// Adds the DSL's descriptors that the template's expressions mention.
    fn add_descriptors(
        &self,
        template: &ValueTemplate,
        scope: &mut ExpressionScope,
        doing: Option<(&ActiveStep<'_>, Option<&Value>)>,
    ) {
        let mut add = |name: &str, value: Value| {
            scope.variables.push((name.into(), Arc::new(value)));
        };
        if template.mentions_variable("workflow") {
            let value = json!({
                "id": self.environment.id,
                "definition": &*self.workflow.definition,
                "input": &*self.input,
                "startedAt": datetime_descriptor(self.started),
            });
            add("workflow", value);
        }
        if template.mentions_variable("runtime") {
            let value =
                json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION"), "metadata": {}});
            add("runtime", value);
        }
        if let Some((doing, raw_output)) = doing.filter(|_| template.mentions_variable("task")) {
            let mut value = json!({
                "name": doing.step.name,
                "reference": doing.step.reference,
                "definition": &*doing.step.definition,
                "input": &*doing.raw_input,
                "startedAt": datetime_descriptor(doing.started),
            });
            if let Some(output) = raw_output {
                value["output"] = output.clone();
            }
            add("task", value);
        }
    }
}

/// The DSL's date-time descriptor.
fn datetime_descriptor(at: Timestamp) -> Value {
    json!({
        "iso8601": at.to_string(),
        "epoch": {"seconds": at.as_second(), "milliseconds": at.as_millisecond()},
    })
}
