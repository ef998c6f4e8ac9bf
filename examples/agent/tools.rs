//! A list of tools, from `GET /tools` or MCP, as functions for a model.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use upstream::http::header::HeaderValue;
use upstream::http::{Method, Url};

use super::remote::RemoteServer;

/// Longest function name that models accept.
const MAX_NAME_CHARS: usize = 64;

/// Tools of one list.
#[derive(Default)]
pub(crate) struct ToolList {
    /// Definitions for the model, in the format of function calling.
    pub(crate) functions: Vec<Value>,
    /// Where each function is called, by its name.
    routes: HashMap<String, ToolRoute>,
    /// Entity tag of this list.
    pub(crate) etag: Option<HeaderValue>,
    /// False until a server has answered for the first time.
    pub(crate) is_read: bool,
}

/// Where a tool is called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ToolRoute {
    Http { method: Method, url: Url },
    Mcp { name: String, schema: Arc<Value> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ManifestBody {
    Object { tools: Vec<Value> },
    Bare(Vec<Value>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolListEntry {
    name: String,
    #[serde(default)]
    description: String,
    input_schema: Option<Map<String, Value>>,
    endpoint: Option<String>,
    method: Option<String>,
}

impl ToolList {
    /// Parses a response of `GET /tools`. Invalid entries are logged and skipped.
    pub(crate) fn from_manifest(
        body: &[u8],
        etag: Option<HeaderValue>,
        server: &RemoteServer,
    ) -> Result<Self, serde_json::Error> {
        let entries = match serde_json::from_slice(body)? {
            ManifestBody::Object { tools } | ManifestBody::Bare(tools) => tools,
        };
        let tools = Self::from_entries(entries, |entry| http_route(entry, server));
        Ok(Self { etag, ..tools })
    }

    /// Converts the list of an MCP server.
    pub(crate) fn from_mcp(items: Vec<Map<String, Value>>) -> Self {
        Self::from_entries(items.into_iter().map(Value::Object).collect(), |entry| {
            let schema = Arc::new(json!(entry.input_schema));
            Ok(ToolRoute::Mcp { name: entry.name.clone(), schema })
        })
    }

    fn from_entries(
        entries: Vec<Value>,
        route: impl Fn(&ToolListEntry) -> Result<ToolRoute, String>,
    ) -> Self {
        let mut tools = Self { is_read: true, ..Self::default() };
        for entry in entries {
            let said = entry.get("name").cloned().unwrap_or_default();
            let entry = ToolListEntry::deserialize(entry).map_err(|why| why.to_string());
            let found = entry.and_then(|entry| Ok((route(&entry)?, entry)));
            if let Err(why) = found.and_then(|(route, entry)| tools.add_tool(entry, route)) {
                tracing::warn!("the tool {said} is left out: {why}");
            }
        }
        tools
    }

    fn add_tool(&mut self, entry: ToolListEntry, route: ToolRoute) -> Result<(), String> {
        let name = function_name(&entry.name);
        if name.is_empty() || self.routes.contains_key(&name) {
            return Err(format!("a function cannot be called `{name}`, or another one is"));
        }
        let mut parameters = entry.input_schema.unwrap_or_default();
        // Some models reject an object schema without `properties`.
        parameters.entry("type").or_insert_with(|| "object".into());
        parameters.entry("properties").or_insert_with(|| json!({}));
        self.functions.push(json!({
            "type": "function",
            "function": {"name": name, "description": entry.description, "parameters": parameters},
        }));
        self.routes.insert(name, route);
        Ok(())
    }

    pub(crate) fn route_of(&self, function: &str) -> Option<ToolRoute> {
        self.routes.get(function).cloned()
    }
}

/// Where a tool of the manifest convention is called.
fn http_route(entry: &ToolListEntry, server: &RemoteServer) -> Result<ToolRoute, String> {
    let (endpoint, method) = match &entry.endpoint {
        Some(endpoint) => (endpoint.clone(), entry.method.as_deref().unwrap_or("POST")),
        // Without an endpoint, the convention derives the path from the name.
        None => {
            let path = entry.name.strip_prefix("get_").unwrap_or(&entry.name);
            (path.replace('_', "-"), "POST")
        }
    };
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|_| format!("`{method}` is no method"))?;
    Ok(ToolRoute::Http { method, url: server.url_below(&endpoint) })
}

/// Replaces all characters that models do not accept: they take ASCII letters, digits, `_` and `-`.
fn function_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if allowed(c) { c } else { '_' }).take(MAX_NAME_CHARS).collect()
}
