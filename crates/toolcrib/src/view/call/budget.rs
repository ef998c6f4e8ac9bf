//! How much of an answer is handed out at once. What is longer is kept, and its reader is told where to go on.

use catalog::tool::Tool;
use model::{Content, Outcome};
use serde_json::{Map, Value, json};
use upstream::aside;

use super::shaped::{is_text, text_of};
use crate::kept_results::{self, ResultPart};
use crate::upstreams::whose;
use crate::view::AgentView;
use model::json_size::is_longer;

/// For tools of which nothing else is said.
const BYTES: u32 = 256 << 10;
const STRUCTURED: &str = "structuredContent";

fn budget(tool: &Tool) -> usize {
    usize::try_from(tool.overridden.max_result_bytes.unwrap_or(BYTES)).unwrap_or(usize::MAX)
}

impl AgentView {
    /// An outcome that is short enough. What is cut is text, and JSON that is too long goes: half of it is none. Workflows
    /// get it whole, and have a bound of their own.
    pub(super) async fn within_budget(&self, tool: &Tool, mut outcome: Outcome) -> Outcome {
        if self.within.is_some() {
            return outcome;
        }
        let texts = outcome.content.iter().filter_map(text_in).collect();
        let Some(long) = too_long(budget(tool), texts, outcome.result.as_ref()) else {
            return outcome;
        };
        let (texts, others): (Vec<_>, Vec<_>) = outcome.content.into_iter().partition(is_text);
        let texts = texts.into_iter().filter_map(own_text).collect();
        let json = outcome.result.take();
        let (whole, result) = long.written((texts, json), budget(tool)).await;
        outcome.result = result;
        let Cut { texts, link } = self.cut(tool, whole);
        let texts = texts.map(|text| Content::Text { text }).into_iter();
        outcome.content = texts.chain(link.map(Content::Other)).chain(others).collect();
        outcome
    }

    /// The same for the result of an MCP server. Says too whether it was cut.
    pub(super) async fn result_within_budget(
        &self,
        tool: &Tool,
        mut result: Map<String, Value>,
    ) -> (Map<String, Value>, bool) {
        if self.within.is_some() {
            return (result, false);
        }
        let content = result.get("content").and_then(Value::as_array);
        let texts = content.into_iter().flatten().filter_map(text_of_part).collect();
        let Some(long) = too_long(budget(tool), texts, result.get(STRUCTURED)) else {
            return (result, false);
        };
        let (json, content) = (result.shift_remove(STRUCTURED), result.shift_remove("content"));
        let content = match content {
            Some(Value::Array(content)) => content,
            _ => Vec::new(),
        };
        let (texts, others): (Vec<_>, Vec<_>) =
            content.into_iter().partition(|part| text_of_part(part).is_some());
        let texts = texts.into_iter().filter_map(own_text_of_part).collect();
        let (whole, structured) = long.written((texts, json), budget(tool)).await;
        let Cut { texts, link } = self.cut(tool, whole);
        let mut content = Vec::from(texts.map(|text| json!({"type": "text", "text": text})));
        content.extend(link.into_iter().chain(others));
        result.insert("content".to_owned(), Value::Array(content));
        result.extend(structured.map(|structured| (STRUCTURED.to_owned(), structured)));
        (result, true)
    }

    /// The beginning, and where the rest is, in the ways that its reader has.
    fn cut(&self, tool: &Tool, whole: String) -> Cut {
        let bytes = budget(tool);
        let ResultPart { text, next_offset, total_bytes, .. } = ResultPart::of(&whole, 0, bytes);
        let next = next_offset.unwrap_or(total_bytes);
        let (owner, now) = (whose(&self.agent), self.crib.now());
        let kept = self.crib.results().keep(owner, tool.id.clone(), whole, bytes, now);
        let uri = kept.as_ref().map(|id| kept_results::address(id, next));
        let rest = match (&kept, &uri) {
            (Some(id), Some(uri)) => {
                let over_rest = format!(" or GET /api/agents/results/{id}?offset={next}");
                let over_rest = if self.reads_on.over_rest { &*over_rest } else { "" };
                format!("For the rest, within ten minutes, read the resource {uri}{over_rest}")
            }
            _ => "The rest is too long to be kept: call again and ask for less".to_owned(),
        };
        let note =
            format!("[toolcrib: the answer was cut after {next} of {total_bytes} bytes. {rest}]");
        let link = uri.filter(|_| self.reads_on.links);
        let link = link.map(|uri| {
            json!({"type": "resource_link", "uri": uri, "name": "the rest of the answer",
                "mimeType": "text/plain"})
        });
        Cut { texts: [text, note], link }
    }

