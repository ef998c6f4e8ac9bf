//! Truncates long results. The full text is stored for a while, and a note says where to read the rest.

use calls::principal::principal_key;
use catalog::tool::Tool;
use json::json_size::exceeds_size;
use json::strict_json::ValueCounter;
use limits::run_low_priority;
use model::{Content, Outcome, ToolId};
use serde_json::{Map, Value, json};

use super::result_shaping::json_to_text;
use crate::stored_results;
use crate::stored_results::ResultPart;
use crate::view::AgentView;
use crate::viewed_tool::ToolOrigin;

/// Maximum size of a result, unless an admin set another for the tool.
const DEFAULT_RESULT_BYTES: u32 = 256 << 10;
const STRUCTURED_CONTENT: &str = "structuredContent";

fn result_budget(tool: &Tool) -> usize {
    usize::try_from(tool.overridden.max_result_bytes.unwrap_or(DEFAULT_RESULT_BYTES))
        .unwrap_or(usize::MAX)
}

impl AgentView {
    /// Truncates an outcome to the tool's budget. Text is cut; JSON that is too long moves into the text, because half
    /// a JSON document is invalid. Workflow steps get the full outcome, and workflows have their own limit.
    pub(super) async fn truncate_outcome(&self, tool: &Tool, mut outcome: Outcome) -> Outcome {
        if self.parent_workflow.is_some() {
            return outcome;
        }
        let texts = outcome.content.iter().filter_map(content_text).collect();
        if !is_too_long(result_budget(tool), texts, outcome.result.as_ref()) {
            return outcome;
        }
        let (texts, others): (Vec<_>, Vec<_>) =
            outcome.content.into_iter().partition(|content| content_text(content).is_some());
        let texts = texts.into_iter().filter_map(into_text).collect();
        let json = outcome.result.take();
        let (whole, result) = join_texts(texts, json, result_budget(tool)).await;
        outcome.result = result;
        let TruncatedText { texts, link } = self.store_and_truncate(tool, whole);
        let texts = texts.map(|text| Content::Text { text }).into_iter();
        outcome.content = texts.chain(link.map(Content::Other)).chain(others).collect();
        outcome
    }

    /// Truncates the result of an MCP server. The flag reports whether it was truncated.
    pub(super) async fn truncate_mcp_result(
        &self,
        tool: &Tool,
        mut result: Map<String, Value>,
    ) -> (Map<String, Value>, bool) {
        if self.parent_workflow.is_some() {
            return (result, false);
        }
        let content = result.get("content").and_then(Value::as_array);
        let texts = content.into_iter().flatten().filter_map(part_text).collect();
        if !is_too_long(result_budget(tool), texts, result.get(STRUCTURED_CONTENT)) {
            return (result, false);
        }
        let (json, content) =
            (result.shift_remove(STRUCTURED_CONTENT), result.shift_remove("content"));
        let content = match content {
            Some(Value::Array(content)) => content,
            _ => Vec::new(),
        };
        let (texts, others): (Vec<_>, Vec<_>) =
            content.into_iter().partition(|part| part_text(part).is_some());
        let texts = texts.into_iter().filter_map(part_into_text).collect();
        let (whole, structured) = join_texts(texts, json, result_budget(tool)).await;
        let TruncatedText { texts, link } = self.store_and_truncate(tool, whole);
        let mut content = Vec::from(texts.map(|text| json!({"type": "text", "text": text})));
        content.extend(link.into_iter().chain(others));
        result.insert("content".to_owned(), Value::Array(content));
        result.extend(structured.map(|structured| (STRUCTURED_CONTENT.to_owned(), structured)));
        (result, true)
    }

    /// Stores the full text; returns its beginning and a note with the ways in which this client can read the rest.
    fn store_and_truncate(&self, tool: &Tool, whole: String) -> TruncatedText {
        let bytes = result_budget(tool);
        let ResultPart { text, next_offset, total_bytes, .. } = ResultPart::slice(&whole, 0, bytes);
        let next = next_offset.unwrap_or(total_bytes);
        let (owner, now) = (principal_key(&self.agent), self.crib.now());
        let kept =
            self.crib.stored_results().store_result(owner, tool.id.clone(), whole, bytes, now);
        let uri = kept.as_ref().map(|id| stored_results::result_uri(id, next));
        let rest = match (&kept, &uri) {
            (Some(id), Some(uri)) => {
                let over_rest = format!(" or GET /api/agents/results/{id}?offset={next}");
                let over_rest = if self.continuation.rest_api { &*over_rest } else { "" };
                format!("For the rest, within ten minutes, read the resource {uri}{over_rest}")
            }
            _ => "The rest is too long to be kept: call again and ask for less".to_owned(),
        };
        let note =
            format!("[toolcrib: the answer was cut after {next} of {total_bytes} bytes. {rest}]");
        let link = uri.filter(|_| self.continuation.resource_links);
        let link = link.map(|uri| {
            json!({"type": "resource_link", "uri": uri, "name": "the rest of the answer",
                "mimeType": "text/plain"})
        });
        TruncatedText { texts: [text, note], link }
    }

