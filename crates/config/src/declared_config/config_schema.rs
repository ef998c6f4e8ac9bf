//! The JSON Schema of a configuration file: one for our own check, and one for editors. Both are derived from its
//! types.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use api_types::group_body::GroupBody;
use api_types::tool_patch::ToolPatch;
use api_types::type_schemas::{SchemaSet, TypeSchema};
use model::{
    Claims, GroupId, LabelId, LabelProfile, PolicyId, PolicyRules, SourceId, SourceProfile, ToolId,
};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::server_settings::ServerSettings;

/// A configuration of toolcrib.
#[derive(JsonSchema)]
#[schemars(title = "Configuration of toolcrib")]
#[expect(dead_code, reason = "a file is read piece by piece; this is what the pieces are together")]
#[schemars(rename = "File")]
struct ConfigFile {
    /// For editors: where the schema of this file is.
    #[serde(default, rename = "$schema")]
    schema: String,
    /// What offers tools.
    #[serde(default)]
    sources: Vec<DeclaredSource>,
    /// Our own words for tools.
    #[serde(default)]
    labels: Vec<DeclaredLabel>,
    /// What is said of single tools, instead of what their sources say.
    #[serde(default)]
    tools: Vec<DeclaredTool>,
    /// Curated tools.
    #[serde(default)]
    groups: Vec<DeclaredGroup>,
    /// Which claims grant which groups.
    #[serde(default)]
    policies: Vec<DeclaredPolicy>,
    /// Whose tools `toolcrib plan` compares, beside the holders of API keys.
    #[serde(default)]
    identities: Vec<DeclaredIdentity>,
    #[serde(flatten)]
    server: ServerSettings,
}

/// A source that is to be there.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredSource {
    /// For ever.
    id: SourceId,
    #[serde(flatten)]
    profile: SourceProfile,
    /// Whether its tools are served; left out, it stays as it is.
    #[serde(default)]
    is_enabled: Option<bool>,
}

/// A label that is to be there.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredLabel {
    /// For ever.
    id: LabelId,
    #[serde(flatten)]
    profile: LabelProfile,
}

/// What is said of a tool. What is left out stays as it is; null takes it back.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredTool {
    /// `source:name`
    id: ToolId,
    #[serde(flatten)]
    patch: ToolPatch,
    /// Exactly these.
    #[serde(default)]
    labels: Option<BTreeSet<LabelId>>,
    /// Whether it is served.
    #[serde(default)]
    is_enabled: Option<bool>,
}

/// A group that is to be there.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredGroup {
    /// For ever.
    id: GroupId,
    #[serde(flatten)]
    group: GroupBody,
    /// Whether policies can grant it; left out, it stays as it is.
    #[serde(default)]
    is_active: Option<bool>,
}

/// A policy that is to be there.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredPolicy {
    /// For ever.
    id: PolicyId,
    #[serde(flatten)]
    rules: PolicyRules,
    /// Whether it grants; left out, it stays as it is.
    #[serde(default)]
    is_active: Option<bool>,
}

/// Somebody whose tools are compared.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct DeclaredIdentity {
    /// For the plan.
    #[schemars(length(min = 1))]
    name: String,
    /// What a token of the identity says.
    claims: Claims,
}

/// The schemas against which a file is validated.
pub(super) fn config_schemas() -> &'static SchemaSet {
    static SCHEMAS: LazyLock<SchemaSet> = LazyLock::new(|| {
        let mut schemas = SchemaSet::from_types([config_shape()]);
        schemas.components.values_mut().for_each(allow_document_files);
        schemas
    });
    &SCHEMAS
}

pub(super) fn config_shape() -> TypeSchema {
    TypeSchema::for_type::<ConfigFile>()
}

/// The schema for completion and validation in editors.
pub fn editor_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<ConfigFile>().to_value();
    allow_document_files(&mut schema);
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    close_objects(&mut schema, &definitions, true);
    schema
}

/// Allows workflow documents in separate files.
fn allow_document_files(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(items) =
                members.get_mut("documents").and_then(|documents| documents.get_mut("items"))
                && items.get("type").is_some_and(|kind| kind == "string")
            {
                let path = json!({"type": "string", "description": "Relative to this file."});
                let file = json!({"type": "object", "properties": {"file": path}, "required": ["file"],
                    "additionalProperties": false});
                *items = json!({"anyOf": [items.clone(), file]});
            }
            members.values_mut().for_each(allow_document_files);
        }
        Value::Array(values) => values.iter_mut().for_each(allow_document_files),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Closes objects against unknown properties: our own check rejects them, and editors have to know. It is set where a
/// value is described, not on schemas that are part of a composition.
fn close_objects(schema: &mut Value, definitions: &Map<String, Value>, is_whole: bool) {
    let has_members = lists_properties(schema, definitions);
    let Some(parts) = schema.as_object_mut() else { return };
    if is_whole && has_members && !parts.contains_key("additionalProperties") {
        parts.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
    for (name, part) in parts.iter_mut() {
        match (name.as_str(), part) {
            ("properties" | "$defs", Value::Object(members)) => {
                let is_whole = name == "properties";
                members
                    .values_mut()
                    .for_each(|member| close_objects(member, definitions, is_whole));
            }
            ("items" | "additionalProperties", part @ Value::Object(_)) => {
                close_objects(part, definitions, true);
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(choices)) => {
                choices.iter_mut().for_each(|choice| close_objects(choice, definitions, false));
            }
            _ => {}
        }
    }
}

/// Whether the schema lists properties, itself or through its references, and allows no others.
fn lists_properties(schema: &Value, definitions: &Map<String, Value>) -> bool {
    let named = schema.get("$ref").and_then(Value::as_str);
    let named = named.and_then(|name| definitions.get(name.strip_prefix("#/$defs/")?));
    let parts = ["allOf", "anyOf", "oneOf"].into_iter();
    let mut parts = parts.filter_map(|name| schema.get(name)?.as_array()).flatten();
    let is_open = schema.get("additionalProperties").is_some_and(|others| *others != json!(false));
    !is_open
        && (schema.get("properties").is_some()
            || named.is_some_and(|named| lists_properties(named, definitions))
            || parts.any(|part| lists_properties(part, definitions)))
}
