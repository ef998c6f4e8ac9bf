//! A tool call and its outcome, the content of a result, and the reasons for a failure.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolId;

/// A call of a tool, as the agent requests it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Call {
    /// The tool's name, as listed for the agent.
    pub name: Box<str>,
    /// Arguments by name.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Which tool.
    pub tool_id: ToolId,
    /// How it went.
    pub status: CallStatus,
    /// The answer, if it is JSON.
    #[serde(default)]
    pub result: Option<Value>,
    /// The answer, if it is something else, or more than JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Why there is none.
    #[serde(default)]
    pub error: Option<CallFailure>,
    /// How long it took.
    pub execution_time_ms: u64,
    /// The upstream's HTTP status.
    #[serde(default)]
    pub upstream_status: Option<u16>,
}

/// A part of an answer, in the shape MCP gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// For the model to read.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(MediaContent),
    /// A recording.
    Audio(MediaContent),
    /// Any other bytes.
    Resource {
        /// The bytes, with a name.
        resource: BlobContent,
    },
    /// A kind of content we do not look into, passed on as it is.
    #[serde(untagged)]
    Other(Value),
}

/// A picture or a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Media")]
pub struct MediaContent {
    /// In base64.
    pub data: String,
    /// `image/png`
    pub mime_type: String,
}

/// Bytes that are embedded in an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Blob")]
pub struct BlobContent {
    /// What it is called.
    pub uri: String,
    /// `application/pdf`
    pub mime_type: String,
    /// In base64.
    pub blob: String,
}

/// What came of a call, in the shape of an MCP tool result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// For the model to read.
    #[serde(default)]
    pub content: Vec<Content>,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Map<String, Value>>,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// Whose words these are, and why it failed.
    #[serde(rename = "_meta", default, skip_serializing_if = "Map::is_empty")]
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// The result of a failed call: the message as text for the model, code and details in `_meta` for programs.
    pub fn from_failure(failure: CallFailure) -> Self {
        let meta = failure.to_meta();
        let content = vec![Content::Text { text: failure.message }];
        Self { content, structured_content: None, is_error: true, meta }
    }

    /// The failure code, if `_meta` has one that this version knows.
    pub fn code(&self) -> Option<ErrorCode> {
        self.meta.get(CODE_META_KEY).and_then(|code| ErrorCode::deserialize(code).ok())
    }
}

/// The `_meta` key for the failure code.
const CODE_META_KEY: &str = "toolcrib/code";

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Failure")]
pub struct CallFailure {
    /// For programs.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// In how many seconds, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// All that the agent's token must allow, where nothing was called because it does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The lines of the message, where they are about arguments: for endpoints that report them one by one.
    #[serde(skip)]
    pub arguments: Vec<ArgumentProblem>,
    /// Why, for admins alone: it may name hosts, files and variables that are nothing for an agent.
    #[serde(skip)]
    pub cause: Option<Arc<str>>,
}

/// A problem with one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentProblem {
    /// The argument's location, as a JSON pointer.
    pub path: String,
    /// The problem, in one sentence.
    pub message: String,
}

impl CallFailure {
    /// A failure without a retry delay, scopes, argument problems or cause.
    pub fn new(code: ErrorCode, message: impl Into<String>, retryable: bool) -> Self {
        let (message, retry_after, cause) = (message.into(), None, None);
        let (scopes, arguments) = (Vec::new(), Vec::new());
        Self { code, message, retryable, retry_after, scopes, arguments, cause }
    }

    /// Adds the cause, which only admins see.
    pub fn with_cause(self, cause: impl Into<Arc<str>>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// The message with its cause, for admins.
    pub fn full_message(&self) -> Cow<'_, str> {
        match &self.cause {
            Some(cause) => Cow::Owned(format!("{}: {cause}", self.message)),
            None => Cow::Borrowed(&self.message),
        }
    }

    /// The `_meta` entries for details that have no field in MCP: `toolcrib/code`, `toolcrib/retryable` and, if known,
    /// `toolcrib/retry_after` and `toolcrib/scopes`.
    pub fn to_meta(&self) -> Map<String, Value> {
        let code = (CODE_META_KEY.to_owned(), Value::from(self.code.as_str()));
        let retryable = ("toolcrib/retryable".to_owned(), Value::from(self.retryable));
        let seconds = self.retry_after.map(Value::from);
        let after = seconds.map(|seconds| ("toolcrib/retry_after".to_owned(), seconds));
        let scopes = (!self.scopes.is_empty()).then(|| Value::from(self.scopes.as_slice()));
        let scopes = scopes.map(|scopes| ("toolcrib/scopes".to_owned(), scopes));
        [code, retryable].into_iter().chain(after).chain(scopes).collect()
    }
}

/// Why a call failed, in one stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum ErrorCode {
    ValidationError,
    NotGranted,
    InsufficientScope,
    TokenExchangeFailed,
    ClientCredentialsFailed,
    UpstreamTimeout,
    UpstreamConnectionError,
    UpstreamError,
    CircuitOpen,
    RateLimited,
    TemplateError,
    PollTimeout,
    PollFailed,
    BuiltinError,
    InternalError,
}

impl ErrorCode {
    /// All codes, in declaration order.
    pub const ALL: [Self; 15] = [
        Self::ValidationError,
        Self::NotGranted,
        Self::InsufficientScope,
        Self::TokenExchangeFailed,
        Self::ClientCredentialsFailed,
        Self::UpstreamTimeout,
        Self::UpstreamConnectionError,
        Self::UpstreamError,
        Self::CircuitOpen,
        Self::RateLimited,
        Self::TemplateError,
        Self::PollTimeout,
        Self::PollFailed,
        Self::BuiltinError,
        Self::InternalError,
    ];

    /// The code as written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidationError => "validation_error",
            Self::NotGranted => "not_granted",
            Self::InsufficientScope => "insufficient_scope",
            Self::TokenExchangeFailed => "token_exchange_failed",
            Self::ClientCredentialsFailed => "client_credentials_failed",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::UpstreamConnectionError => "upstream_connection_error",
            Self::UpstreamError => "upstream_error",
            Self::CircuitOpen => "circuit_open",
            Self::RateLimited => "rate_limited",
            Self::TemplateError => "template_error",
            Self::PollTimeout => "poll_timeout",
            Self::PollFailed => "poll_failed",
            Self::BuiltinError => "builtin_error",
            Self::InternalError => "internal_error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_written_in_snake_case_and_listed_at_its_index() {
        for (place, code) in ErrorCode::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert_eq!(code as usize, place);
        }
    }

    #[test]
    fn a_tool_result_carries_the_code_of_its_failure() {
        for code in ErrorCode::ALL {
            let failed = ToolResult::from_failure(CallFailure::new(code, "", false));
            assert_eq!(failed.code(), Some(code));
            assert_eq!(ToolResult { meta: Map::new(), ..failed }.code(), None);
        }
    }

    #[test]
    fn every_code_is_in_the_documentation() {
        let documentation = include_str!("../../../docs/agents.md");
        for code in ErrorCode::ALL.map(ErrorCode::as_str) {
            assert!(documentation.contains(&format!("\n| `{code}` |")), "{code}");
        }
    }
}
