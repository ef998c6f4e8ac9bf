//! Converts outcomes to MCP tool results, and tool results to outcomes.

use model::{CallFailure, Content, ErrorCode, Outcome, ToolResult};
use serde_json::{Map, Value};

use super::{AnsweredRequest, ResponseContent, escaping, masked_excerpt};
use crate::ArgumentValidator;

/// The `_meta` of a result: it names the source and marks the content as untrusted, so that agents do not follow
/// instructions in it.
pub fn untrusted_source_meta(source: &str) -> Map<String, Value> {
    Map::from_iter([
        ("toolcrib/source".to_owned(), Value::from(source)),
        ("toolcrib/untrusted".to_owned(), Value::Bool(true)),
    ])
}

/// The tool result that an MCP client receives. If the result violates the output schema of the tool (`output`), only
/// its text is sent, because clients reject such structured content. The `_meta` marks everything as untrusted. A
/// failure includes its code, as in the API.
pub fn to_tool_result(outcome: Outcome, output: Option<&ArgumentValidator>) -> ToolResult {
    let mut meta = untrusted_source_meta(outcome.tool_id.source_id());
    if let Some(failure) = outcome.error {
        let failed = ToolResult::from_failure(failure);
        meta.extend(failed.meta);
        return ToolResult { meta, ..failed };
    }
    let mut content = outcome.content;
    if let (Some(result), []) = (&outcome.result, content.as_slice()) {
        content.push(Content::Text { text: escaping::plain_json_of(result) });
    }
    let structured_content = match (outcome.result, output) {
        (Some(Value::Object(object)), Some(output)) => output.validate(object).ok(),
        (Some(Value::Object(object)), None) => Some(object),
        (_, _) => None,
    };
    ToolResult { content, structured_content, is_error: false, meta }
}

/// Reads a tool result, if the response is one. Its content is passed on, and its `isError` is trusted. Such a failure
/// is not retryable: the tool ran and rejected the call, so a retry would probably fail as well.
pub(super) fn read_tool_result(
    asked: &AnsweredRequest<'_>,
    answer: &Value,
) -> Option<Result<ResponseContent, CallFailure>> {
    let result = answer.as_object().filter(|object| is_tool_result(object))?;
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let content: Vec<Content> = blocks.map(convert_block).collect();
    if result.get("isError") == Some(&Value::Bool(true)) {
        let message = masked_excerpt(asked, &failure_message(&content, structured));
        return Some(Err(CallFailure::new(ErrorCode::UpstreamError, message, false)));
    }
    Some(Ok(ResponseContent { result: structured.cloned(), content }))
}

/// Whether an object has a `content` of typed blocks, a `structuredContent` that is an object, or both.
fn is_tool_result(object: &Map<String, Value>) -> bool {
    let (content, structured) = (object.get("content"), object.get("structuredContent"));
    let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
    (content.is_some() || structured.is_some())
        && content.is_none_or(|content| {
            content.as_array().is_some_and(|blocks| blocks.iter().all(is_block))
        })
        && structured.is_none_or(|structured| structured.is_object() || structured.is_null())
}

/// Converts a content block: escapes text, and keeps any other block unchanged.
fn convert_block(block: &Value) -> Content {
    let text = block.get("text").and_then(Value::as_str).filter(|_| block["type"] == "text");
    let Some(text) = text.map(escaping::escape_hidden) else {
        return Content::Other(block.clone());
    };
    if block.as_object().is_some_and(|members| members.len() == 2) {
        return Content::Text { text };
    }
    let mut block = block.clone();
    block["text"] = Value::String(text);
    Content::Other(block)
}

fn failure_message(content: &[Content], structured: Option<&Value>) -> String {
    let mut texts = Vec::new();
    for block in content {
        match block {
            Content::Text { text } => texts.push(text.clone()),
            Content::Other(block) => {
                texts.extend(block["text"].as_str().map(escaping::escape_hidden))
            }
            Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => {}
        }
    }
    match structured {
        _ if !texts.is_empty() => texts.join("\n"),
        Some(structured) => escaping::plain_json_of(structured),
        None => "the tool failed and did not say why".to_owned(),
    }
}
