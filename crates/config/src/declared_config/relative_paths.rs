//! Resolves relative paths: they refer to the folder of the configuration file and become absolute. Workflow documents
//! in separate files are read.

use std::path::{Path, PathBuf};

use json::document_text::{field_path, item_path};
use serde_json::Value;

use super::config_problem::{ConfigProblem, ConfigProblems};
use crate::config_error::read_limited_file;
use crate::file_stamp::FileStamps;

/// Size limit of a workflow document.
const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// JSON pointers in a source to secret references.
const SECRET_POINTERS: [&str; 4] =
    ["/auth", "/client_certificate", "/settings/credentials", "/settings/command/environment"];
/// JSON pointers in a source to paths.
const PATH_POINTERS: [&str; 2] = ["/settings/specification/file", "/settings/command/directory"];

/// Pointers below each element of a list of a custom source: the list, and the pointer within the element.
const LISTED_SECRET_POINTERS: [(&str, &str); 1] = [("/settings/tools", "/command/environment")];
const LISTED_PATH_POINTERS: [(&str, &str); 3] = [
    ("/settings/tools", "/command/directory"),
    ("/settings/resources", "/file"),
    ("/settings/resource_templates", "/file"),
];

/// Makes the relative paths of [`PATH_POINTERS`] and the like absolute, and records the stamps of the files that are read.
pub(super) fn resolve_paths(
    value: &mut Value,
    file: &Path,
    files: &mut FileStamps,
    mistakes: &mut ConfigProblems,
) {
    let Some(folder) = std::path::absolute(file).ok().and_then(|path| Some(path.parent()?.into()))
    else {
        return;
    };
    let folder: PathBuf = folder;
    for (number, source) in section_elements(value, "sources") {
        for pointer in SECRET_POINTERS {
            source
                .pointer_mut(pointer)
                .into_iter()
                .for_each(|value| make_secrets_absolute(value, &folder));
        }
        for pointer in PATH_POINTERS {
            source
                .pointer_mut(pointer)
                .into_iter()
                .for_each(|value| make_path_absolute(value, &folder));
        }
        for_each_listed(source, &LISTED_SECRET_POINTERS, |value| {
            make_secrets_absolute(value, &folder)
        });
        for_each_listed(source, &LISTED_PATH_POINTERS, |value| make_path_absolute(value, &folder));
        let field = field_path(&item_path("sources", number), "settings.documents");
        let documents = source.pointer_mut("/settings/documents").and_then(Value::as_array_mut);
        for (number, document) in documents.into_iter().flatten().enumerate() {
            let Some(name) = document.get("file").and_then(Value::as_str) else { continue };
            let place = absolute_path(name, &folder);
            files.record_file(&place);
            match read_text(&place) {
                Ok(text) => *document = Value::from(text),
                Err(message) => {
                    mistakes.push(ConfigProblem::new(item_path(&field, number), message))
                }
            }
        }
    }
    for (_, issuer) in section_elements(value, "issuers") {
        for pointer in ["/keys/jwks_file", "/keys/pem_file"] {
            issuer
                .pointer_mut(pointer)
                .into_iter()
                .for_each(|value| make_path_absolute(value, &folder));
        }
        issuer
            .pointer_mut("/keys/secret")
            .into_iter()
            .for_each(|value| make_secrets_absolute(value, &folder));
    }
    if let Some(embeddings) = value.pointer_mut("/search/embeddings") {
        for name in ["file", "folder"] {
            embeddings
                .get_mut(name)
                .into_iter()
                .for_each(|value| make_path_absolute(value, &folder));
        }
        embeddings
            .get_mut("key")
            .into_iter()
            .for_each(|value| make_secrets_absolute(value, &folder));
    }
}

fn for_each_listed(
    source: &mut Value,
    places: &[(&str, &str)],
    mut settle: impl FnMut(&mut Value),
) {
    for (list, pointer) in places {
        let elements = source.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        elements.filter_map(|element| element.pointer_mut(pointer)).for_each(&mut settle);
    }
}

fn section_elements<'a>(
    value: &'a mut Value,
    section: &str,
) -> impl Iterator<Item = (usize, &'a mut Value)> {
    let elements = value.get_mut(section).and_then(Value::as_array_mut);
    elements.into_iter().flatten().enumerate()
}

fn absolute_path(name: &str, folder: &Path) -> PathBuf {
    folder.join(name).components().collect()
}

fn make_path_absolute(value: &mut Value, folder: &Path) {
    if let Some(name) = value.as_str() {
        *value = Value::from(absolute_path(name, folder).to_string_lossy());
    }
}

/// Makes every `file:PATH` inside the value absolute.
fn make_secrets_absolute(value: &mut Value, folder: &Path) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("file:").filter(|name| !name.is_empty()) {
                *text = format!("file:{}", absolute_path(name, folder).to_string_lossy());
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| make_secrets_absolute(value, folder))
        }
        Value::Object(members) => {
            members.values_mut().for_each(|value| make_secrets_absolute(value, folder))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let bytes =
        read_limited_file(path, MAX_DOCUMENT_BYTES).map_err(|failure| failure.full_message())?;
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8 text", path.display()))
}
