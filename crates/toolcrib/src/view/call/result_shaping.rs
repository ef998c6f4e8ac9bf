//! Shapes the answer of a tool for agents: applies the admin's projection, removes reserved fields and sanitizes text.

use std::sync::Arc;

use execution::{ProjectionError, ResultProjection};
use json::json_size::exceeds_size;
use json::strict_json;
use json::strict_json::ValueCounter;
use limits::{MAX_INLINE_BYTES, run_low_priority_if_long};
use model::{CallFailure, Content, ErrorCode, Outcome, SourceId};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

/// Maximum number of values in JSON that is parsed from text; an object counts as four.
const MAX_VALUES: usize = 500_000;

/// Projection work that is done inline, in bytes traversed; more runs on the low-priority pool.
const MAX_INLINE_WORK: usize = 4 << 20;

/// Applies the projection, if any, to the JSON result of an outcome.
pub(super) async fn project_outcome(
    mut outcome: Outcome,
    projection: Option<&Arc<ResultProjection>>,
) -> Result<Outcome, CallFailure> {
    let Some(projection) = projection else { return Ok(outcome) };
    let Some(result) = outcome.result.take() else {
        // JSON with too many values or too much depth arrives as text too.
        let looks_like_json = |content: &Content| match content {
            Content::Text { text } => text.trim_start().starts_with(['{', '[']),
            _ => false,
        };
        return match outcome.error.is_none() && outcome.content.iter().any(looks_like_json) {
            true => Err(projection_failure("it was not read as JSON")),
            false => Ok(outcome),
        };
    };
    let result = apply_projection(projection, result).await?;
    outcome.content.retain(|content| !is_text_content(content));
    if !outcome.content.is_empty() {
        outcome.content.insert(0, Content::Text { text: json_to_text(&result) });
    }
    outcome.result = Some(result);
    Ok(outcome)
}

/// Shapes the result of an MCP server and notes its source in `_meta`. The projection applies to structured content, or
/// to the only text if that is JSON. Only objects become structured content again.
pub(super) async fn shape_mcp_result(
    source: &SourceId,
    mut result: Map<String, Value>,
    projection: Option<&Arc<ResultProjection>>,
) -> Result<Map<String, Value>, CallFailure> {
    remove_reserved_fields(&mut result);
    note_source(source, &mut result);
    let has_failed = result.get("isError") == Some(&Value::Bool(true));
    let projection = projection.filter(|_| !has_failed);
    let json = match projection.and_then(|_| result.shift_remove("structuredContent")) {
        None if projection.is_some() => parse_single_text(&result).await?,
        structured => structured,
    };
    sanitize_texts(&mut result);
    let (Some(projection), Some(json)) = (projection, json) else { return Ok(result) };
    let projected = apply_projection(projection, json).await?;
    let mut content = vec![json!({"type": "text", "text": json_to_text(&projected)})];
    if let Some(Value::Array(parts)) = result.shift_remove("content") {
        content.extend(parts.into_iter().filter(|part| part["type"] != "text"));
    }
    result.insert("content".to_owned(), Value::Array(content));
    if projected.is_object() {
        result.insert("structuredContent".to_owned(), projected);
    }
    Ok(result)
}

/// Parses the only text of a result if it is JSON: servers without structured content answer that way.
async fn parse_single_text(result: &Map<String, Value>) -> Result<Option<Value>, CallFailure> {
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let mut texts =
        content.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
    let (Some(text), None) = (texts.next(), texts.next()) else { return Ok(None) };
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    let text = text.to_owned();
    run_low_priority_if_long(text.len(), move || parse_projectable_json(&text)).await
}

/// Parses JSON in a text. Other text may start like JSON, such as log lines. JSON that cannot be projected is an error.
fn parse_projectable_json(text: &str) -> Result<Option<Value>, CallFailure> {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Ok(None);
    }
    if ValueCounter::at_start().count_and_check(MAX_VALUES, text.as_bytes()) {
        return Err(projection_failure("it has too many values"));
    }
    let json = strict_json::parse_tolerant(text.as_bytes());
    json.map(Some).map_err(|error| projection_failure(&error.to_string()))
}

