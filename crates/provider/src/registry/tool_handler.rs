//! Handlers of registered tools: functions or closures with typed arguments.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::handler_result::IntoResult;
use crate::call_context::{CallContext, InputError};
use crate::tool_provider::{ProviderError, ToolCallFuture};

/// A function or a closure that answers calls. It takes nothing, the arguments, or the arguments and the
/// [`CallContext`], and returns an [`IntoResult`].
pub trait ToolHandler<Takes>: Send + Sync + 'static {
    /// The JSON Schema of the arguments.
    fn input_schema() -> Value;

    /// The JSON Schema of the structured results, if there are any.
    fn output_schema() -> Option<Value>;

    /// Answers a call.
    fn handle_call(
        &self,
        arguments: Map<String, Value>,
        call: CallContext,
    ) -> ToolCallFuture<'static>;
}

impl<F, Answering> ToolHandler<()> for F
where
    F: Fn() -> Answering + Send + Sync + 'static,
    Answering: Future<Output: IntoResult> + Send + 'static,
{
    fn input_schema() -> Value {
        json!({"type": "object", "additionalProperties": false})
    }

    fn output_schema() -> Option<Value> {
        Answering::Output::output_schema()
    }

    fn handle_call(&self, _: Map<String, Value>, call: CallContext) -> ToolCallFuture<'static> {
        await_answer(self(), call)
    }
}

impl<F, Arguments, Answering> ToolHandler<(Arguments,)> for F
where
    F: Fn(Arguments) -> Answering + Send + Sync + 'static,
    Arguments: DeserializeOwned + JsonSchema,
    Answering: Future<Output: IntoResult> + Send + 'static,
{
    fn input_schema() -> Value {
        json_schema_of::<Arguments>()
    }

    fn output_schema() -> Option<Value> {
        Answering::Output::output_schema()
    }

    fn handle_call(
        &self,
        arguments: Map<String, Value>,
        call: CallContext,
    ) -> ToolCallFuture<'static> {
        match parse_arguments(arguments) {
            Ok(arguments) => await_answer(self(arguments), call),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl<F, Arguments, Answering> ToolHandler<(Arguments, CallContext)> for F
where
    F: Fn(Arguments, CallContext) -> Answering + Send + Sync + 'static,
    Arguments: DeserializeOwned + JsonSchema,
    Answering: Future<Output: IntoResult> + Send + 'static,
{
    fn input_schema() -> Value {
        json_schema_of::<Arguments>()
    }

    fn output_schema() -> Option<Value> {
        Answering::Output::output_schema()
    }

    fn handle_call(
        &self,
        arguments: Map<String, Value>,
        call: CallContext,
    ) -> ToolCallFuture<'static> {
        match parse_arguments(arguments) {
            Ok(arguments) => await_answer(self(arguments, call.clone()), call),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

fn parse_arguments<Arguments: DeserializeOwned>(
    arguments: Map<String, Value>,
) -> Result<Arguments, ProviderError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ProviderError::Invalid(format!("the arguments do not fit: {error}")))
}

fn await_answer<Answer: IntoResult>(
    answering: impl Future<Output = Answer> + Send + 'static,
    call: CallContext,
) -> ToolCallFuture<'static> {
    Box::pin(
        async move { answering.await.into_result().map_err(|error| restore_pending(error, &call)) },
    )
}

/// Restores the pending error: a handler may have wrapped it in an error of its own.
pub(super) fn restore_pending(error: ProviderError, call: &CallContext) -> ProviderError {
    match error {
        ProviderError::Failed(_) if call.has_pending_input() => InputError::Pending.into(),
        error => error,
    }
}

/// The JSON Schema of a type, without fields that are useless to a model.
pub(super) fn json_schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}
