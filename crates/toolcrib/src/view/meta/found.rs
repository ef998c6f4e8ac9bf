//! Executes `tool_search`: renders hits in the requested detail, as many as fit the token budget.

use catalog::search::NameStems;
use model::{Content, Primitive, ToolResult};
use serde_json::{Map, Value, json};

use super::{MOST, MetaTool, USUAL};
use crate::view::{AgentView, Hit, OfferHit};

/// How much of each hit is rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    Names,
    Summary,
    Full,
}

/// Approximate number of bytes per token.
const TOKEN: usize = 4;
/// Maximum length of the first sentence, in characters.
const SENTENCE: usize = 200;

/// The hits of one kind: tools, prompts or resources.
struct Kind {
    /// Field name in the answer.
    name: &'static str,
    /// Field that names the method or tool to use a hit with, and its value.
    used_with: (&'static str, &'static str),
    hits: Vec<Found>,
}

enum Found {
    /// A tool, with the names of similar tools of the same source.
    Tool(Hit, Vec<String>),
    Offer(OfferHit),
}

/// Runs `tool_search` for an agent.
pub(in crate::view) async fn search(
    view: &AgentView,
    arguments: &Map<String, Value>,
) -> ToolResult {
    let text = |member: &str| arguments.get(member).and_then(Value::as_str).unwrap_or_default();
    let number = |member: &str| arguments.get(member).and_then(Value::as_u64);
    let detail = match text("detail") {
        "names" => Detail::Names,
        "summary" => Detail::Summary,
        _ => Detail::Full,
    };
    let budget = number("max_tokens").and_then(|tokens| usize::try_from(tokens).ok());
    let is_short = detail != Detail::Full || budget.is_some();
    let mut budget = Budget { left: budget.map(|it| it.saturating_mul(TOKEN)), detail };
    let (mut all, mut structured, mut left_out) = (Vec::new(), Map::new(), 0);
    for kind in kinds(view, arguments, is_short).await {
        let told = budget.told(&kind.hits);
        left_out += kind.hits.len() - told.len();
        all.extend(told.iter().cloned());
        structured.insert(kind.name.to_owned(), told.into());
        let (member, with) = kind.used_with;
        structured.insert(member.to_owned(), with.into());
    }
    if 0 < left_out {
        structured.insert("left_out".to_owned(), left_out.into());
    }
    ToolResult {
        content: vec![Content::Text { text: Value::from(all).to_string() }],
        structured_content: Some(structured),
        is_error: false,
        meta: Map::new(),
    }
}

/// Searches tools, unless the arguments name other kinds. Each kind is ranked separately.
async fn kinds(view: &AgentView, arguments: &Map<String, Value>, is_short: bool) -> Vec<Kind> {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
    let limit = arguments.get("max_results").and_then(Value::as_u64).unwrap_or(USUAL).min(MOST);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let named = arguments.get("kinds").and_then(Value::as_array);
    let is_wanted =
        |name: &str| named.map_or(name == "tools", |named| named.iter().any(|it| it == name));
    let mut kinds = Vec::new();
    if is_wanted("tools") {
        let hits = view.search(query, limit).await;
        let hits = if is_short { folded(hits) } else { each(hits) };
        let used_with = ("call_with", MetaTool::Execute.name());
        kinds.push(Kind { name: "tools", used_with, hits });
    }
    for (name, kind, used_with) in [
        ("prompts", Primitive::Prompt, ("get_with", "prompts/get")),
        ("resources", Primitive::Resource, ("read_with", "resources/read")),
    ] {
        if is_wanted(name) {
            let hits = view.search_offers(kind, query, limit).await;
            kinds.push(Kind {
                name,
                used_with,
                hits: hits.into_iter().map(Found::Offer).collect(),
            });
        }
    }
    kinds
}

fn each(hits: Vec<Hit>) -> Vec<Found> {
    hits.into_iter().map(|hit| Found::Tool(hit, Vec::new())).collect()
}

/// Groups similar tools of one source: the best hit lists the names of the others.
fn folded(hits: Vec<Hit>) -> Vec<Found> {
    let mut best: Vec<(Hit, NameStems, Vec<String>)> = Vec::new();
    for hit in hits {
        let stems = NameStems::of(hit.tool.name());
        let source = |hit: &Hit| hit.tool.entry().map(|entry| entry.tool.source.clone());
        let own = source(&hit);
        let like = best.iter_mut().find(|(other, others, _)| {
            own.is_some() && stems.are_similar(others) && own == source(other)
        });
        match like {
            Some((.., similar)) => similar.push(hit.tool.name().to_owned()),
            None => best.push((hit, stems, Vec::new())),
        }
    }
    best.into_iter().map(|(hit, _, similar)| Found::Tool(hit, similar)).collect()
}

/// The bytes left in the answer, and the detail of the next hit.
struct Budget {
    left: Option<usize>,
    detail: Detail,
}

impl Budget {
    /// Renders as many hits as fit, best first. If a hit does not fit, it and all later ones are rendered in less
    /// detail.
    fn told(&mut self, hits: &[Found]) -> Vec<Value> {
        let mut told = Vec::new();
        for hit in hits {
            loop {
                let entry = hit.told(self.detail);
                let Some(left) = self.left else {
                    told.push(entry);
                    break;
                };
                let length = entry.to_string().len() + 1;
                // At least the name of the best hit is included.
                if length <= left || (told.is_empty() && self.detail == Detail::Names) {
                    self.left = Some(left.saturating_sub(length));
                    told.push(entry);
                    break;
                }
                self.detail = match self.detail {
                    Detail::Full => Detail::Summary,
                    Detail::Summary => Detail::Names,
                    Detail::Names => return told,
                };
            }
        }
        told
    }
}

impl Found {
    fn told(&self, detail: Detail) -> Value {
        match self {
            Self::Tool(hit, similar) => {
                let mut told = tool(hit, detail);
                if let (Value::Object(told), false) = (&mut told, similar.is_empty()) {
                    told.insert("similar".to_owned(), similar.clone().into());
                }
                told
            }
            Self::Offer(hit) => offer(hit, detail),
        }
    }
}

fn tool(hit: &Hit, detail: Detail) -> Value {
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

/// Renders a prompt or resource as a list does, or with fewer fields.
fn offer(hit: &OfferHit, detail: Detail) -> Value {
    let shown = hit.offer.shown.iter().filter(|(member, _)| match detail {
        Detail::Full => true,
        Detail::Summary => {
            ["name", "uri", "uriTemplate", "title", "description"].contains(&member.as_str())
        }
        Detail::Names => ["name", "uri", "uriTemplate"].contains(&member.as_str()),
    });
    let shown = shown.map(|(member, value)| match (detail, value) {
        (Detail::Summary, Value::String(text)) if member == "description" => {
            (member.clone(), first_sentence(text).into())
        }
        _ => (member.clone(), value.clone()),
    });
    let mut shown: Map<String, Value> = shown.collect();
    shown.insert("score".to_owned(), hit.score.into());
    Value::Object(shown)
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
