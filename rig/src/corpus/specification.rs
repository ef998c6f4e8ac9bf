//! Lists the specifications of a folder with their expected contents.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

/// A specification, and the findings of an independent reader.
pub(crate) struct KnownSpecification {
    pub id: String,
    pub file: PathBuf,
    pub expected: Option<ExpectedSpecification>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedSpecification {
    pub n_ops: usize,
    pub ops: Vec<ExpectedOperation>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedOperation {
    pub method: String,
    pub path: String,
    pub parameters: Vec<ExpectedParameter>,
    pub body: Option<ExpectedBody>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedParameter {
    pub name: String,
    #[serde(rename = "in")]
    pub location: String,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedBody {
    #[serde(default)]
    pub takes_input: bool,
}

#[derive(Deserialize)]
struct CorpusEntry {
    id: String,
    file: PathBuf,
}

/// The specifications that `corpus.json` lists; without that file, every JSON and YAML file directly in the folder.
pub(super) fn list_specifications(folder: &Path) -> anyhow::Result<Vec<KnownSpecification>> {
    let listed: Vec<CorpusEntry> = match std::fs::read(folder.join("corpus.json")) {
        Ok(text) => serde_json::from_slice(&text).context("corpus.json")?,
        Err(_) => list_files(folder)?,
    };
    let known = |listed: CorpusEntry| {
        let expected =
            std::fs::read(folder.join("expected").join(format!("{}.json", listed.id))).ok();
        let expected = expected.map(|text| serde_json::from_slice(&text)).transpose();
        let expected = expected.with_context(|| format!("expected/{}.json", listed.id))?;
        Ok(KnownSpecification { file: folder.join(&listed.file), id: listed.id, expected })
    };
    listed.into_iter().map(known).collect()
}

fn list_files(folder: &Path) -> anyhow::Result<Vec<CorpusEntry>> {
    let mut listed = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = entry?.path();
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if file.is_file() && matches!(ending, "json" | "yaml" | "yml") {
            let id = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            listed.push(CorpusEntry { id, file: file.file_name().unwrap_or_default().into() });
        }
    }
    listed.sort_by(|one, two| one.id.cmp(&two.id));
    Ok(listed)
}

/// The document with its operations in reverse order.
pub(super) fn reverse_paths(mut document: Value) -> Value {
    if let Some(Value::Object(paths)) = document.get_mut("paths") {
        let turned: Vec<_> = std::mem::take(paths).into_iter().rev().collect();
        *paths = turned.into_iter().collect();
    }
    document
}
