//! An upstream's JSON answer becomes an outcome (requirement H2).
//!
//! Some upstreams answer in the form of an MCP tool result, `{content, structuredContent, isError}`. It is passed on as
//! it is, except that its word on failure is believed. Any other JSON is the result, even if it has a member `isError`.

use std::time::Duration;

use model::{CallStatus, ErrorCode, Failure, Outcome, ToolId};
use serde_json::{Map, Value};

/// The outcome of a request that the upstream answered with JSON and a status that means success.
pub fn completed(
    tool_id: ToolId,
    answer: Value,
    upstream_status: u16,
    execution_time: Duration,
) -> Outcome {
    let error = failure(&answer);
    Outcome {
        tool_id,
        status: if error.is_some() { CallStatus::Failed } else { CallStatus::Completed },
        result: error.is_none().then_some(answer),
        error,
        execution_time_ms: u64::try_from(execution_time.as_millis()).unwrap_or(u64::MAX),
        upstream_status: Some(upstream_status),
    }
}

/// Not retryable: the tool ran and said no, and nothing tells us that it would say otherwise next time.
fn failure(answer: &Value) -> Option<Failure> {
    let result = answer.as_object().filter(|object| is_tool_result(object))?;
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    Some(Failure { code: ErrorCode::UpstreamError, message: reason(result), retryable: false })
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

fn reason(result: &Map<String, Value>) -> String {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> =
        blocks.filter_map(|block| block.get("text")).filter_map(Value::as_str).collect();
    if !texts.is_empty() {
        return texts.join("\n");
    }
    match result.get("structuredContent") {
        Some(structured) if !structured.is_null() => structured.to_string(),
        Some(_) | None => "the tool failed and did not say why".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(answer: Value) -> Outcome {
        completed("pets:get_pet".parse().unwrap(), answer, 200, Duration::from_millis(12))
    }

    /// The message of an answer that means failure.
    fn message(answer: Value) -> Option<String> {
        outcome(answer).error.map(|error| error.message)
    }

    #[test]
    fn any_json_is_the_result() {
        for answer in [json!({"id": 7}), json!([1, 2]), json!("sunny"), json!(0), json!(null)] {
            let outcome = outcome(answer.clone());
            assert_eq!((outcome.status, outcome.error), (CallStatus::Completed, None));
            assert_eq!(outcome.result, Some(answer));
        }
    }

    #[test]
    fn a_tool_result_is_taken_as_it_is() {
        let answer = json!({
            "content": [{"type": "text", "text": "sunny"}],
            "structuredContent": {"sky": "sunny"}, "isError": false,
        });
        assert_eq!(
            outcome(answer.clone()),
            Outcome {
                tool_id: "pets:get_pet".parse().unwrap(),
                status: CallStatus::Completed,
                result: Some(answer),
                error: None,
                execution_time_ms: 12,
                upstream_status: Some(200),
            }
        );
    }

    #[test]
    fn a_tool_result_that_is_an_error_fails_with_its_text() {
        let answer = json!({
            "content": [
                {"type": "text", "text": "no such pet"},
                {"type": "image", "mimeType": "image/png", "contents": "…"},
                {"type": "text", "text": "try 7"},
            ],
            "isError": true,
        });
        let outcome = outcome(answer);
        assert_eq!((outcome.status, outcome.result), (CallStatus::Failed, None));
        let message = "no such pet\ntry 7".to_owned();
        let code = ErrorCode::UpstreamError;
        assert_eq!(outcome.error, Some(Failure { code, message, retryable: false }));
    }

    #[test]
    fn an_error_without_text_still_says_something() {
        let silent = json!({"content": [], "structuredContent": null, "isError": true});
        assert_eq!(message(silent).unwrap(), "the tool failed and did not say why");
        let structured = json!({"structuredContent": {"code": 7}, "isError": true});
        assert_eq!(message(structured).unwrap(), r#"{"code":7}"#);
    }

    #[test]
    fn an_answer_that_only_looks_like_a_tool_result_is_no_error() {
        for answer in [
            json!({"isError": true}),
            json!({"isError": true, "content": "a page"}),
            json!({"isError": true, "content": [{"id": 7}]}),
            json!({"isError": true, "content": [], "structuredContent": 7}),
            json!({"isError": "true", "content": []}),
        ] {
            assert_eq!(message(answer.clone()), None, "{answer}");
            assert_eq!(outcome(answer.clone()).result, Some(answer));
        }
    }
}
