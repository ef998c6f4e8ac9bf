//! Handles results without structured content for tools whose output schema was shown to the client.
//!
//! A client that was shown an output schema treats such a result as broken: the TypeScript and Python SDKs discard it,
//! with all its text. Only an error needs no structured content. Therefore the result is marked as an error, with a
//! note that the tool was called.

use model::{CallStatus, Content, ToolResult};
use serde_json::{Map, Value, json};

use super::{CompletedCall, RawCallResult, ToolAnswer};

const NOTE: &str = "[toolcrib: the tool was called, and this is what it answered. It is marked as an error only because it \
does not have the structure that the tool promises. Calling again would do it again]";

/// The `_meta` key for the real status of the call, where `isError` does not reflect it.
const STATUS_KEY: &str = "toolcrib/status";

impl CompletedCall {
    /// Converts the result for MCP clients that validate it against the tool's output schema. The result of an MCP
    /// server stays unchanged unless it was truncated: its output schema is the server's responsibility.
    pub fn into_strict_answer(self) -> ToolAnswer {
        let is_as_it_came = matches!(self.raw, RawCallResult::Mcp { is_cut: false, .. });
        match self.into_tool_answer() {
            ToolAnswer::Built(mut result) => {
                mark_missing_output(&mut result);
                ToolAnswer::Built(result)
            }
            ToolAnswer::Relayed(mut result) => {
                if !is_as_it_came {
                    mark_missing_mcp_output(&mut result);
                }
                ToolAnswer::Relayed(result)
            }
        }
    }
}

fn mark_missing_output(result: &mut ToolResult) {
    if result.is_error || result.structured_content.is_some() {
        return;
    }
    result.is_error = true;
    result.content.push(Content::Text { text: NOTE.to_owned() });
    result.meta.insert(STATUS_KEY.to_owned(), json!(CallStatus::Completed));
}

fn mark_missing_mcp_output(result: &mut Map<String, Value>) {
    let has_failed = result.get("isError") == Some(&Value::Bool(true));
    if has_failed || result.contains_key("structuredContent") {
        return;
    }
    result.insert("isError".to_owned(), Value::Bool(true));
    if let Value::Array(content) = result.entry("content").or_insert_with(|| json!([])) {
        content.push(json!({"type": "text", "text": NOTE}));
    }
    if let Value::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert(STATUS_KEY.to_owned(), json!(CallStatus::Completed));
    }
}
