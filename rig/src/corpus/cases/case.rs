//! A request case as its file defines it; writes its specification to disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use model::Discovered;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Stands for the address of the upstream; no request is sent there.
pub(super) const ORIGIN: &str = "http://echo.test";
const HOST: &str = "echo.test";

#[derive(Deserialize)]
pub(super) struct Case {
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
    pub call: Call,
    pub expect: Value,
    #[serde(default)]
    pub schema: Samples,
    #[serde(default)]
    pub load: Load,
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
pub(super) struct Call {
    /// The arguments by location: `path`, `query`, `header`, `cookie` and `body`.
    pub located: Map<String, Value>,
    #[serde(default)]
    pub credentials: BTreeMap<String, Value>,
}

/// Arguments that the input schema must accept, and others that it must reject.
#[derive(Default, Deserialize)]
pub(super) struct Samples {
    pub accepts: Vec<Value>,
    pub rejects: Vec<Value>,
}

#[derive(Default, Deserialize)]
pub(super) struct Load {
    must: Option<String>,
    error_mentions: Option<String>,
    pub max_seconds: Option<u64>,
}

impl Load {
    /// True if the specification may be refused with this error.
    pub(super) fn allows(&self, error: &str) -> bool {
        let mentioned = self.error_mentions.as_ref();
        self.must.as_deref() == Some("ok_or_error")
            && mentioned.is_none_or(|pattern| {
                matches(pattern, error) || matches(pattern, &error.to_lowercase())
            })
    }
}

impl Case {
    /// True if the case calls this tool.
    pub(super) fn is_about(&self, tool: &Discovered) -> bool {
        let manifest = &tool.manifest;
        let (method, path) = self.operation.split_once(' ').unwrap_or_default();
        manifest.method.eq_ignore_ascii_case(method) && &*manifest.path == path
    }

    /// Writes the specification and the files that it refers to.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
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
            std::fs::write(path, addressed(text))?;
        }
        let file = folder.join("specification");
        std::fs::write(&file, format!("{mark}{}", addressed(&text)))?;
        Ok(file)
    }
}

fn addressed(text: &str) -> String {
    text.replace("{{ECHO}}", ORIGIN).replace("{{ECHO_HOST}}", HOST)
}

/// The cases of a folder, sorted by name.
pub(super) fn list(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
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
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    jsonschema::is_valid(&json!({"pattern": pattern}), &json!(text))
}
