//! Turns the lists of an MCP server into an inventory (requirements U1, U2).
//!
//! The lists are untrusted. An unusable entry is omitted with a warning that names it. Everything else is passed on
//! unchanged: fields that we do not read go into `extra`.

use std::collections::BTreeMap;

use limits::run_low_priority;
use mcp_client::{
    McpCallOptions, McpConnection, McpError, McpItemKind, McpListWarning, McpListing,
};
use model::{DiscoveryWarning, Execution, Inventory, Manifest, RawJson, Schema, SourceId, ToolId};
use serde_json::{Map, Value, json};

use crate::{DiscoveredInventory, DiscoveryError};

/// The fields that we read of every entry; all others are passed on in `extra`.
const KNOWN_FIELDS: [&str; 3] = ["name", "title", "description"];
/// The maximum length of the server's own text in a warning, in characters.
const EXCERPT_CHARS: usize = 80;

/// Asks a server for its tools, prompts, resources and resource templates.
pub async fn discover_mcp(
    source: &SourceId,
    connection: &McpConnection,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let mut lists = Vec::new();
    for of in
        [McpItemKind::Tools, McpItemKind::Prompts, McpItemKind::Resources, McpItemKind::Templates]
    {
        let listed = match connection.fetch_list(of, McpCallOptions::default()).await {
            Err(error) if has_no_such_list(of, &error) => continue,
            listed => listed?,
        };
        lists.push((of, listed));
    }
    let (source, source_version) =
        (source.clone(), server_version(&connection.server_description().server));
    let (inventory, operations) = run_low_priority(move || build_inventory(source, lists)).await?;
    Ok(DiscoveredInventory { inventory: Inventory { source_version, ..inventory }, operations })
}

fn build_inventory(
    source: SourceId,
    lists: Vec<(McpItemKind, McpListing)>,
) -> Result<(Inventory, usize), DiscoveryError> {
    let (mut operations, mut warnings, mut manifests) = (0, Vec::new(), BTreeMap::new());
    for (of, listed) in lists {
        operations += listed.items.len() + listed.warnings.len();
        warnings.extend(listed.warnings.iter().map(convert_warning));
        for item in listed.items {
            match read_listed_item(&source, of, item) {
                Ok((key, manifest)) => drop(manifests.insert(key, manifest)),
                Err(warning) => warnings.push(warning),
            }
        }
    }
    let inventory = Inventory::new(source, manifests)?;
    Ok((Inventory { warnings, ..inventory }, operations))
}

/// Whether the server lacks this list. One capability covers several lists, and many servers with resources have no
/// method to list templates.
fn has_no_such_list(of: McpItemKind, error: &McpError) -> bool {
    const NO_METHOD: i64 = -32601;
    of != McpItemKind::Tools && matches!(error, McpError::Refused { code: NO_METHOD, .. })
}

/// A listed entry and its key. The key of a tool is its name; other keys have a prefix, because a prompt may have the
/// name of a tool.
fn read_listed_item(
    source: &SourceId,
    of: McpItemKind,
    mut item: Map<String, Value>,
) -> Result<(String, Manifest), DiscoveryWarning> {
    let text = |member: &str| item.get(member).and_then(Value::as_str).unwrap_or_default();
    let named = text("name").to_owned();
    let (key, name, execution) = match of {
        McpItemKind::Tools => (named.clone(), named, Execution::McpCall),
        McpItemKind::Prompts => (format!("prompt/{named}"), named, Execution::McpPrompt),
        McpItemKind::Resources => {
            let uri = text("uri");
            let execution = Execution::McpResource { uri: uri.into() };
            (format!("resource/{uri}"), name_or_uri(named, uri), execution)
        }
        McpItemKind::Templates => {
            let uri = text("uriTemplate");
            let execution = Execution::McpTemplate { uri_template: uri.into() };
            (format!("template/{uri}"), name_or_uri(named, uri), execution)
        }
    };
    let left_out = |code: &str, why: &str| DiscoveryWarning {
        code: code.into(),
        at: short_excerpt(&key).into(),
        message: format!("`{}` is left out: {why}", short_excerpt(&key)).into(),
    };
    let is_named = !name.is_empty() && !name.chars().any(char::is_control);
    ToolId::new(source, &key).map_err(|error| left_out("invalid_name", error.rule))?;
    if !is_named {
        return Err(left_out("invalid_name", "its name is empty or cannot be printed"));
    }
    match of {
        McpItemKind::Tools | McpItemKind::Prompts => {}
        McpItemKind::Resources => drop(item.shift_remove("uri")),
        McpItemKind::Templates => drop(item.shift_remove("uriTemplate")),
    }
    let is_a_tool = of == McpItemKind::Tools;
    let mut schema = |member: &str| match item.shift_remove(member).filter(|_| is_a_tool) {
        None | Some(Value::Null) => Ok(None),
        Some(schema) => Schema::new(schema)
            .map(Some)
            .map_err(|_| left_out("invalid_schema", &format!("its `{member}` is not an object"))),
    };
    let (input_schema, output_schema) = (schema("inputSchema")?, schema("outputSchema")?);
    let anything = || Schema::new(json!({"type": "object"})).expect("this is an object");
    let text = |member: &str| item.get(member).and_then(Value::as_str);
    let described = text("description").filter(|text| !text.is_empty()).map(Into::into);
    let is_tool = execution == Execution::McpCall;
    let description = described.unwrap_or_else(|| match is_tool {
        true => format!("MCP tool: {name}").into(),
        false => Box::default(),
    });
    let manifest = Manifest {
        title: text("title").map(Into::into),
        description,
        method: "POST".into(),
        path: format!("/mcp/{key}").into(),
        name: name.into(),
        tags: Vec::new(),
        input_schema: input_schema.unwrap_or_else(anything),
        output_schema,
        execution,
        deprecated: false,
        security: None,
        extra: extra_fields(&item),
    };
    Ok((key, manifest))
}

