//! Turns the http manifest of a source, served at `GET {url}/tools`, into an inventory (requirements H1, H2).
//!
//! The document is untrusted. An unusable entry is omitted with a warning that names it. No text of an entry becomes
//! template code or leads outside the source's own url. A field with the value `null` counts as absent, because many
//! servers write "none" that way.

pub(crate) mod request;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use model::{Execution, Inventory, Manifest, Polling, RawJson, Schema, SourceId, ToolId, Warning};
use serde_json::{Map, Value, json};
use url::Url;

use crate::{DiscoveryError, Found, polling};

const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];
/// The fields that we read; all others are passed on in `extra`.
const KNOWN: [&str; 8] = [
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
const SHOWN: usize = 80;

/// A problem of an entry, or an assumption made about it.
struct Finding {
    code: &'static str,
    /// The field concerned, as the end of a JSON pointer; empty for the whole entry.
    member: &'static str,
    message: String,
}

impl Finding {
    fn new(code: &'static str, member: &'static str, message: impl Into<String>) -> Self {
        Self { code, member, message: message.into() }
    }

    fn warning(self, at: &str, message: String) -> Warning {
        let at = format!("{at}{}", self.member);
        Warning { code: self.code.into(), at: at.into(), message: message.into() }
    }
}

/// The tools that a document describes, called relative to a base URL. The key of a tool is its name; of several usable
/// entries with one name the first wins.
pub fn discover(
    source: SourceId,
    base: Option<&Url>,
    document: &Value,
) -> Result<Found, DiscoveryError> {
    let (list_at, entries) = entries(document)?;
    let mut manifests = BTreeMap::new();
    let mut warnings = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let at = format!("{list_at}/{index}");
        let tool = match entry.get("name").and_then(Value::as_str) {
            Some(name) => format!("the tool `{}`", shown(name)),
            None => format!("the tool at `{at}`"),
        };
        match add(&source, base, entry, &mut manifests) {
            Ok(assumed) => warnings.extend(assumed.into_iter().map(|finding| {
                let message = format!("{tool} {}", finding.message);
                finding.warning(&at, message)
            })),
            Err(finding) => {
                let message = format!("{tool} is left out: {}", finding.message);
                warnings.push(finding.warning(&at, message));
            }
        }
    }
    let inventory = Inventory::new(source, manifests);
    let inventory = inventory.expect("each key was tried as an id, and a map holds it once");
    Ok(Found { inventory: Inventory { warnings, ..inventory }, operations: entries.len() })
}

/// The list of tools, with its JSON pointer.
fn entries(document: &Value) -> Result<(&'static str, &[Value]), DiscoveryError> {
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
fn add(
    source: &SourceId,
    base: Option<&Url>,
    entry: &Value,
    manifests: &mut BTreeMap<String, Manifest>,
) -> Result<Vec<Finding>, Finding> {
    let Some(entry) = entry.as_object() else {
        return Err(Finding::new("invalid_entry", "", "it is not an object"));
    };
    let name = name(source, entry)?;
    let Entry::Vacant(place) = manifests.entry(name.to_owned()) else {
        return Err(Finding::new("duplicate_name", "/name", "another tool has this name"));
    };
    let method = method(entry)?;
    let (path, assumed) = match text(entry, "endpoint", "/endpoint")? {
        Some(endpoint) => (path(&below(base, endpoint)?)?, None),
        None => {
            let path = path(&assumed_endpoint(name))?;
            let message = format!("has no endpoint: `{method} {path}` is assumed");
            (path, Some(Finding::new("endpoint_assumed", "", message)))
        }
    };
    let input_schema = match schema(entry, "inputSchema", "/inputSchema")? {
        Some(schema) => of_arguments(schema)?,
        None => Schema::new(json!({"type": "object"})).expect("this is an object"),
    };
    let mut assumed = Vec::from_iter(assumed);
    let request = request::request(base, method, &path, &input_schema.to_value());
    let execution = match polling(base, entry, &mut assumed) {
        Some(polling) => Execution::AsyncPoll { request, polling },
        None => Execution::SyncHttp(request),
    };
    place.insert(Manifest {
        name: name.into(),
        title: text(entry, "title", "/title")?.map(Into::into),
        description: text(entry, "description", "/description")?.unwrap_or_default().into(),
        method: method.into(),
        input_schema,
        output_schema: schema(entry, "outputSchema", "/outputSchema")?,
        execution,
        path: path.into(),
        tags: Vec::new(),
        deprecated: false,
        security: None,
        extra: extra(entry),
    });
    Ok(assumed)
}

/// How to poll a job that continues after the first response.
fn polling(
    base: Option<&Url>,
    entry: &Map<String, Value>,
    findings: &mut Vec<Finding>,
) -> Option<Polling> {
    let said = present(entry, "polling")?;
    let base = base.map(request::beginning).unwrap_or_default();
    let (polling, warning) = polling::or_warning(polling::read(&base, said));
    findings.extend(warning.map(|(code, what)| Finding::new(code, "/polling", what)));
    polling
}

fn name<'a>(source: &SourceId, entry: &'a Map<String, Value>) -> Result<&'a str, Finding> {
    let Some(name) = text(entry, "name", "/name")? else {
        return Err(Finding::new("missing_name", "", "it has no name"));
    };
    match ToolId::new(source, name) {
        Ok(_) => Ok(name),
        Err(error) => Err(Finding::new("invalid_name", "/name", error.rule)),
    }
}

