//! Executes `tool_search`: renders hits in the requested detail, as many as fit the token budget.

use model::{Content, McpPrimitive, ToolResult};
use search::NameStems;
use serde_json::{Map, Value, json};

use super::{DEFAULT_RESULTS, MAX_RESULTS, MetaTool};
use crate::view::{AgentView, OfferHit, ToolHit};

/// How much of each hit is rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HitDetail {
    Names,
    Summary,
    Full,
}

/// Approximate number of bytes per token.
const BYTES_PER_TOKEN: usize = 4;
/// Maximum length of the first sentence, in characters.
const MAX_SENTENCE_CHARS: usize = 200;

/// The hits of one kind: tools, prompts or resources.
struct HitGroup {
    /// Field name in the answer.
    name: &'static str,
    /// Field that names the method or tool to use a hit with, and its value.
    used_with: (&'static str, &'static str),
    hits: Vec<RenderedHit>,
}

enum RenderedHit {
    /// A tool, with the names of similar tools of the same source.
    Tool(ToolHit, Vec<String>),
    Offer(OfferHit),
}

/// Runs `tool_search` for an agent.
pub(in crate::view) async fn run_tool_search(
    view: &AgentView,
    arguments: &Map<String, Value>,
) -> ToolResult {
    let text = |member: &str| arguments.get(member).and_then(Value::as_str).unwrap_or_default();
    let number = |member: &str| arguments.get(member).and_then(Value::as_u64);
    let detail = match text("detail") {
        "names" => HitDetail::Names,
        "summary" => HitDetail::Summary,
        _ => HitDetail::Full,
    };
    let budget = number("max_tokens").and_then(|tokens| usize::try_from(tokens).ok());
    let is_short = detail != HitDetail::Full || budget.is_some();
    let mut budget =
        AnswerBudget { left: budget.map(|it| it.saturating_mul(BYTES_PER_TOKEN)), detail };
    let (mut all, mut structured, mut left_out) = (Vec::new(), Map::new(), 0);
    for kind in search_kinds(view, arguments, is_short).await {
        let told = budget.render_hits(&kind.hits);
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
async fn search_kinds(
    view: &AgentView,
    arguments: &Map<String, Value>,
    is_short: bool,
) -> Vec<HitGroup> {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
    let limit = arguments
        .get("max_results")
        .and_then(Value::as_u64)
        .unwrap_or(DEFAULT_RESULTS)
        .min(MAX_RESULTS);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let named = arguments.get("kinds").and_then(Value::as_array);
    let is_wanted =
        |name: &str| named.map_or(name == "tools", |named| named.iter().any(|it| it == name));
    let mut kinds = Vec::new();
    if is_wanted("tools") {
        let hits = view.search(query, limit).await;
        let hits = if is_short { group_similar(hits) } else { without_similar(hits) };
        let used_with = ("call_with", MetaTool::Execute.name());
        kinds.push(HitGroup { name: "tools", used_with, hits });
    }
    for (name, kind, used_with) in [
        ("prompts", McpPrimitive::Prompt, ("get_with", "prompts/get")),
        ("resources", McpPrimitive::Resource, ("read_with", "resources/read")),
    ] {
        if is_wanted(name) {
            let hits = view.search_offers(kind, query, limit).await;
            kinds.push(HitGroup {
                name,
                used_with,
                hits: hits.into_iter().map(RenderedHit::Offer).collect(),
            });
        }
    }
    kinds
}

fn without_similar(hits: Vec<ToolHit>) -> Vec<RenderedHit> {
    hits.into_iter().map(|hit| RenderedHit::Tool(hit, Vec::new())).collect()
}

/// Groups similar tools of one source: the best hit lists the names of the others.
fn group_similar(hits: Vec<ToolHit>) -> Vec<RenderedHit> {
    let mut best: Vec<(ToolHit, NameStems, Vec<String>)> = Vec::new();
    for hit in hits {
        let stems = NameStems::from_name(hit.tool.name());
        let source =
            |hit: &ToolHit| hit.tool.catalog_entry().map(|entry| entry.tool.source.clone());
        let own = source(&hit);
        let like = best.iter_mut().find(|(other, others, _)| {
            own.is_some() && stems.is_similar_to(others) && own == source(other)
        });
        match like {
            Some((.., similar)) => similar.push(hit.tool.name().to_owned()),
            None => best.push((hit, stems, Vec::new())),
        }
    }
    best.into_iter().map(|(hit, _, similar)| RenderedHit::Tool(hit, similar)).collect()
}

/// The bytes left in the answer, and the detail of the next hit.
struct AnswerBudget {
    left: Option<usize>,
    detail: HitDetail,
}

impl AnswerBudget {
    /// Renders as many hits as fit, best first. If a hit does not fit, it and all later ones are rendered in less
    /// detail.
    fn render_hits(&mut self, hits: &[RenderedHit]) -> Vec<Value> {
        let mut told = Vec::new();
        for hit in hits {
            loop {
                let entry = hit.render_hit(self.detail);
                let Some(left) = self.left else {
                    told.push(entry);
                    break;
                };
                let length = entry.to_string().len() + 1;
                // At least the name of the best hit is included.
                if length <= left || (told.is_empty() && self.detail == HitDetail::Names) {
                    self.left = Some(left.saturating_sub(length));
                    told.push(entry);
                    break;
                }
                self.detail = match self.detail {
                    HitDetail::Full => HitDetail::Summary,
                    HitDetail::Summary => HitDetail::Names,
                    HitDetail::Names => return told,
                };
            }
        }
        told
    }
}

impl RenderedHit {
    fn render_hit(&self, detail: HitDetail) -> Value {
        match self {
            Self::Tool(hit, similar) => {
                let mut told = render_tool(hit, detail);
                if let (Value::Object(told), false) = (&mut told, similar.is_empty()) {
                    told.insert("similar".to_owned(), similar.clone().into());
                }
                told
            }
            Self::Offer(hit) => render_offer(hit, detail),
        }
    }
}

fn render_tool(hit: &ToolHit, detail: HitDetail) -> Value {
    let (name, score) = (hit.tool.name(), hit.score);
    match detail {
        HitDetail::Names => json!({"name": name, "score": score}),
        HitDetail::Summary => {
            let description = first_sentence(&hit.tool.description());
            json!({"name": name, "description": description, "score": score})
        }
        HitDetail::Full => json!({
            "name": name,
            "description": hit.tool.description(),
            "score": score,
            "input_schema": hit.tool.input_schema(),
        }),
    }
}

/// Renders a prompt or resource as a list does, or with fewer fields.
fn render_offer(hit: &OfferHit, detail: HitDetail) -> Value {
    let shown = hit.offer.fields.iter().filter(|(member, _)| match detail {
        HitDetail::Full => true,
        HitDetail::Summary => {
            ["name", "uri", "uriTemplate", "title", "description"].contains(&member.as_str())
        }
        HitDetail::Names => ["name", "uri", "uriTemplate"].contains(&member.as_str()),
    });
    let shown = shown.map(|(member, value)| match (detail, value) {
        (HitDetail::Summary, Value::String(text)) if member == "description" => {
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
    let mut cut: String = sentence.chars().take(MAX_SENTENCE_CHARS).collect();
    if cut.len() < sentence.len() {
        cut.push('…');
    }
    cut
}