    /// A part of an answer that was too long, for whoever called and still has the tool.
    pub fn result_part(&self, id: &str, offset: usize) -> Option<ResultPart> {
        let (owner, now) = (whose(&self.agent), self.crib.now());
        let (tool, part) = self.crib.results().part(&owner, id, offset, now)?;
        self.find_id(&tool).ok().map(|_| part)
    }

    /// The same as a resource of MCP: the part, and where to go on.
    pub(in crate::view) fn kept_resource(&self, uri: &str) -> Option<Map<String, Value>> {
        let (id, offset) = kept_results::addressed(uri)?;
        let part = self.result_part(id, offset)?;
        let mut contents = vec![json!({"uri": uri, "mimeType": "text/plain", "text": part.text})];
        if let Some(next) = part.next_offset {
            let (uri, total) = (kept_results::address(id, next), part.total_bytes);
            let text = format!("[toolcrib: {next} of {total} bytes so far. Then read {uri}]");
            contents.push(json!({"uri": uri, "mimeType": "text/plain", "text": text}));
        }
        Some(Map::from_iter([("contents".to_owned(), Value::Array(contents))]))
    }
}

/// How whoever calls can read the rest of an answer that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadsOn {
    /// It knows links to resources in results (MCP since 2025-06-18).
    pub links: bool,
    /// There is an API for agents where it is.
    pub over_rest: bool,
}

impl Default for ReadsOn {
    fn default() -> Self {
        Self { links: false, over_rest: true }
    }
}

/// What is handed out of an answer that is too long: its beginning and a note, and a link to the rest.
struct Cut {
    texts: [String; 2],
    link: Option<Value>,
}

/// What is too long.
enum Long {
    /// The text.
    Text,
    /// The JSON.
    Json,
}

/// The text if it is too long, or else the JSON if that is: mostly they say the same.
fn too_long(budget: usize, texts: Vec<&str>, json: Option<&Value>) -> Option<Long> {
    if budget < texts.iter().map(|text| text.len()).sum() {
        return Some(Long::Text);
    }
    json.filter(|json| is_longer(json, budget)).map(|_| Long::Json)
}

impl Long {
    /// All of it, and the JSON if that is short enough. What is long is written aside, and goes there too.
    async fn written(
        self,
        (mut texts, json): (Vec<String>, Option<Value>),
        budget: usize,
    ) -> (String, Option<Value>) {
        let is_short = json.as_ref().is_none_or(|json| !is_longer(json, budget));
        match self {
            Self::Text if is_short && texts.len() < 2 => (texts.pop().unwrap_or_default(), json),
            Self::Text => {
                let joined = aside(move || (texts.join("\n"), json.filter(|_| is_short)));
                joined.await
            }
            Self::Json => {
                (aside(move || json.as_ref().map(text_of)).await.unwrap_or_default(), None)
            }
        }
    }
}

fn text_in(content: &Content) -> Option<&str> {
    match content {
        Content::Text { text } => Some(text),
        Content::Other(part) => text_of_part(part),
        Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => None,
    }
}

fn own_text(content: Content) -> Option<String> {
    match content {
        Content::Text { text } => Some(text),
        Content::Other(part) => own_text_of_part(part),
        Content::Image(_) | Content::Audio(_) | Content::Resource { .. } => None,
    }
}

fn own_text_of_part(mut part: Value) -> Option<String> {
    match part.get_mut("text").map(Value::take) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn text_of_part(part: &Value) -> Option<&str> {
    part["text"].as_str().filter(|_| part["type"] == "text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_short_enough_stays_beside_a_long_text() {
        let written = async |long: Long, texts: &[&str], json: Value| {
            let texts = texts.iter().copied().map(str::to_owned).collect();
            long.written((texts, Some(json)), 1).await
        };
        assert_eq!(written(Long::Text, &["abc"], json!(1)).await, ("abc".into(), Some(json!(1))));
        let both = written(Long::Text, &["ab", "c"], json!(1)).await;
        assert_eq!(both, ("ab\nc".into(), Some(json!(1))));
        assert_eq!(written(Long::Text, &["abc"], json!(12)).await, ("abc".into(), None));
        assert_eq!(written(Long::Json, &["a"], json!([1])).await, ("[1]".into(), None));
    }
}
