//! Turns the http manifest of a source, served at `GET {url}/tools`, into an inventory (requirements H1, H2).
//!
//! The document is untrusted. An unusable entry is omitted with a warning that names it. No text of an entry becomes
//! template code or leads outside the source's own url. A field with the value `null` counts as absent, because many
//! servers write "none" that way.

pub(crate) mod manifest_request;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use model::{
    DiscoveryWarning, Execution, Inventory, Manifest, RawJson, Schema, SourceId, StatusPolling,
    ToolId,
};
use serde_json::{Map, Value, json};
use url::Url;

use crate::{DiscoveredInventory, DiscoveryError, polling_settings};

const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];
/// The fields that we read; all others are passed on in `extra`.
const KNOWN_FIELDS: [&str; 8] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "endpoint",
    "method",
    "polling",
];
/// The maximum length of the document's own text in a warning, in characters.
const EXCERPT_CHARS: usize = 80;

/// A problem of an entry, or an assumption made about it.
struct ManifestFinding {
    code: &'static str,
    /// The field concerned, as the end of a JSON pointer; empty for the whole entry.
    member: &'static str,
    message: String,
}

impl ManifestFinding {
    fn new(code: &'static str, member: &'static str, message: impl Into<String>) -> Self {
        Self { code, member, message: message.into() }
    }

    fn into_warning(self, at: &str, message: String) -> DiscoveryWarning {
        let at = format!("{at}{}", self.member);
        DiscoveryWarning { code: self.code.into(), at: at.into(), message: message.into() }
    }
}

/// The tools that a document describes, called relative to a base URL. The key of a tool is its name; of several usable
/// entries with one name the first wins.
pub fn discover_http_manifest(
    source: SourceId,
    base: Option<&Url>,
    document: &Value,
) -> Result<DiscoveredInventory, DiscoveryError> {
    let (list_at, entries) = find_entries(document)?;
    let mut manifests = BTreeMap::new();
    let mut warnings = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("{list_at}/{index}");
        let tool = match entry.get("name").and_then(Value::as_str) {
            Some(name) => format!("the tool `{}`", short_excerpt(name)),
            None => format!("the tool at `{at}`"),
        };
        match add_entry(&source, base, entry, &mut manifests) {
            Ok(assumed) => warnings.extend(assumed.into_iter().map(|finding| {
                let message = format!("{tool} {}", finding.message);
                finding.into_warning(&at, message)
            })),
            Err(finding) => {
                let message = format!("{tool} is left out: {}", finding.message);
                warnings.push(finding.into_warning(&at, message));
            }
        }
    }
    let inventory = Inventory::new(source, manifests);
    let inventory = inventory.expect("each key was tried as an id, and a map holds it once");
    Ok(DiscoveredInventory {
        inventory: Inventory { warnings, ..inventory },
        operations: entries.len(),
    })
}

/// The list of tools, with its JSON pointer.
fn find_entries(document: &Value) -> Result<(&'static str, &[Value]), DiscoveryError> {
    let found = match document {
        Value::Array(entries) => return Ok(("", entries)),
        Value::Object(object) => match object.get("tools") {
            Some(Value::Array(entries)) => return Ok(("/tools", entries)),
            Some(_) => "an object whose `tools` is no list",
            None => "an object without `tools`",
        },
        Value::String(_) => "a text",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Null => "null",
    };
    Err(DiscoveryError::NotAnHttpManifest { found })
}

/// Adds the manifest of an entry and returns the assumptions made for it.
fn add_entry(
    source: &SourceId,
    base: Option<&Url>,
    entry: &Value,
    manifests: &mut BTreeMap<String, Manifest>,
) -> Result<Vec<ManifestFinding>, ManifestFinding> {
    let Some(entry) = entry.as_object() else {
        return Err(ManifestFinding::new("invalid_entry", "", "it is not an object"));
    };
    let name = entry_name(source, entry)?;
    let Entry::Vacant(place) = manifests.entry(name.to_owned()) else {
        return Err(ManifestFinding::new("duplicate_name", "/name", "another tool has this name"));
    };
    let method = entry_method(entry)?;
    let (path, assumed) = match entry_text(entry, "endpoint", "/endpoint")? {
        Some(endpoint) => (endpoint_path(&relative_to_base(base, endpoint)?)?, None),
        None => {
            let path = endpoint_path(&assumed_endpoint(name))?;
            let message = format!("has no endpoint: `{method} {path}` is assumed");
            (path, Some(ManifestFinding::new("endpoint_assumed", "", message)))
        }
    };
    let input_schema = match entry_schema(entry, "inputSchema", "/inputSchema")? {
        Some(schema) => require_object_schema(schema)?,
        None => Schema::new(json!({"type": "object"})).expect("this is an object"),
    };
    let mut assumed = Vec::from_iter(assumed);
    let request =
        manifest_request::build_manifest_request(base, method, &path, &input_schema.to_value());
    let execution = match entry_polling(base, entry, &mut assumed) {
        Some(polling) => Execution::AsyncPoll { request, polling },
        None => Execution::SyncHttp(request),
    };
    place.insert(Manifest {
        name: name.into(),
        title: entry_text(entry, "title", "/title")?.map(Into::into),
        description: entry_text(entry, "description", "/description")?.unwrap_or_default().into(),
        method: method.into(),
        input_schema,
        output_schema: entry_schema(entry, "outputSchema", "/outputSchema")?,
        execution,
        path: path.into(),
        tags: Vec::new(),
        deprecated: false,
        security: None,
        extra: extra_fields(entry),
    });
    Ok(assumed)
}

