//! Return types of handlers.

use std::error::Error;

use model::{Content, ToolResult};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::tool_handler::json_schema_of;
use crate::call_context::InputError;
use crate::tool_provider::ProviderError;

/// Any error, for `?` in a handler.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A return type of a handler: a string, [`Json`], a full [`ToolResult`], nothing, or a `Result` of one of them.
pub trait IntoResult {
    /// Converts to the result, or to the error.
    fn into_result(self) -> Result<ToolResult, ProviderError>;

    /// The JSON Schema of the structured content, if there is any.
    fn output_schema() -> Option<Value>
    where
        Self: Sized,
    {
        None
    }
}

/// A structured result: its JSON becomes the structured content and the text of the result. The schema of a struct
/// becomes the tool's `outputSchema`.
///
/// ```
/// use toolcrib_provider::{IntoResult, Json};
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Weather {
///     celsius: f64,
/// }
///
/// let result = Json(Weather { celsius: 21.5 }).into_result().unwrap();
/// assert_eq!(result.structured_content.unwrap()["celsius"], 21.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

pub(super) fn text_result(text: impl Into<String>) -> ToolResult {
    let content = vec![Content::Text { text: text.into() }];
    ToolResult { content, structured_content: None, is_error: false, meta: Map::new() }
}

impl IntoResult for ToolResult {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        Ok(self)
    }
}

impl IntoResult for String {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        Ok(text_result(self))
    }
}

impl IntoResult for &str {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        Ok(text_result(self))
    }
}

impl IntoResult for () {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        Ok(ToolResult { content: Vec::new(), ..text_result("") })
    }
}

impl<T: Serialize + JsonSchema> IntoResult for Json<T> {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        let unwritten = |error| ProviderError::Failed(format!("the answer is no JSON: {error}"));
        let answer = serde_json::to_value(self.0).map_err(unwritten)?;
        let told = text_result(answer.to_string());
        Ok(match answer {
            Value::Object(object) => ToolResult { structured_content: Some(object), ..told },
            _ => told,
        })
    }

    fn output_schema() -> Option<Value> {
        // Structured content must be an object.
        Some(json_schema_of::<T>())
            .filter(|schema| schema.get("type").is_some_and(|it| it == "object"))
    }
}

impl<T: IntoResult, E: Into<BoxError>> IntoResult for Result<T, E> {
    fn into_result(self) -> Result<ToolResult, ProviderError> {
        self.map_err(|error| ProviderError::from_handler_error(error.into()))?.into_result()
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }
}

impl ProviderError {
    /// Converts an error of a handler; a `ProviderError` or `InputError` inside keeps its meaning.
    pub(super) fn from_handler_error(error: BoxError) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => *ours,
            Err(error) => match error.downcast::<InputError>() {
                Ok(unanswered) => Self::Input(*unanswered),
                Err(error) => Self::Failed(error.to_string()),
            },
        }
    }
}
