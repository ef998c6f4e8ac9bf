//! Checks MCP content blocks that an admin wrote: nothing else checks them before an agent receives them.

use serde_json::{Map, Value};

/// The first problem of a content block: the field and the reason.
pub(super) fn find_content_problem(
    content: &Map<String, Value>,
) -> Option<(&'static str, &'static str)> {
    let kind = content.get("type").and_then(Value::as_str).unwrap_or_default();
    let needed: &[&'static str] = match kind {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource_link" => &["uri", "name"],
        "resource" => return find_resource_problem(content),
        _ => {
            let why = "is to be `text`, `image`, `audio`, `resource_link` or `resource`";
            return Some(("type", why));
        }
    };
    let missing = needed.iter().find(|member| !content.get(**member).is_some_and(Value::is_string));
    missing.map(|member| (*member, "is to be a text"))
}

fn find_resource_problem(content: &Map<String, Value>) -> Option<(&'static str, &'static str)> {
    let text = |member| content.get("resource").and_then(|it| it.get(member)?.as_str());
    let is_whole = text("uri").is_some() && (text("text").is_some() || text("blob").is_some());
    (!is_whole).then_some(("resource", "is to have a `uri`, and a `text` or a `blob`"))
}
