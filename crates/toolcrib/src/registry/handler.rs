//! Handlers of registered tools: functions or closures with typed arguments.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::result::IntoResult;
use crate::call::{CallContext, NoAnswer};
use crate::provider::{Calling, ProviderError};

/// A function or a closure that answers calls. It takes nothing, the arguments, or the arguments and the
/// [`CallContext`], and returns an [`IntoResult`].
pub trait Handler<Takes>: Send + Sync + 'static {
    /// The JSON Schema of the arguments.
    fn input_schema() -> Value;

    /// The JSON Schema of the structured results, if there are any.
    fn output_schema() -> Option<Value>;

    /// Answers a call.
    fn handle(&self, arguments: Map<String, Value>, call: CallContext) -> Calling<'static>;
}

impl<F, Answering> Handler<()> for F
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

    fn handle(&self, _: Map<String, Value>, call: CallContext) -> Calling<'static> {
        answered(self(), call)
    }
}

impl<F, Arguments, Answering> Handler<(Arguments,)> for F
where
    F: Fn(Arguments) -> Answering + Send + Sync + 'static,
    Arguments: DeserializeOwned + JsonSchema,
    Answering: Future<Output: IntoResult> + Send + 'static,
{
    fn input_schema() -> Value {
        schema_of::<Arguments>()
    }

    fn output_schema() -> Option<Value> {
        Answering::Output::output_schema()
    }

    fn handle(&self, arguments: Map<String, Value>, call: CallContext) -> Calling<'static> {
        match typed(arguments) {
            Ok(arguments) => answered(self(arguments), call),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl<F, Arguments, Answering> Handler<(Arguments, CallContext)> for F
where
    F: Fn(Arguments, CallContext) -> Answering + Send + Sync + 'static,
    Arguments: DeserializeOwned + JsonSchema,
    Answering: Future<Output: IntoResult> + Send + 'static,
{
    fn input_schema() -> Value {
        schema_of::<Arguments>()
    }

    fn output_schema() -> Option<Value> {
        Answering::Output::output_schema()
    }

    fn handle(&self, arguments: Map<String, Value>, call: CallContext) -> Calling<'static> {
        match typed(arguments) {
            Ok(arguments) => answered(self(arguments, call.clone()), call),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

fn typed<Arguments: DeserializeOwned>(
    arguments: Map<String, Value>,
) -> Result<Arguments, ProviderError> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| ProviderError::Invalid(format!("the arguments do not fit: {error}")))
}

fn answered<Answer: IntoResult>(
    answering: impl Future<Output = Answer> + Send + 'static,
    call: CallContext,
) -> Calling<'static> {
    Box::pin(async move { answering.await.into_result().map_err(|error| later(error, &call)) })
}

/// Restores the pending error: a handler may have wrapped it in an error of its own.
pub(super) fn later(error: ProviderError, call: &CallContext) -> ProviderError {
    match error {
        ProviderError::Failed(_) if call.has_open() => NoAnswer::Later.into(),
        error => error,
    }
}

/// The JSON Schema of a type, without fields that are useless to a model.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}
