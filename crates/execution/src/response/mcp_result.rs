//! Converts the result of an MCP server to an outcome, for programs. Agents receive the original result.

use std::time::Duration;

use model::{CallFailure, CallStatus, Content, ErrorCode, Outcome, ToolId};
use serde_json::{Map, Value};

/// The outcome of `tools/call`: its result, or the message of its error.
pub fn outcome_of_mcp_result(
    tool_id: ToolId,
    result: Result<Map<String, Value>, String>,
    execution_time: Duration,
) -> Outcome {
    let failed = |message| Some(CallFailure::new(ErrorCode::UpstreamError, message, false));
    let (result, content, error) = match result {
        Err(message) => (None, Vec::new(), failed(message)),
        Ok(mut result) => {
            let content = match result.shift_remove("content") {
                Some(Value::Array(content)) => content,
                _ => Vec::new(),
            };
            let text = content.iter().find_map(|part| part.get("text")?.as_str());
            let error = match result.get("isError") {
                Some(Value::Bool(true)) => {
                    failed(text.unwrap_or("the tool says that it failed").to_owned())
                }
                _ => None,
            };
            let content = content.into_iter().map(convert_content).collect();
            (result.shift_remove("structuredContent"), content, error)
        }
    };
    Outcome {
        tool_id,
        status: if error.is_some() { CallStatus::Failed } else { CallStatus::Completed },
        result,
        content,
        error,
        execution_time_ms: u64::try_from(execution_time.as_millis()).unwrap_or(u64::MAX),
        upstream_status: None,
    }
}

/// Converts a content block: plain text becomes text, any other block is kept unchanged.
fn convert_content(part: Value) -> Content {
    match (part.get("text").and_then(Value::as_str), part.as_object().map(Map::len)) {
        (Some(text), Some(2)) if part["type"] == "text" => Content::Text { text: text.to_owned() },
        _ => Content::Other(part),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_and_is_error_of_an_mcp_server_are_kept() {
        let outcome = |result: Value| {
            let result = result.as_object().cloned().ok_or_else(|| "no".to_owned());
            outcome_of_mcp_result("s:a".parse().unwrap(), result, Duration::from_millis(7))
        };
        let odd = json!({"type": "text", "text": "b", "annotations": {"priority": 1}});
        let done = outcome(json!({
            "content": [{"type": "text", "text": "a"}, odd], "structuredContent": {"n": 1},
        }));
        assert_eq!((done.status, done.execution_time_ms), (CallStatus::Completed, 7));
        assert_eq!(done.result, Some(json!({"n": 1})));
        assert_eq!(done.content, [Content::Text { text: "a".into() }, Content::Other(odd)]);
        let failed = outcome(json!({"content": [{"type": "text", "text": "a"}], "isError": true}));
        assert_eq!(failed.error.map(|error| error.message).as_deref(), Some("a"));
        assert_eq!(outcome(json!(1)).error.map(|error| error.message).as_deref(), Some("no"));
    }
}