fn method(entry: &Map<String, Value>) -> Result<&'static str, Finding> {
    let written = text(entry, "method", "/method")?.unwrap_or("POST");
    let known = METHODS.into_iter().find(|method| method.eq_ignore_ascii_case(written));
    known.ok_or_else(|| {
        let message = format!("its method `{}` is none of {}", shown(written), METHODS.join(", "));
        Finding::new("invalid_method", "/method", message)
    })
}

/// The convention for an entry without an endpoint: `get_weather_forecast` is at `/weather-forecast`.
fn assumed_endpoint(name: &str) -> String {
    name.strip_prefix("get_").unwrap_or(name).replace('_', "-")
}

/// Makes an absolute URL relative to the source's url; returns any other endpoint unchanged.
fn below(base: Option<&Url>, endpoint: &str) -> Result<String, Finding> {
    let is_whole = |scheme: &str| {
        let start = endpoint.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if !is_whole("http://") && !is_whole("https://") {
        return Ok(endpoint.to_owned());
    }
    let elsewhere = || {
        let message = format!("its endpoint `{}` is not below the source's url", shown(endpoint));
        Finding::new("foreign_endpoint", "/endpoint", message)
    };
    // Compare normalized URLs: one host has many spellings.
    let url = Url::parse(endpoint).map_err(|_| elsewhere())?;
    let beginning = base.map(request::beginning).ok_or_else(elsewhere)?;
    let rest = url.as_str().strip_prefix(&beginning).filter(|rest| rest.starts_with('/'));
    rest.map(str::to_owned).ok_or_else(elsewhere)
}

/// An endpoint as a path that is safe to append to the source's url and to write into a template.
fn path(endpoint: &str) -> Result<String, Finding> {
    let refused = |code, rule: &str| {
        let message = format!("its endpoint `{}` {rule}", shown(endpoint));
        Finding::new(code, "/endpoint", message)
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
fn of_arguments(schema: Schema) -> Result<Schema, Finding> {
    let takes_objects = match schema.to_value().get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
    };
    if takes_objects {
        return Ok(schema);
    }
    Err(Finding::new("invalid_schema", "/inputSchema", "its `inputSchema` is not for an object"))
}

fn schema(
    entry: &Map<String, Value>,
    member: &str,
    at: &'static str,
) -> Result<Option<Schema>, Finding> {
    let Some(value) = present(entry, member) else { return Ok(None) };
    match Schema::new(value.clone()) {
        Ok(schema) => Ok(Some(schema)),
        Err(_) => {
            Err(Finding::new("invalid_schema", at, format!("its `{member}` is not an object")))
        }
    }
}

fn text<'a>(
    entry: &'a Map<String, Value>,
    member: &str,
    at: &'static str,
) -> Result<Option<&'a str>, Finding> {
    match present(entry, member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Finding::new("invalid_member", at, format!("its `{member}` is no text"))),
    }
}

fn present<'a>(entry: &'a Map<String, Value>, member: &str) -> Option<&'a Value> {
    entry.get(member).filter(|value| !value.is_null())
}

fn extra(entry: &Map<String, Value>) -> BTreeMap<Box<str>, RawJson> {
    let others = entry.iter().filter(|(member, _)| !KNOWN.contains(&member.as_str()));
    others.map(|(member, value)| (member.as_str().into(), value.into())).collect()
}

/// An excerpt of the document's own text: short, with invisible characters escaped.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
