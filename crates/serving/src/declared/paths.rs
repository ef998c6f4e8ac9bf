//! Resolves relative paths: they refer to the folder of the configuration file and become absolute. Workflow documents
//! in separate files are read.

use std::path::{Path, PathBuf};

use discovery::text::{element, member};
use serde_json::Value;

use super::mistake::{Mistake, Mistakes};
use crate::target;
use crate::trace::Files;

/// Size limit of a workflow document.
const DOCUMENT_LIMIT: u64 = 4 << 20;

/// JSON pointers in a source to secret references.
const SECRETS: [&str; 4] =
    ["/auth", "/client_certificate", "/settings/credentials", "/settings/command/environment"];
/// JSON pointers in a source to paths.
const PATHS: [&str; 2] = ["/settings/specification/file", "/settings/command/directory"];

/// Pointers below each element of a list of a custom source: the list, and the pointer within the element.
const SECRETS_WRITTEN: [(&str, &str); 1] = [("/settings/tools", "/command/environment")];
const PATHS_WRITTEN: [(&str, &str); 3] = [
    ("/settings/tools", "/command/directory"),
    ("/settings/resources", "/file"),
    ("/settings/resource_templates", "/file"),
];

/// Makes the relative paths of [`PATHS`] and the like absolute, and records the stamps of the files that are read.
pub(super) fn settle(value: &mut Value, file: &Path, files: &mut Files, mistakes: &mut Mistakes) {
    let Some(folder) = std::path::absolute(file).ok().and_then(|path| Some(path.parent()?.into()))
    else {
        return;
    };
    let folder: PathBuf = folder;
    for (number, source) in elements(value, "sources") {
        for pointer in SECRETS {
            source.pointer_mut(pointer).into_iter().for_each(|value| secrets(value, &folder));
        }
        for pointer in PATHS {
            source.pointer_mut(pointer).into_iter().for_each(|value| path(value, &folder));
        }
        each(source, &SECRETS_WRITTEN, |value| secrets(value, &folder));
        each(source, &PATHS_WRITTEN, |value| path(value, &folder));
        let field = member(&element("sources", number), "settings.documents");
        let documents = source.pointer_mut("/settings/documents").and_then(Value::as_array_mut);
        for (number, document) in documents.into_iter().flatten().enumerate() {
            let Some(name) = document.get("file").and_then(Value::as_str) else { continue };
            let place = absolute(name, &folder);
            files.note(&place);
            match text(&place) {
                Ok(text) => *document = Value::from(text),
                Err(message) => mistakes.push(Mistake::new(element(&field, number), message)),
            }
        }
    }
    for (_, issuer) in elements(value, "issuers") {
        for pointer in ["/keys/jwks_file", "/keys/pem_file"] {
            issuer.pointer_mut(pointer).into_iter().for_each(|value| path(value, &folder));
        }
        issuer.pointer_mut("/keys/secret").into_iter().for_each(|value| secrets(value, &folder));
    }
    if let Some(embeddings) = value.pointer_mut("/search/embeddings") {
        for name in ["file", "folder"] {
            embeddings.get_mut(name).into_iter().for_each(|value| path(value, &folder));
        }
        embeddings.get_mut("key").into_iter().for_each(|value| secrets(value, &folder));
    }
}

fn each(source: &mut Value, places: &[(&str, &str)], mut settle: impl FnMut(&mut Value)) {
    for (list, pointer) in places {
        let elements = source.pointer_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        elements.filter_map(|element| element.pointer_mut(pointer)).for_each(&mut settle);
    }
}

fn elements<'a>(
    value: &'a mut Value,
    section: &str,
) -> impl Iterator<Item = (usize, &'a mut Value)> {
    let elements = value.get_mut(section).and_then(Value::as_array_mut);
    elements.into_iter().flatten().enumerate()
}

fn absolute(name: &str, folder: &Path) -> PathBuf {
    folder.join(name).components().collect()
}

fn path(value: &mut Value, folder: &Path) {
    if let Some(name) = value.as_str() {
        *value = Value::from(absolute(name, folder).to_string_lossy());
    }
}

/// Makes every `file:PATH` inside the value absolute.
fn secrets(value: &mut Value, folder: &Path) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("file:").filter(|name| !name.is_empty()) {
                *text = format!("file:{}", absolute(name, folder).to_string_lossy());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| secrets(value, folder)),
        Value::Object(members) => members.values_mut().for_each(|value| secrets(value, folder)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn text(path: &Path) -> Result<String, String> {
    let bytes = target::from_file(path, DOCUMENT_LIMIT).map_err(|failure| failure.sentence())?;
    String::from_utf8(bytes).map_err(|_| format!("`{}` is not UTF-8 text", path.display()))
}
