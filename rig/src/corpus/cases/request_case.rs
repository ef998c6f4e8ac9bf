//! A request case as its file defines it; writes its specification to disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use model::DiscoveredTool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Stands for the address of the upstream; no request is sent there.
pub(super) const ORIGIN: &str = "http://echo.test";
const HOST: &str = "echo.test";

#[derive(Deserialize)]
pub(super) struct RequestCase {
    pub id: String,
    spec: Option<Value>,
    spec_text: Option<String>,
    #[serde(default)]
    spec_files: BTreeMap<PathBuf, String>,
    spec_encoding: Option<String>,
    /// Method and path, such as `get /path`.
    operation: String,
    pub tool: ExpectedTool,
    pub tools_expected: Option<usize>,
    pub call: CaseCall,
    pub expect: Value,
    #[serde(default)]
    pub schema: SchemaSamples,
    #[serde(default)]
    pub load: LoadExpectation,
}

#[derive(Deserialize)]
pub(super) struct ExpectedTool {
    pub name: Option<String>,
    pub name_pattern: Option<String>,
    #[serde(default)]
    pub unique: bool,
    pub properties: Option<Vec<String>>,
    pub required: Option<Vec<String>>,
}

#[derive(Deserialize)]
pub(super) struct CaseCall {
    /// The arguments by location: `path`, `query`, `header`, `cookie` and `body`.
    pub located: Map<String, Value>,
    #[serde(default)]
    pub credentials: BTreeMap<String, Value>,
}

/// Arguments that the input schema must accept, and others that it must reject.
#[derive(Default, Deserialize)]
pub(super) struct SchemaSamples {
    pub accepts: Vec<Value>,
    pub rejects: Vec<Value>,
}

#[derive(Default, Deserialize)]
pub(super) struct LoadExpectation {
    must: Option<String>,
    error_mentions: Option<String>,
    pub max_seconds: Option<u64>,
}

impl LoadExpectation {
    /// True if the specification may be refused with this error.
    pub(super) fn allows_error(&self, error: &str) -> bool {
        let mentioned = self.error_mentions.as_ref();
        self.must.as_deref() == Some("ok_or_error")
            && mentioned.is_none_or(|pattern| {
                matches_ecma_regex(pattern, error)
                    || matches_ecma_regex(pattern, &error.to_lowercase())
            })
    }
}

impl RequestCase {
    /// True if the case calls this tool.
    pub(super) fn calls_tool(&self, tool: &DiscoveredTool) -> bool {
        let manifest = &tool.manifest;
        let (method, path) = self.operation.split_once(' ').unwrap_or_default();
        manifest.method.eq_ignore_ascii_case(method) && &*manifest.path == path
    }

    /// Writes the specification and the files that it refers to.
    pub(super) fn write_specification(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let text = match (&self.spec_text, &self.spec) {
            (Some(text), _) => text.clone(),
            (None, spec) => spec.as_ref().context("the case has no specification")?.to_string(),
        };
        let mark = match self.spec_encoding.as_deref() {
            Some("utf-8-sig") => "\u{feff}",
            _ => "",
        };
        for (path, text) in &self.spec_files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(path, fill_in_origin(text))?;
        }
        let file = folder.join("specification");
        std::fs::write(&file, format!("{mark}{}", fill_in_origin(&text)))?;
        Ok(file)
    }
}

fn fill_in_origin(text: &str) -> String {
    text.replace("{{ECHO}}", ORIGIN).replace("{{ECHO_HOST}}", HOST)
}

/// The cases of a folder, sorted by name.
pub(super) fn list_cases(folder: &Path) -> anyhow::Result<Vec<RequestCase>> {
    let mut cases: Vec<RequestCase> = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "json") {
            let text = std::fs::read(&file)?;
            let case = serde_json::from_slice(&text);
            cases.push(case.with_context(|| file.display().to_string())?);
        }
    }
    cases.sort_by(|one, two| one.id.cmp(&two.id));
    Ok(cases)
}

/// True if a string matches an ECMA-262 regular expression.
pub(super) fn matches_ecma_regex(pattern: &str, text: &str) -> bool {
    jsonschema::is_valid(&json!({"pattern": pattern}), &json!(text))
}
