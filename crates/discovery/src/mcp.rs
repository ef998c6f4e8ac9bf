//! What an MCP server lists becomes an inventory (requirements U1, U2).
//!
//! The lists are not ours. An entry that cannot be used is left out with a warning that names it; everything else goes
//! through as it came: what we do not read ourselves is passed on in `extra`.

use std::collections::BTreeMap;

use model::{Execution, Inventory, Manifest, RawJson, Schema, SourceId, ToolId, Warning};
use serde_json::{Map, Value, json};
use upstream::mcp::{Call, Connection, ListOf, ListWarning};

use crate::{DiscoveryError, Found};

/// The members we read; all others are passed on in `extra`.
const KNOWN: [&str; 5] = ["name", "title", "description", "inputSchema", "outputSchema"];
/// How much of the server's own text a warning repeats, in characters.
const SHOWN: usize = 80;

/// Asks a server what it offers.
pub async fn discover(source: &SourceId, connection: &Connection) -> Result<Found, DiscoveryError> {
    let listed = connection.list(ListOf::Tools, Call::default()).await?;
    let operations = listed.items.len() + listed.warnings.len();
    let mut warnings: Vec<Warning> = listed.warnings.iter().map(warning).collect();
    let mut manifests = BTreeMap::new();
    for item in listed.items {
        match tool(source, item) {
            Ok(manifest) => drop(manifests.insert(manifest.name.to_string(), manifest)),
            Err(warning) => warnings.push(warning),
        }
    }
    let inventory = Inventory::new(source.clone(), manifests)?;
    let source_version = version(&connection.about().server);
    let inventory = Inventory { warnings, source_version, ..inventory };
    Ok(Found { inventory, operations })
}

fn tool(source: &SourceId, mut item: Map<String, Value>) -> Result<Manifest, Warning> {
    let name = item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let left_out = |code: &str, why: &str| Warning {
        code: code.into(),
        at: shown(&name).into(),
        message: format!("the tool `{}` is left out: {why}", shown(&name)).into(),
    };
    ToolId::new(source, &name).map_err(|error| left_out("invalid_name", error.rule))?;
    let mut schema = |member: &str| match item.shift_remove(member) {
        None | Some(Value::Null) => Ok(None),
        Some(schema) => Schema::new(schema)
            .map(Some)
            .map_err(|_| left_out("invalid_schema", &format!("its `{member}` is not an object"))),
    };
    let (input_schema, output_schema) = (schema("inputSchema")?, schema("outputSchema")?);
    let anything = || Schema::new(json!({"type": "object"})).expect("this is an object");
    let text = |member: &str| item.get(member).and_then(Value::as_str);
    let description = text("description").filter(|text| !text.is_empty());
    let manifest = Manifest {
        name: name.as_str().into(),
        title: text("title").map(Into::into),
        description: description.map_or_else(|| format!("MCP tool: {name}").into(), Into::into),
        method: "POST".into(),
        path: format!("/mcp/{name}").into(),
        tags: Vec::new(),
        input_schema: input_schema.unwrap_or_else(anything),
        output_schema,
        execution: Execution::McpCall,
        deprecated: false,
        security: None,
        extra: extra(&item),
    };
    Ok(manifest)
}

fn extra(item: &Map<String, Value>) -> BTreeMap<Box<str>, RawJson> {
    let others = item.iter().filter(|(member, value)| {
        // A title that is no text is not ours to mend; it is no title either.
        !KNOWN.contains(&member.as_str()) && !value.is_null()
    });
    others.map(|(member, value)| (member.as_str().into(), value.into())).collect()
}

fn warning(warning: &ListWarning) -> Warning {
    let (code, at, why) = match warning {
        ListWarning::Twice { key } => ("duplicate_name", shown(key), "another one has this name"),
        ListWarning::Nameless { place } => ("missing_name", format!("/{place}"), "it has no name"),
        ListWarning::Header { key, why } => ("invalid_header", shown(key), *why),
    };
    let message = format!("`{at}` is left out: {why}");
    Warning { code: code.into(), at: at.into(), message: message.into() }
}

/// What the server calls its own version: in `serverInfo` of `initialize`, in `_meta` of `server/discover`.
fn version(server: &Map<String, Value>) -> Option<String> {
    const SERVER: &str = "io.modelcontextprotocol/serverInfo";
    let of_meta = || server.get("_meta").and_then(|meta| meta.get(SERVER));
    let about = server.get("serverInfo").or_else(of_meta)?;
    let version = about.get("version")?.as_str()?;
    Some(shown(version)).filter(|version| !version.is_empty())
}

/// The server's own text, short and with nothing invisible in it.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(item: Value) -> Result<Manifest, Warning> {
        let source = "time".parse().unwrap();
        tool(&source, item.as_object().cloned().unwrap())
    }

    #[test]
    fn everything_that_is_not_read_is_passed_on() {
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
    fn what_cannot_be_a_tool_is_left_out_by_name() {
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
