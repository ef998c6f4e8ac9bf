//! Names of definitions in a tool's `$defs`.
//!
//! Names are short because every reference repeats them: `io.k8s.api.core.v1.Pod` becomes `Pod` if that is unique. All
//! names are assigned before the first tool is converted, so that they do not depend on the order of tools.

use std::collections::{BTreeMap, HashMap, HashSet};

use json::document_text::{DocumentNode, DocumentObject};
use model::Digest;

use super::super::specification_documents::{SpecificationDocuments, join_address};

/// JSON pointers to the definitions of a specification.
const DEFINITION_POINTERS: [&str; 2] = ["/components/schemas", "/definitions"];
const MAX_DEFINITION_NAME: usize = 64;

/// The names of all definitions of a specification.
#[derive(Debug, Default)]
pub(in super::super) struct DefinitionNames {
    /// By the key of a definition in the specification itself.
    root_names: HashMap<String, String>,
    /// Names that are not unique among definitions outside of `DEFINITION_POINTERS`.
    ambiguous: HashSet<String>,
}

impl DefinitionNames {
    /// `references` are the references to other documents, each with the index of the document that contains it.
    pub(in super::super) fn new(
        documents: &SpecificationDocuments<'_>,
        references: impl IntoIterator<Item = (usize, String)>,
    ) -> Self {
        let root = documents.root_value().value;
        let shelves =
            DEFINITION_POINTERS.iter().filter_map(|shelf| root.pointer(shelf)?.as_object());
        let keys: Vec<&str> = shelves.flat_map(DocumentObject::iter).map(|(key, _)| key).collect();
        let mut short: BTreeMap<String, usize> = BTreeMap::new();
        for key in &keys {
            *short.entry(last_name_part(key)).or_default() += 1;
        }
        let mut own = HashMap::new();
        for key in keys {
            let (short_name, whole) = (last_name_part(key), to_legal_definition_name(key));
            // A short name must not be the full name of another definition.
            let clear = short[&short_name] == 1
                && (short_name == whole || !is_root_definition(root, &short_name));
            own.insert(key.to_owned(), if clear { short_name } else { whole });
        }
        resolve_name_clashes(&mut own);
        let mut seen: HashMap<String, (String, String)> = HashMap::new();
        let mut ambiguous: HashSet<String> = own.values().cloned().collect();
        for (document, reference) in references {
            let target = reference_target(documents, document, &reference);
            let base = base_name(&target);
            let other = seen.entry(base.clone()).or_insert_with(|| target.clone());
            if *other != target {
                ambiguous.insert(base);
            }
        }
        Self { root_names: own, ambiguous }
    }

    /// The name of the definition that a reference leads to. `document` is the one that contains the reference or its
    /// target.
    pub(super) fn definition_name(
        &self,
        documents: &SpecificationDocuments<'_>,
        document: usize,
        reference: &str,
    ) -> String {
        let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        let pointer = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
        if document == 0 {
            let on_shelf = |shelf: &&str| pointer.strip_prefix(*shelf)?.strip_prefix('/');
            if let Some(key) = DEFINITION_POINTERS.iter().find_map(on_shelf) {
                let key = key.replace("~1", "/").replace("~0", "~");
                if let Some(name) = self.root_names.get(&key) {
                    return name.clone();
                }
            }
        }
        let target = (documents.document_address(document).to_owned(), pointer.into_owned());
        let base = base_name(&target);
        match document == 0 || self.ambiguous.contains(&base) {
            true => append_hash(&base, &format!("{}#{}", target.0, target.1)),
            false => base,
        }
    }
}

fn is_root_definition(root: &DocumentNode<'_>, key: &str) -> bool {
    DEFINITION_POINTERS
        .iter()
        .any(|shelf| root.pointer(shelf).is_some_and(|shelf| shelf.get(key).is_some()))
}

/// Adds a hash to names of keys that differ only in characters that names cannot contain.
fn resolve_name_clashes(own: &mut HashMap<String, String>) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in own.values() {
        *counts.entry(name.clone()).or_default() += 1;
    }
    for (key, name) in own.iter_mut() {
        if 1 < counts[name] {
            *name = append_hash(name, key);
        }
    }
}

/// The address and the JSON pointer that a reference leads to.
fn reference_target(
    documents: &SpecificationDocuments<'_>,
    document: usize,
    reference: &str,
) -> (String, String) {
    let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let address = match address {
        "" => Some(documents.document_address(document).to_owned()),
        relative => join_address(documents.document_address(document), relative),
    };
    let fragment = percent_encoding::percent_decode_str(fragment).decode_utf8_lossy();
    (address.unwrap_or_default(), fragment.into_owned())
}

/// The last segment of a pointer, or the file name without extension of a whole document.
fn base_name((address, pointer): &(String, String)) -> String {
    let last = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let word = match pointer.trim_matches('/') {
        "" => {
            let file = last(address);
            file.split('.').next().unwrap_or_default().to_owned()
        }
        pointer => last(pointer),
    };
    to_legal_definition_name(&word)
}

/// `Pod` of `io.k8s.api.core.v1.Pod`; the whole key if the last part is not a word.
fn last_name_part(key: &str) -> String {
    let last = key.rsplit(['.', ':', '/']).next().unwrap_or_default();
    match last.starts_with(|c: char| c.is_ascii_alphabetic()) && 2 < last.len() {
        true => to_legal_definition_name(last),
        false => to_legal_definition_name(key),
    }
}

/// A name of characters that need no escape in a JSON pointer or a URI.
fn to_legal_definition_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String =
        text.chars().map(|c| if fits(c) { c } else { '_' }).take(MAX_DEFINITION_NAME).collect();
    match name.contains(|c: char| c.is_ascii_alphanumeric())
        && text.chars().count() <= MAX_DEFINITION_NAME
    {
        true => name,
        false => append_hash(&name, text),
    }
}

fn append_hash(name: &str, whole: &str) -> String {
    let hash: String = Digest::of_bytes(whole).to_string().chars().take(12).collect();
    let name: String = name.chars().take(MAX_DEFINITION_NAME - 13).collect();
    format!("{name}_{hash}")
}
