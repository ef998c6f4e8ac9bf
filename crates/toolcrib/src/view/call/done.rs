//! The result of a call, for programs and for agents.

use std::sync::Arc;

use model::json_size::{about, about_members};
use model::{CallStatus, Content, ErrorCode, Failure, Outcome, ToolId, ToolResult};
use serde_json::{Map, Value};
use tokio::time::Instant;
use upstream::LONG;

use super::failure_of_tool;
use crate::call::{Ability, Question};
use crate::view::ready::Ready;

/// How a call ended.
#[derive(Debug)]
pub enum Called {
    /// The tool ran, or the call failed.
    Done(Box<Done>),
    /// The tool needs input from the caller, who repeats the call with the answers.
    Asks(Vec<(Box<str>, Question)>),
    /// The caller lacks a capability that the tool needs.
    Unable(Ability),
    /// The tool failed with a JSON-RPC error.
    Error {
        /// JSON-RPC or MCP error code.
        code: i64,
        /// Human-readable message.
        message: String,
        /// Additional data of the error.
        data: Option<Box<Value>>,
        /// The same error as one of our own codes.
        as_ours: ErrorCode,
    },
}

/// A call whose tool ran, or that failed.
#[derive(Debug)]
pub struct Done {
    pub(super) tool_id: ToolId,
    pub(super) start: Instant,
    pub(super) by: DoneBy,
}

#[derive(Debug)]
pub(super) enum DoneBy {
    /// Outcome from an upstream, with the compiled tool if it has an output schema.
    Upstream(Outcome, Option<Arc<Ready>>),
    /// Result of a tool that ran in this process: our code or the embedder's.
    Here(ToolResult),
    /// Result of an MCP server, unchanged unless it was truncated.
    Mcp { result: Map<String, Value>, is_cut: bool },
    /// The call failed before any tool ran.
    Nobody(Failure),
}

/// The result of a call in the shape of MCP.
#[derive(Debug)]
pub enum ToolAnswer {
    /// Built from an outcome by this program.
    Ours(ToolResult),
    /// Result of an MCP server, relayed with its source noted in `_meta`.
    Theirs(Map<String, Value>),
}

impl Done {
    /// The failure, if the agent's token lacks scopes and nothing was called.
    pub fn lacks_scopes(&self) -> Option<&Failure> {
        match &self.by {
            DoneBy::Nobody(failure) if !failure.scopes.is_empty() => Some(failure),
            DoneBy::Nobody(_) | DoneBy::Upstream(..) | DoneBy::Here(_) | DoneBy::Mcp { .. } => None,
        }
    }

    /// Whether the result is so large that serializing it takes long.
    pub fn is_long(&self) -> bool {
        let bytes = match &self.by {
            DoneBy::Upstream(outcome, _) => {
                about_content(&outcome.content) + outcome.result.as_ref().map_or(0, about)
            }
            DoneBy::Here(result) => {
                let structured = result.structured_content.as_ref();
                about_content(&result.content) + structured.map_or(0, about_members)
            }
            DoneBy::Mcp { result, .. } => about_members(result),
            // Failure messages have their own size limit.
            DoneBy::Nobody(_) => 0,
        };
        LONG < bytes
    }

    /// Converts the result for programs (requirement E3).
    pub fn into_outcome(self) -> Outcome {
        let (tool_id, start) = (self.tool_id, self.start);
        match self.by {
            DoneBy::Upstream(outcome, _) => outcome,
            DoneBy::Nobody(failure) => failed(tool_id, start, failure),
            DoneBy::Here(result) => {
                let text = result.content.iter().find_map(|content| match content {
                    Content::Text { text } => Some(text.clone()),
                    _ => None,
                });
                let error = code_of(&result).map(|code| Failure::new(code, said(text), false));
                let structured = result.structured_content.map(Value::Object);
                told(tool_id, start, structured, result.content, error)
            }
            DoneBy::Mcp { result, .. } => {
                execution::outcome_of_server(tool_id, Ok(result), start.elapsed())
            }
        }
    }

    /// Converts the result for agents, in the shape of MCP.
    pub fn into_answer(self) -> ToolAnswer {
        ToolAnswer::Ours(match self.by {
            DoneBy::Mcp { result, .. } => return ToolAnswer::Theirs(result),
            DoneBy::Upstream(outcome, promised) => {
                let output = promised.as_ref().and_then(|ready| ready.output());
                execution::tool_result(outcome, output)
            }
            DoneBy::Here(mut result) => {
                if result.is_error && result.code().is_none() {
                    result.meta.extend(failure_of_tool(String::new()).for_programs());
                }
                result
            }
            DoneBy::Nobody(failure) => {
                execution::tool_result(failed(self.tool_id, self.start, failure), None)
            }
        })
    }
}

impl ToolAnswer {
    /// Converts the answer to a JSON object.
    pub fn into_map(self) -> Map<String, Value> {
        match self {
            Self::Theirs(result) => result,
            Self::Ours(result) => match serde_json::to_value(result) {
                Ok(Value::Object(result)) => result,
                _ => Map::new(),
            },
        }
    }
}

fn about_content(content: &[Content]) -> usize {
    let bytes = content.iter().map(|content| match content {
        Content::Text { text } => text.len(),
        Content::Image(media) | Content::Audio(media) => media.data.len(),
        Content::Resource { resource } => resource.blob.len(),
        Content::Other(part) => about(part),
    });
    bytes.sum()
}

pub(super) fn failed(tool_id: ToolId, start: Instant, failure: Failure) -> Outcome {
    told(tool_id, start, None, Vec::new(), Some(failure))
}

pub(super) fn told(
    tool_id: ToolId,
    start: Instant,
    result: Option<Value>,
    content: Vec<Content>,
    error: Option<Failure>,
) -> Outcome {
    let status = if error.is_some() { CallStatus::Failed } else { CallStatus::Completed };
    let execution_time_ms = elapsed(start);
    Outcome { tool_id, status, result, content, error, execution_time_ms, upstream_status: None }
}

/// The error code of a local tool result that failed. A code set by the tool itself takes precedence.
pub(super) fn code_of(result: &ToolResult) -> Option<ErrorCode> {
    result.is_error.then(|| result.code().unwrap_or(ErrorCode::BuiltinError))
}

pub(super) fn said(text: Option<String>) -> String {
    text.unwrap_or_else(|| "the tool says that it failed".into())
}

pub(super) fn elapsed(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
