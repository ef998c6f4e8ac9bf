//! `tool_search` and `execute_tool`: how an agent reaches tools that are not in its list (requirements A6 to A8).
//!
//! They are kept apart from everything else, so that they can follow what MCP will one day have for this.

use model::{Content, ToolResult};
use serde_json::{Map, Value, json};

use super::{AgentView, Hit};

/// A tool about tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Finds tools.
    Search,
    /// Calls any tool of the agent.
    Execute,
}

/// How many tools a search finds if the agent does not say, and at most.
const USUAL: u64 = 10;
const MOST: u64 = 100;

impl MetaTool {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Search, Self::Execute];

    /// The one with this name. No other tool is ever shown under it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Search => "tool_search",
            Self::Execute => "execute_tool",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Search => {
                "Find tools that are not in the list: say in a few words what you want to do. Each hit has \
                 a name, a description and the schema of its arguments; call it with execute_tool."
            }
            Self::Execute => "Call a tool by the name that tool_search found, with its arguments.",
        }
    }

    pub(super) fn input_schema(self) -> Value {
        match self {
            Self::Search => json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What the tool is to do; empty lists all"},
                    "max_results": {
                        "type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL,
                        "description": "How many tools at most",
                    },
                    "detail": {
                        "type": "string", "enum": ["names", "summary", "full"], "default": "full",
                        "description": "How much of each: only names, the first sentence too, or all",
                    },
                    "max_tokens": {
                        "type": "integer", "minimum": 1,
                        "description": "How long the answer may be; the worse a hit, the less is said of it",
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }),
            Self::Execute => json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "The name of the tool"},
                    "arguments": {"type": "object", "description": "Its arguments, as its schema says"},
                    "parameters": {"type": "object", "description": "The same as `arguments`"},
                },
                "required": ["name"],
                "additionalProperties": false,
            }),
        }
    }
}

/// What `execute_tool` was asked for.
pub(super) fn execution(mut arguments: Map<String, Value>) -> (String, Map<String, Value>) {
    let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut object = |member: &str| match arguments.remove(member) {
        Some(Value::Object(object)) => Some(object),
        _ => None,
    };
    let inner = object("arguments").or_else(|| object("parameters"));
    (name, inner.unwrap_or_default())
}

/// How much is said of each hit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Names,
    Summary,
    Full,
}

/// How many bytes make a token, about.
const TOKEN: usize = 4;
/// The longest first sentence, in characters.
const SENTENCE: usize = 200;

/// What `tool_search` finds.
pub(super) async fn search(view: &AgentView, arguments: &Map<String, Value>) -> ToolResult {
    let text = |member: &str| arguments.get(member).and_then(Value::as_str).unwrap_or_default();
    let number = |member: &str| arguments.get(member).and_then(Value::as_u64);
    let limit = number("max_results").unwrap_or(USUAL).min(MOST);
    let hits = view.search(text("query"), usize::try_from(limit).unwrap_or(usize::MAX)).await;
    let detail = match text("detail") {
        "names" => Detail::Names,
        "summary" => Detail::Summary,
        _ => Detail::Full,
    };
    let budget = number("max_tokens").and_then(|tokens| usize::try_from(tokens).ok());
    let tools = within(&hits, detail, budget.map(|tokens| tokens.saturating_mul(TOKEN)));
    let left_out = hits.len() - tools.len();
    let text = Value::from(tools.clone()).to_string();
    let mut structured = Map::from_iter([("tools".to_owned(), Value::from(tools))]);
    structured.insert("call_with".to_owned(), MetaTool::Execute.name().into());
    if 0 < left_out {
        structured.insert("left_out".to_owned(), left_out.into());
    }
    ToolResult {
        content: vec![Content::Text { text }],
        structured_content: Some(structured),
        is_error: false,
        meta: Map::new(),
    }
}

/// As many hits as fit, the best first; where one does not fit, less is said of it and of all that follow.
fn within(hits: &[Hit], detail: Detail, budget: Option<usize>) -> Vec<Value> {
    let Some(mut left) = budget else {
        return hits.iter().map(|hit| told(hit, detail)).collect();
    };
    let (mut detail, mut tools) = (detail, Vec::new());
    for hit in hits {
        loop {
            let entry = told(hit, detail);
            let length = entry.to_string().len() + 1;
            // Of the best, at least the name is told.
            if length <= left || (tools.is_empty() && detail == Detail::Names) {
                left = left.saturating_sub(length);
                tools.push(entry);
                break;
            }
            detail = match detail {
                Detail::Full => Detail::Summary,
                Detail::Summary => Detail::Names,
                Detail::Names => return tools,
            };
        }
    }
    tools
}

fn told(hit: &Hit, detail: Detail) -> Value {
    let (name, score) = (hit.tool.name(), hit.score);
    match detail {
        Detail::Names => json!({"name": name, "score": score}),
        Detail::Summary => {
            let description = first_sentence(&hit.tool.description());
            json!({"name": name, "description": description, "score": score})
        }
        Detail::Full => json!({
            "name": name,
            "description": hit.tool.description(),
            "score": score,
            "input_schema": hit.tool.input_schema(),
        }),
    }
}

fn first_sentence(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let sentence = line.split_once(". ").map_or(line, |(sentence, _)| sentence);
    let mut cut: String = sentence.chars().take(SENTENCE).collect();
    if cut.len() < sentence.len() {
        cut.push('…');
    }
    cut
}