fn name_or_uri(name: String, uri: &str) -> String {
    if name.is_empty() { uri.to_owned() } else { name }
}

fn extra_fields(item: &Map<String, Value>) -> BTreeMap<Box<str>, RawJson> {
    let others = item.iter().filter(|(member, value)| {
        // A known field with a value of the wrong type is dropped: it cannot be used and is not passed on.
        !KNOWN_FIELDS.contains(&member.as_str()) && !value.is_null()
    });
    others.map(|(member, value)| (member.as_str().into(), value.into())).collect()
}

fn convert_warning(warning: &McpListWarning) -> DiscoveryWarning {
    let (code, at, why) = match warning {
        McpListWarning::Duplicate { key } => {
            ("duplicate_name", short_excerpt(key), "another one has this name")
        }
        McpListWarning::Unnamed { index: place } => {
            ("missing_name", format!("/{place}"), "it has no name")
        }
        McpListWarning::InvalidHeaderAnnotation { key, why } => {
            ("invalid_header", short_excerpt(key), *why)
        }
    };
    let message = format!("`{at}` is left out: {why}");
    DiscoveryWarning { code: code.into(), at: at.into(), message: message.into() }
}

/// The version of the server, from `serverInfo` of `initialize` or from `_meta` of `server/discover`.
fn server_version(server: &Map<String, Value>) -> Option<String> {
    const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    let of_meta = || server.get("_meta").and_then(|meta| meta.get(SERVER));
    let about = server.get("serverInfo").or_else(of_meta)?;
    let version = about.get("version")?.as_str()?;
    Some(short_excerpt(version)).filter(|version| !version.is_empty())
}

/// An excerpt of the server's own text: short, with invisible characters escaped.
fn short_excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use mcp_client::RpcError;

    use super::*;

    fn read(item: Value) -> Result<Manifest, DiscoveryWarning> {
        read_as(McpItemKind::Tools, item).map(|(_, manifest)| manifest)
    }

    fn read_as(of: McpItemKind, item: Value) -> Result<(String, Manifest), DiscoveryWarning> {
        let source = "time".parse().unwrap();
        super::read_listed_item(&source, of, item.as_object().cloned().unwrap())
    }

    #[test]
    fn prompts_and_resources_have_prefixed_keys() {
        let prompt = json!({"name": "sum", "arguments": [{"name": "a", "required": true}]});
        let (key, manifest) = read_as(McpItemKind::Prompts, prompt).unwrap();
        assert_eq!((key.as_str(), &*manifest.description), ("prompt/sum", ""));
        assert_eq!(manifest.extra.keys().map(|name| &**name).collect::<Vec<_>>(), ["arguments"]);
        let resource = json!({"uri": "file:///a", "mimeType": "text/plain"});
        let (key, manifest) = read_as(McpItemKind::Resources, resource).unwrap();
        assert_eq!((key.as_str(), &*manifest.name), ("resource/file:///a", "file:///a"));
        assert_eq!(manifest.execution, Execution::McpResource { uri: "file:///a".into() });
        let template = json!({"uriTemplate": "file:///{path}", "name": "Files"});
        let (key, manifest) = read_as(McpItemKind::Templates, template).unwrap();
        assert_eq!((key.as_str(), &*manifest.name), ("template/file:///{path}", "Files"));
    }

    #[test]
    fn a_server_may_lack_some_lists() {
        let refused = |code| McpError::Refused {
            method: "list".into(),
            code,
            error: Box::new(RpcError::new(code, "no")),
        };
        assert!(has_no_such_list(McpItemKind::Templates, &refused(-32601)));
        assert!(!has_no_such_list(McpItemKind::Templates, &refused(-32603)));
        assert!(!has_no_such_list(McpItemKind::Tools, &refused(-32601)));
        assert!(!has_no_such_list(McpItemKind::Templates, &McpError::Closed));
    }

    #[test]
    fn unread_fields_are_passed_on() {
        let manifest = read(json!({
            "name": "get-sum", "title": "Get Sum", "description": "",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}, "icons": [{"src": "data:,"}],
            "_meta": {"vendor": 1}, "execution": {"taskSupport": "optional"}, "x": [1],
        }))
        .unwrap();
        assert_eq!(&*manifest.description, "MCP tool: get-sum");
        assert_eq!((&*manifest.method, &*manifest.path), ("POST", "/mcp/get-sum"));
        assert_eq!(manifest.execution, Execution::McpCall);
        assert!(manifest.output_schema.is_some());
        let names: Vec<&str> = manifest.extra.keys().map(|name| &**name).collect();
        assert_eq!(names, ["_meta", "annotations", "execution", "icons", "x"]);
    }

    #[test]
    fn unusable_entries_are_omitted_with_a_warning() {
        for (item, code) in [
            (json!({"name": ""}), "invalid_name"),
            (json!({"name": "a\u{7}b"}), "invalid_name"),
            (json!({"name": "x".repeat(600)}), "invalid_name"),
            (json!({"name": "a", "inputSchema": [1]}), "invalid_schema"),
            (json!({"name": "a", "outputSchema": "text"}), "invalid_schema"),
        ] {
            let warning = read(item).unwrap_err();
            assert_eq!(&*warning.code, code, "{warning:?}");
            assert!(warning.message.len() < 400);
        }
        let bare = read(json!({"name": "a"})).unwrap();
        assert_eq!(bare.input_schema.to_value(), json!({"type": "object"}));
    }
}
