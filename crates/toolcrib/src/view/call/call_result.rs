//! The result of a call, for programs and for agents.

use std::sync::Arc;

use calls::compiled_tool::CompiledTool;
use json::json_size::{estimate_object_size, estimate_size};
use limits::MAX_INLINE_BYTES;
use model::{CallFailure, CallStatus, Content, ErrorCode, Outcome, ToolId, ToolResult};
use provider::{CallerCapability, InputRequest};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::tool_failure;

/// How a call ended.
#[derive(Debug)]
pub enum CallResult {
    /// The tool ran, or the call failed.
    Completed(Box<CompletedCall>),
    /// The tool needs input from the caller, who repeats the call with the answers.
    InputRequired(Vec<(Box<str>, InputRequest)>),
    /// The caller lacks a capability that the tool needs.
    MissingCapability(CallerCapability),
    /// The tool failed with a JSON-RPC error.
    ProtocolError {
        /// JSON-RPC or MCP error code.
        code: i64,
        /// Human-readable message.
        message: String,
        /// Additional data of the error.
        data: Option<Box<Value>>,
        /// The same error as one of our own codes.
        error_code: ErrorCode,
    },
}

/// A call whose tool ran, or that failed.
#[derive(Debug)]
pub struct CompletedCall {
    pub(super) tool_id: ToolId,
    pub(super) start: Instant,
    pub(super) raw: RawCallResult,
}

#[derive(Debug)]
pub(super) enum RawCallResult {
    /// Outcome from an upstream, with the compiled tool if it has an output schema.
    Upstream(Outcome, Option<Arc<CompiledTool>>),
    /// Result of a tool that ran in this process: our code or the embedder's.
    Local(ToolResult),
    /// Result of an MCP server, unchanged unless it was truncated.
    Mcp { result: Map<String, Value>, is_cut: bool },
    /// The call failed before any tool ran.
    Failed(CallFailure),
}

/// The result of a call in the shape of MCP.
#[derive(Debug)]
pub enum ToolAnswer {
    /// Built from an outcome by this program.
    Built(ToolResult),
    /// Result of an MCP server, relayed with its source noted in `_meta`.
    Relayed(Map<String, Value>),
}

impl CompletedCall {
    /// The failure, if the agent's token lacks scopes and nothing was called.
    pub fn scope_failure(&self) -> Option<&CallFailure> {
        match &self.raw {
            RawCallResult::Failed(failure) if !failure.scopes.is_empty() => Some(failure),
            RawCallResult::Failed(_)
            | RawCallResult::Upstream(..)
            | RawCallResult::Local(_)
            | RawCallResult::Mcp { .. } => None,
        }
    }

    /// Whether the result is so large that serializing it takes long.
    pub fn is_long(&self) -> bool {
        let bytes = match &self.raw {
            RawCallResult::Upstream(outcome, _) => {
                estimate_content_size(&outcome.content)
                    + outcome.result.as_ref().map_or(0, estimate_size)
            }
            RawCallResult::Local(result) => {
                let structured = result.structured_content.as_ref();
                estimate_content_size(&result.content) + structured.map_or(0, estimate_object_size)
            }
            RawCallResult::Mcp { result, .. } => estimate_object_size(result),
            // Failure messages have their own size limit.
            RawCallResult::Failed(_) => 0,
        };
        MAX_INLINE_BYTES < bytes
    }

    /// Converts the result for programs (requirement E3).
    pub fn into_outcome(self) -> Outcome {
        let (tool_id, start) = (self.tool_id, self.start);
        match self.raw {
            RawCallResult::Upstream(outcome, _) => outcome,
            RawCallResult::Failed(failure) => failed_outcome(tool_id, start, failure),
            RawCallResult::Local(result) => {
                let text = result.content.iter().find_map(|content| match content {
                    Content::Text { text } => Some(text.clone()),
                    _ => None,
                });
                let error = result_error_code(&result)
                    .map(|code| CallFailure::new(code, error_text_or_default(text), false));
                let structured = result.structured_content.map(Value::Object);
                build_outcome(tool_id, start, structured, result.content, error)
            }
            RawCallResult::Mcp { result, .. } => {
                execution::outcome_of_mcp_result(tool_id, Ok(result), start.elapsed())
            }
        }
    }

    /// Converts the result for agents, in the shape of MCP.
    pub fn into_tool_answer(self) -> ToolAnswer {
        ToolAnswer::Built(match self.raw {
            RawCallResult::Mcp { result, .. } => return ToolAnswer::Relayed(result),
            RawCallResult::Upstream(outcome, promised) => {
                let output = promised.as_ref().and_then(|ready| ready.output_schema());
                execution::to_tool_result(outcome, output)
            }
            RawCallResult::Local(mut result) => {
                if result.is_error && result.code().is_none() {
                    result.meta.extend(tool_failure(String::new()).to_meta());
                }
                result
            }
            RawCallResult::Failed(failure) => {
                execution::to_tool_result(failed_outcome(self.tool_id, self.start, failure), None)
            }
        })
    }
}

impl ToolAnswer {
    /// Converts the answer to a JSON object.
    pub fn into_map(self) -> Map<String, Value> {
        match self {
            Self::Relayed(result) => result,
            Self::Built(result) => match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                _ => Map::new(),
            },
        }
    }
}

fn estimate_content_size(content: &[Content]) -> usize {
    let bytes = content.iter().map(|content| match content {
        Content::Text { text } => text.len(),
        Content::Image(media) | Content::Audio(media) => media.data.len(),
        Content::Resource { resource } => resource.blob.len(),
        Content::Other(part) => estimate_size(part),
    });
    bytes.sum()
}

pub(super) fn failed_outcome(tool_id: ToolId, start: Instant, failure: CallFailure) -> Outcome {
    build_outcome(tool_id, start, None, Vec::new(), Some(failure))
}

pub(super) fn build_outcome(
    tool_id: ToolId,
    start: Instant,
    result: Option<Value>,
    content: Vec<Content>,
    error: Option<CallFailure>,
) -> Outcome {
    let status = if error.is_some() { CallStatus::Failed } else { CallStatus::Completed };
    let execution_time_ms = elapsed_ms(start);
    Outcome { tool_id, status, result, content, error, execution_time_ms, upstream_status: None }
}

/// The error code of a local tool result that failed. A code set by the tool itself takes precedence.
pub(super) fn result_error_code(result: &ToolResult) -> Option<ErrorCode> {
    result.is_error.then(|| result.code().unwrap_or(ErrorCode::BuiltinError))
}

pub(super) fn error_text_or_default(text: Option<String>) -> String {
    text.unwrap_or_else(|| "the tool says that it failed".into())
}

pub(super) fn elapsed_ms(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