/// Shapes the answer of an MCP server for a prompt or a resource, which has no structured content.
pub(in crate::view) fn shape_mcp_offer(source: &SourceId, result: &mut Map<String, Value>) {
    note_source(source, result);
    if let Some(Value::String(description)) = result.get_mut("description") {
        execution::escape_dangerous(description);
    }
    for message in object_items(result, "messages") {
        match message.get_mut("content") {
            Some(Value::Array(parts)) => parts.iter_mut().for_each(sanitize_part),
            Some(Value::String(text)) => execution::escape_dangerous(text),
            Some(part) => sanitize_part(part),
            None => {}
        }
    }
    object_items(result, "contents").for_each(sanitize_text);
}

/// Removes `_meta` fields that only toolcrib sets, so that a server cannot forge them.
pub(in crate::view) fn remove_reserved_fields(said: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = said.get_mut("_meta") {
        meta.retain(|name, _| !name.starts_with("toolcrib/"));
    }
}

/// Notes the source in `_meta`, as results of APIs do (EXE-13). A `_meta` that is not an object is replaced.
fn note_source(source: &SourceId, result: &mut Map<String, Value>) {
    let mut meta = match result.shift_remove("_meta") {
        Some(Value::Object(meta)) => meta,
        _ => Map::new(),
    };
    meta.extend(execution::untrusted_source_meta(source.as_str()));
    result.insert("_meta".to_owned(), Value::Object(meta));
}

/// Sanitizes texts, also those of resources, because they may reach a terminal (EXE-13). Structured data stays
/// unchanged.
fn sanitize_texts(result: &mut Map<String, Value>) {
    object_items(result, "content").for_each(sanitize_part);
}

/// The objects in an array field.
fn object_items<'a>(
    result: &'a mut Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a mut Value> {
    let members = result.get_mut(list).and_then(Value::as_array_mut);
    members.into_iter().flatten().filter(|member| member.is_object())
}

fn sanitize_part(part: &mut Value) {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => sanitize_text(part),
        Some("resource") => part.get_mut("resource").into_iter().for_each(sanitize_text),
        _ => {}
    }
}

fn sanitize_text(part: &mut Value) {
    if let Some(Value::String(text)) = part.get_mut("text") {
        execution::escape_dangerous(text);
    }
}

async fn apply_projection(
    projection: &Arc<ResultProjection>,
    answer: Value,
) -> Result<Value, CallFailure> {
    if !exceeds_size(&answer, MAX_INLINE_BYTES) {
        match projection.apply_with_limit(&answer, MAX_INLINE_WORK) {
            // The projection multiplies its input: run it on the low-priority pool.
            Err(ProjectionError::TooMuchWork) => {}
            projected => return projected.map_err(|error| projection_failure(&error.to_string())),
        }
    }
    let projection = Arc::clone(projection);
    let projected = run_low_priority_if_long(usize::MAX, move || projection.apply(&answer)).await;
    projected.map_err(|error| projection_failure(&error.to_string()))
}

/// Failure of a projection. The unprojected answer is withheld, because an admin excluded parts of it.
fn projection_failure(why: &str) -> CallFailure {
    let message = format!(
        "the tool was called, and its projection cannot be applied to the answer: {why}; an admin can change it"
    );
    CallFailure::new(ErrorCode::TemplateError, message, false)
}

/// Whether content is text. Projection removes text, because it would reveal the excluded parts.
fn is_text_content(content: &Content) -> bool {
    match content {
        Content::Text { .. } => true,
        Content::Other(part) => part["type"] == "text",
        Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => false,
    }
}

pub(super) fn json_to_text(value: &Value) -> String {
    execution::escape_json(&value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_only_starts_like_json_is_not_json() {
        let many = |text: &str| text.repeat(MAX_VALUES);
        for words in ["[2026-11-19] begun", "{name}", &many("[x], ")] {
            assert_eq!(parse_projectable_json(words).unwrap(), None);
        }
        assert_eq!(parse_projectable_json(r#" {"a": 1, "a": 2}"#).unwrap(), Some(json!({"a": 2})));
        for json in [format!("[{}1]", many("1,")), "[".repeat(200) + &"]".repeat(200)] {
            assert_eq!(parse_projectable_json(&json).unwrap_err().code, ErrorCode::TemplateError);
        }
    }
}
