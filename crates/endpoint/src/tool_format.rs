//! Formats of tool lists: the same tools in the formats of several model APIs (requirement A1).
//!
//! A list is written tool by tool; the events of a stream contain the same objects.

mod agent_tool;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolcrib::{AgentView, ViewedTool};

use crate::list_cache::{ListCache, ListVariant, SerializedList};

pub use self::agent_tool::AgentTool;

/// Ready-made function definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ToolFormat")]
pub enum ToolFormat {
    /// All that is known, in our own words.
    #[default]
    #[serde(skip)]
    Data,
    /// As the `tools/list` of MCP has them.
    Mcp,
    /// For `OpenAI`'s Chat Completions, and whoever copied it.
    Openai,
    /// For `OpenAI`'s Responses.
    OpenaiResponses,
    /// For Anthropic's Messages.
    Anthropic,
    /// For Google's Gemini.
    Gemini,
    /// As an http manifest has them (requirement H3).
    #[serde(skip)]
    HttpManifest,
}

impl ToolFormat {
    /// The whole list, from the cache if possible.
    pub fn cached_list(self, cache: &ListCache, view: &AgentView) -> SerializedList {
        cache.get_or_serialize(view, self.list_variant(), || self.serialize_list(view))
    }

    fn list_variant(self) -> ListVariant {
        ListVariant::new(match self {
            Self::Data => "data",
            Self::Mcp => "mcp",
            Self::Openai => "openai",
            Self::OpenaiResponses => "openai_responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::HttpManifest => "http_manifest",
        })
    }

    /// Serializes the whole list.
    pub fn serialize_list(self, view: &AgentView) -> Vec<u8> {
        let tools = view.list();
        let (start, end) = match self {
            // Gemini rejects a tool without function declarations.
            Self::Gemini if tools.is_empty() => (r#"{"tools":["#, "]}"),
            Self::Data => (r#"{"data":["#, "]}"),
            Self::Mcp
            | Self::Openai
            | Self::OpenaiResponses
            | Self::Anthropic
            | Self::HttpManifest => (r#"{"tools":["#, "]}"),
            Self::Gemini => (r#"{"tools":[{"functionDeclarations":["#, "]}]}"),
        };
        let mut bytes = start.as_bytes().to_vec();
        for (number, tool) in tools.iter().enumerate() {
            if 0 < number {
                bytes.push(b',');
            }
            let tool = self.tool_to_json(view, tool);
            serde_json::to_writer(&mut bytes, &tool).expect("a tool is JSON");
        }
        bytes.extend(end.as_bytes());
        bytes
    }

    /// Size of a tool in a list, in bytes.
    pub(crate) fn serialized_size(self, view: &AgentView, tool: &ViewedTool) -> u64 {
        self.tool_to_json(view, tool).to_string().len() as u64 + 1
    }

    /// The tool's name in this format. MCP accepts any name; model APIs and URL paths do not.
    pub fn tool_name(self, tool: &ViewedTool) -> Cow<'_, str> {
        match self {
            Self::Data | Self::Mcp => Cow::Borrowed(tool.name()),
            Self::Openai
            | Self::OpenaiResponses
            | Self::Anthropic
            | Self::Gemini
            | Self::HttpManifest => tool.portable_name(),
        }
    }

    /// One tool in this format.
    pub fn tool_to_json(self, view: &AgentView, tool: &ViewedTool) -> Value {
        let (name, description) = (self.tool_name(tool), tool.description());
        match self {
            Self::Data => serde_json::to_value(AgentTool::from_tool(view, tool))
                .expect("a tool of ours is JSON"),
            Self::Mcp => Value::Object(tool_to_mcp(tool)),
            Self::HttpManifest => {
                let mut shown = Value::Object(tool_to_mcp(tool));
                shown["endpoint"] = format!("/tools/{name}").into();
                shown["method"] = "POST".into();
                shown["name"] = name.into();
                shown
            }
            Self::Openai => json!({
                "type": "function",
                "function": {"name": name, "description": description, "parameters": parameters_schema(tool)},
            }),
            // Without `strict: false`, the API treats the schema as a strict one, which most schemas are not.
            Self::OpenaiResponses => json!({
                "type": "function", "name": name, "description": description,
                "parameters": parameters_schema(tool), "strict": false,
            }),
            Self::Anthropic => {
                json!({"name": name, "description": description, "input_schema": parameters_schema(tool)})
            }
            Self::Gemini => json!({
                "name": name, "description": description, "parametersJsonSchema": parameters_schema(tool),
            }),
        }
    }
}

/// A tool in the format of MCP.
pub(crate) fn tool_to_mcp(tool: &ViewedTool) -> Map<String, Value> {
    let mut others = tool.extra_fields();
    let mut shown = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        shown.extend(value.map(|value| (name.to_owned(), value)));
    };
    put("name", Some(tool.name().into()));
    put("title", others.shift_remove("title"));
    put("description", Some(tool.description().into()));
    put("inputSchema", Some(object_schema_of(tool)));
    put("outputSchema", tool.output_schema());
    for (name, value) in others {
        shown.entry(name).or_insert(value);
    }
    shown
}

/// The input schema with `"type": "object"`, since arguments are always an object.
fn object_schema_of(tool: &ViewedTool) -> Value {
    match tool.input_schema() {
        Value::Object(schema) if schema.contains_key("type") => Value::Object(schema),
        Value::Object(others) => {
            let kind = ("type".to_owned(), Value::from("object"));
            Value::Object([kind].into_iter().chain(others).collect())
        }
        _ => json!({"type": "object"}),
    }
}

/// The input schema for APIs that reject an object schema without `properties`.
fn parameters_schema(tool: &ViewedTool) -> Value {
    let mut schema = object_schema_of(tool);
    if schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    schema
}