    /// Part of a stored result, for the caller that received its beginning and still has the tool.
    pub fn read_result_part(&self, id: &str, offset: usize) -> Option<ResultPart> {
        let (owner, now) = (principal_key(&self.agent), self.crib.now());
        let (tool, part) = self.crib.stored_results().read_part(&owner, id, offset, now)?;
        self.may_read_result_of(&tool).then_some(part)
    }

    /// Whether the agent may read a result of this tool: it still has the tool, and its token has the required scopes.
    pub fn may_read_result_of(&self, tool: &ToolId) -> bool {
        let Ok(found) = self.find_by_id(tool) else { return false };
        let ToolOrigin::Catalog(entry) = found.origin() else { return true };
        let source = self.snapshot.source(&entry.tool.source);
        source.is_some_and(|it| self.check_scopes(&it.source, Some(&entry.tool)).is_ok())
    }

    /// Part of a stored result as an MCP resource, with a note on where to continue.
    pub(in crate::view) fn stored_result_resource(&self, uri: &str) -> Option<Map<String, Value>> {
        let (id, offset) = stored_results::parse_result_uri(uri)?;
        let part = self.read_result_part(id, offset)?;
        let mut contents = vec![json!({"uri": uri, "mimeType": "text/plain", "text": part.text})];
        if let Some(next) = part.next_offset {
            let (uri, total) = (stored_results::result_uri(id, next), part.total_bytes);
            let text = format!("[toolcrib: {next} of {total} bytes so far. Then read {uri}]");
            contents.push(json!({"uri": uri, "mimeType": "text/plain", "text": text}));
        }
        Some(Map::from_iter([("contents".to_owned(), Value::Array(contents))]))
    }
}

/// How a client can read the rest of a truncated result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContinuationSupport {
    /// The client understands resource links in results (MCP since 2025-06-18).
    pub resource_links: bool,
    /// The agent REST API is served at the same address.
    pub rest_api: bool,
}

impl Default for ContinuationSupport {
    fn default() -> Self {
        Self { resource_links: false, rest_api: true }
    }
}

/// The visible part of a truncated result: its beginning, a note, and a link to the rest.
struct TruncatedText {
    texts: [String; 2],
    link: Option<Value>,
}

/// Whether all texts together, or the JSON, exceed the budget. The two are not added up: mostly they hold the same
/// content.
fn is_too_long(budget: usize, texts: Vec<&str>, json: Option<&Value>) -> bool {
    budget < texts.iter().map(|text| text.len()).sum()
        || json.is_some_and(|json| exceeds_size(json, budget))
}

/// Joins all texts, and returns the JSON separately if it fits the budget. JSON that does not fit is appended to the
/// text. Long content is serialized on the low-priority pool.
async fn join_texts(
    mut texts: Vec<String>,
    json: Option<Value>,
    budget: usize,
) -> (String, Option<Value>) {
    let is_short = json.as_ref().is_none_or(|json| !exceeds_size(json, budget));
    if is_short && texts.len() < 2 {
        return (texts.pop().unwrap_or_default(), json);
    }
    let joined = run_low_priority(move || {
        if is_short {
            return (texts.join("\n"), json);
        }
        if let Some(json) = json.filter(|json| !wraps_a_text(json, &texts)) {
            let same = JsonTextMatcher::for_json(&json);
            texts.retain(|text| !same.matches_text(text));
            texts.push(json_to_text(&json));
        }
        (texts.join("\n"), None)
    });
    joined.await
}

/// Whether the JSON only wraps one of the texts. Many servers wrap a text or a list, because structured content must be
/// an object.
fn wraps_a_text(json: &Value, texts: &[String]) -> bool {
    let Some(wrapped) = json.as_object().filter(|members| members.len() == 1) else { return false };
    match wrapped.get("result") {
        Some(Value::String(wrapped)) => texts.contains(wrapped),
        Some(wrapped) => {
            let same = JsonTextMatcher::for_json(wrapped);
            texts.iter().any(|text| same.matches_text(text))
        }
        None => false,
    }
}

