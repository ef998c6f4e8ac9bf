//! Outcomes in the shape of an MCP tool result, and back.

use model::{Content, ErrorCode, Failure, Outcome, ToolResult};
use serde_json::{Map, Value};

use super::{Asked, Read, beginning, plain};
use crate::Arguments;

/// What the `_meta` of a result says of whose words it has: those of a source, which nobody should take for instructions.
pub fn whose_words(source: &str) -> Map<String, Value> {
    Map::from_iter([
        ("toolcrib/source".to_owned(), Value::from(source)),
        ("toolcrib/untrusted".to_owned(), Value::Bool(true)),
    ])
}

/// What an MCP client is told of an outcome. A result that does not fit what the tool promised (`output`, its output
/// schema) is text only: clients refuse structured content that breaks the promise. All of it are the words of a source,
/// and says so. A failure says its code, as it does to programs.
pub fn tool_result(outcome: Outcome, output: Option<&Arguments>) -> ToolResult {
    let mut meta = whose_words(outcome.tool_id.source());
    if let Some(failure) = outcome.error {
        let failed = ToolResult::failed(failure);
        meta.extend(failed.meta);
        return ToolResult { meta, ..failed };
    }
    let mut content = outcome.content;
    if let (Some(result), []) = (&outcome.result, content.as_slice()) {
        content.push(Content::Text { text: plain::json(result) });
    }
    let structured_content = match (outcome.result, output) {
        (Some(Value::Object(object)), Some(output)) => output.checked(object).ok(),
        (Some(Value::Object(object)), None) => Some(object),
        (_, _) => None,
    };
    ToolResult { content, structured_content, is_error: false, meta }
}

/// What a tool result says, or none if the answer is not one. Its content is passed on, and its word on failure is
/// believed. Not retryable: the tool ran and said no, and nothing tells us that it would say otherwise next time.
pub(super) fn read(asked: &Asked<'_>, answer: &Value) -> Option<Result<Read, Failure>> {
    let result = answer.as_object().filter(|object| is_tool_result(object))?;
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let content: Vec<Content> = blocks.map(block).collect();
    if result.get("isError") == Some(&Value::Bool(true)) {
        let message = beginning(asked, &reason(&content, structured));
        return Some(Err(Failure::new(ErrorCode::UpstreamError, message, false)));
    }
    Some(Ok(Read { result: structured.cloned(), content }))
}

/// A `content` of typed blocks, a `structuredContent` that is an object, or both; not just any object with such a name.
fn is_tool_result(object: &Map<String, Value>) -> bool {
    let (content, structured) = (object.get("content"), object.get("structuredContent"));
    let is_block = |block: &Value| block.get("type").is_some_and(Value::is_string);
    (content.is_some() || structured.is_some())
        && content.is_none_or(|content| {
            content.as_array().is_some_and(|blocks| blocks.iter().all(is_block))
        })
        && structured.is_none_or(|structured| structured.is_object() || structured.is_null())
}

/// A text, also one with more to it, or a block that is kept as it is.
fn block(block: &Value) -> Content {
    let text = block.get("text").and_then(Value::as_str).filter(|_| block["type"] == "text");
    let Some(text) = text.map(plain::text) else { return Content::Other(block.clone()) };
    if block.as_object().is_some_and(|members| members.len() == 2) {
        return Content::Text { text };
    }
    let mut block = block.clone();
    block["text"] = Value::String(text);
    Content::Other(block)
}

fn reason(content: &[Content], structured: Option<&Value>) -> String {
    let mut texts = Vec::new();
    for block in content {
        match block {
            Content::Text { text } => texts.push(text.clone()),
            Content::Other(block) => texts.extend(block["text"].as_str().map(plain::text)),
            Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => {}
        }
    }
    match structured {
        _ if !texts.is_empty() => texts.join("\n"),
        Some(structured) => plain::json(structured),
        None => "the tool failed and did not say why".to_owned(),
    }
}
