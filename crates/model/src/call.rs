//! A call and its outcome: what the agent does, and what came of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolId;

/// What an agent asks for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Call {
    /// The tool, by the name the agent sees.
    pub name: Box<str>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which tool.
    pub tool_id: ToolId,
    /// How it went.
    pub status: CallStatus,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    /// How long it took.
    pub execution_time_ms: u64,
    /// The upstream's HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
}

/// How a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// For programs.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
}

/// Why a call failed, in one stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