/// JSON to compare with texts. A text with more values than the JSON is not parsed, because it might have very many.
struct JsonTextMatcher<'a> {
    json: &'a Value,
    weight: usize,
}

impl<'a> JsonTextMatcher<'a> {
    fn for_json(json: &'a Value) -> Self {
        Self { json, weight: ValueCounter::text_weight(json.to_string().as_bytes()) }
    }

    fn matches_text(&self, text: &str) -> bool {
        !ValueCounter::at_start().count_and_check(self.weight, text.as_bytes())
            && serde_json::from_str::<Value>(text).is_ok_and(|read| read == *self.json)
    }
}

fn content_text(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } => Some(text),
        Content::Other(part) => part_text(part),
        Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => None,
    }
}

fn into_text(content: Content) -> Option<String> {
    match content {
        Content::Text { text } => Some(text),
        Content::Other(part) => part_into_text(part),
        Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => None,
    }
}

fn part_into_text(mut part: Value) -> Option<String> {
    match part.pointer_mut(text_pointer(&part)?)?.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn part_text(part: &Value) -> Option<&str> {
    part.pointer(text_pointer(part)?)?.as_str()
}

/// JSON pointer to the text of a part. An embedded resource has text too, unless it holds bytes.
fn text_pointer(part: &Value) -> Option<&'static str> {
    match part["type"].as_str()? {
        "text" => Some("/text"),
        "resource" => Some("/resource/text"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn written(texts: &[&str], json: Value) -> (String, Option<Value>) {
        super::join_texts(texts.iter().copied().map(str::to_owned).collect(), Some(json), 1).await
    }

    #[tokio::test]
    async fn short_json_stays_beside_a_long_text() {
        assert_eq!(written(&["abc"], json!(1)).await, ("abc".into(), Some(json!(1))));
        assert_eq!(written(&["ab", "c"], json!(1)).await, ("ab\nc".into(), Some(json!(1))));
    }

    #[tokio::test]
    async fn long_json_moves_into_the_text_once_and_nothing_is_lost() {
        assert_eq!(written(&["abc"], json!(12)).await, ("abc\n12".into(), None));
        assert_eq!(written(&[], json!([1])).await, ("[1]".into(), None));
        let said_twice =
            written(&["two:", "{ \"a\": 1,\n \"b\": 2 }"], json!({"b": 2, "a": 1})).await;
        assert_eq!(said_twice, ("two:\n{\"b\":2,\"a\":1}".into(), None));
        let wrapped = written(&["abc", "d"], json!({"result": "abc"})).await;
        assert_eq!(wrapped, ("abc\nd".into(), None));
        let list = written(&["[1, 2]"], json!({"result": [1, 2]})).await;
        assert_eq!(list, ("[1, 2]".into(), None));
        for other in [json!({"result": "ab"}), json!({"result": "abc", "more": 1})] {
            assert_eq!(written(&["abc"], other.clone()).await, (format!("abc\n{other}"), None));
        }
    }

    #[test]
    fn a_text_with_more_values_than_the_json_is_not_parsed() {
        let json = json!({"a": [1, 2]});
        let same = JsonTextMatcher::for_json(&json);
        assert!(same.matches_text(r#" { "a" : [1, 2] } "#));
        assert!(!same.matches_text(r#"{"a":[1,3]}"#));
        // Equal if parsed, but it has more values: a duplicate key precedes.
        assert!(!same.matches_text(r#"{"a":[0,0,0,0],"a":[1,2]}"#));
    }

    #[test]
    fn the_text_of_a_part_is_its_own_or_that_of_its_embedded_resource() {
        let resource = json!({"type": "resource", "resource": {"uri": "a:b", "text": "long"}});
        let text = json!({"type": "text", "text": "long"});
        for part in [resource, text] {
            assert_eq!(part_text(&part), Some("long"));
            assert_eq!(part_into_text(part).as_deref(), Some("long"));
        }
        let bytes = json!({"type": "resource", "resource": {"uri": "a:b", "blob": ""}});
        for part in [bytes, json!({"type": "image", "text": "x"}), json!({"text": "x"}), json!(1)] {
            assert_eq!(part_text(&part), None, "{part}");
            assert_eq!(part_into_text(part), None);
        }
    }
}