/// How to poll a job that continues after the first response.
fn entry_polling(
    base: Option<&Url>,
    entry: &Map<String, Value>,
    findings: &mut Vec<ManifestFinding>,
) -> Option<StatusPolling> {
    let said = present_field(entry, "polling")?;
    let base = base.map(manifest_request::url_prefix).unwrap_or_default();
    let (polling, warning) =
        polling_settings::split_warning(polling_settings::read_polling(&base, said));
    findings.extend(warning.map(|(code, what)| ManifestFinding::new(code, "/polling", what)));
    polling
}

fn entry_name<'a>(
    source: &SourceId,
    entry: &'a Map<String, Value>,
) -> Result<&'a str, ManifestFinding> {
    let Some(name) = entry_text(entry, "name", "/name")? else {
        return Err(ManifestFinding::new("missing_name", "", "it has no name"));
    };
    match ToolId::new(source, name) {
        Ok(_) => Ok(name),
        Err(error) => Err(ManifestFinding::new("invalid_name", "/name", error.rule)),
    }
}

fn entry_method(entry: &Map<String, Value>) -> Result<&'static str, ManifestFinding> {
    let written = entry_text(entry, "method", "/method")?.unwrap_or("POST");
    let known = METHODS.into_iter().find(|method| method.eq_ignore_ascii_case(written));
    known.ok_or_else(|| {
        let message =
            format!("its method `{}` is none of {}", short_excerpt(written), METHODS.join(", "));
        ManifestFinding::new("invalid_method", "/method", message)
    })
}

/// The convention for an entry without an endpoint: `get_weather_forecast` is at `/weather-forecast`.
fn assumed_endpoint(name: &str) -> String {
    name.strip_prefix("get_").unwrap_or(name).replace('_', "-")
}

/// Makes an absolute URL relative to the source's url; returns any other endpoint unchanged.
fn relative_to_base(base: Option<&Url>, endpoint: &str) -> Result<String, ManifestFinding> {
    let is_whole = |scheme: &str| {
        let start = endpoint.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if !is_whole("http://") && !is_whole("https://") {
        return Ok(endpoint.to_owned());
    }
    let elsewhere = || {
        let message =
            format!("its endpoint `{}` is not below the source's url", short_excerpt(endpoint));
        ManifestFinding::new("foreign_endpoint", "/endpoint", message)
    };
    // Compare normalized URLs: one host has many spellings.
    let url = Url::parse(endpoint).map_err(|_| elsewhere())?;
    let beginning = base.map(manifest_request::url_prefix).ok_or_else(elsewhere)?;
    let rest = url.as_str().strip_prefix(&beginning).filter(|rest| rest.starts_with('/'));
    rest.map(str::to_owned).ok_or_else(elsewhere)
}

/// An endpoint as a path that is safe to append to the source's url and to write into a template.
fn endpoint_path(endpoint: &str) -> Result<String, ManifestFinding> {
    let refused = |code, rule: &str| {
        let message = format!("its endpoint `{}` {rule}", short_excerpt(endpoint));
        ManifestFinding::new(code, "/endpoint", message)
    };
    if endpoint.contains(['{', '}', '%']) {
        let rule = "has one of the template characters `{`, `}` and `%`";
        return Err(refused("template_in_endpoint", rule));
    }
    let (path, _query) = endpoint.split_once('?').unwrap_or((endpoint, ""));
    if path.is_empty() || path.contains("://") || path.starts_with("//") {
        return Err(refused("invalid_endpoint", "is not a path below the source's url"));
    }
    // A URL parser treats `\` as `/` and drops tabs and line ends; either could hide a `..` segment.
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\' || c == '#';
    if endpoint.contains(odd) || path.split('/').any(|segment| matches!(segment, "." | "..")) {
        let rule = r"has a space, `\`, `#` or a segment `.` or `..`";
        return Err(refused("invalid_endpoint", rule));
    }
    Ok(if endpoint.starts_with('/') { endpoint.to_owned() } else { format!("/{endpoint}") })
}

/// Rejects a schema that accepts no object: arguments are objects, so every call would fail.
fn require_object_schema(schema: Schema) -> Result<Schema, ManifestFinding> {
    let takes_objects = match schema.to_value().get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
    };
    if takes_objects {
        return Ok(schema);
    }
    Err(ManifestFinding::new(
        "invalid_schema",
        "/inputSchema",
        "its `inputSchema` is not for an object",
    ))
}

fn entry_schema(
    entry: &Map<String, Value>,
    member: &str,
    at: &'static str,
) -> Result<Option<Schema>, ManifestFinding> {
    let Some(value) = present_field(entry, member) else { return Ok(None) };
    match Schema::new(value.clone()) {
        Ok(schema) => Ok(Some(schema)),
        Err(_) => Err(ManifestFinding::new(
            "invalid_schema",
            at,
            format!("its `{member}` is not an object"),
        )),
    }
}

fn entry_text<'a>(
    entry: &'a Map<String, Value>,
    member: &str,
    at: &'static str,
) -> Result<Option<&'a str>, ManifestFinding> {
    match present_field(entry, member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => {
            Err(ManifestFinding::new("invalid_member", at, format!("its `{member}` is no text")))
        }
    }
}

fn present_field<'a>(entry: &'a Map<String, Value>, member: &str) -> Option<&'a Value> {
    entry.get(member).filter(|value| !value.is_null())
}

fn extra_fields(entry: &Map<String, Value>) -> BTreeMap<Box<str>, RawJson> {
    let others = entry.iter().filter(|(member, _)| !KNOWN_FIELDS.contains(&member.as_str()));
    others.map(|(member, value)| (member.as_str().into(), value.into())).collect()
}

/// An excerpt of the document's own text: short, with invisible characters escaped.
fn short_excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
