//! The documents of one specification, and how to resolve a `$ref` within and between them.
//!
//! All documents are loaded before the first reference is resolved; nothing is fetched here. A reference is relative to
//! the document that contains it (RFC 3986). Its fragment is a JSON pointer (RFC 6901) in URI encoding.

use std::collections::HashMap;
use std::sync::OnceLock;

use json::document_text::{DocumentNode, DocumentObject};
use percent_encoding::percent_decode_str;

/// The maximum length of a chain of references. Longer ones are circular or an attack on the run time.
const CHAIN_LIMIT: usize = 64;

/// A value, and the document that contains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DocumentValue<'a> {
    /// Index of the document.
    pub document: usize,
    pub value: &'a DocumentNode<'a>,
}

impl<'a> DocumentValue<'a> {
    /// Another value of the same document.
    pub(crate) fn with_value(self, value: &'a DocumentNode<'a>) -> Self {
        Self { value, ..self }
    }

    pub(crate) fn get(self, key: &str) -> Option<Self> {
        self.value.get(key).map(|value| self.with_value(value))
    }

    pub(crate) fn as_object(self) -> Option<&'a DocumentObject<'a>> {
        self.value.as_object()
    }

    pub(crate) fn string_field(self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    /// Whether a field is `true`.
    pub(crate) fn is_true(self, key: &str) -> bool {
        self.value.get(key).is_some_and(DocumentNode::is_true)
    }

    /// The items of a list field, or none.
    pub(crate) fn list_items(self, key: &str) -> impl Iterator<Item = Self> {
        let items = self.value.get(key).and_then(DocumentNode::as_list).unwrap_or_default();
        items.iter().map(move |value| self.with_value(value))
    }
}

/// A reference that cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DanglingReference {
    pub reference: String,
    pub why: &'static str,
}

impl DanglingReference {
    pub(crate) fn to_sentence(&self) -> String {
        let reference: String =
            self.reference.chars().take(200).flat_map(char::escape_debug).collect();
        format!("its `$ref` `{reference}` {}", self.why)
    }
}

/// The specification and the documents it refers to, by address.
#[derive(Debug)]
pub(crate) struct SpecificationDocuments<'t> {
    values: Vec<DocumentNode<'t>>,
    addresses: Vec<String>,
    index: HashMap<String, usize>,
    /// By document: a JSON pointer for each `$anchor`, built on first use.
    anchors: Vec<OnceLock<HashMap<String, String>>>,
}

impl<'t> SpecificationDocuments<'t> {
    /// A specification without other documents.
    pub(crate) fn new(address: &str, root: DocumentNode<'t>) -> Self {
        let mut documents = Self {
            values: Vec::new(),
            addresses: Vec::new(),
            index: HashMap::new(),
            anchors: Vec::new(),
        };
        documents.add_document(address.to_owned(), root);
        documents
    }

    /// Adds a document that others refer to.
    pub(crate) fn add_document(&mut self, address: String, value: DocumentNode<'t>) {
        self.index.insert(address.clone(), self.values.len());
        self.addresses.push(address);
        self.values.push(value);
        self.anchors.push(OnceLock::new());
    }

    /// Keeps the index of an unreadable document; references to it do not resolve.
    pub(crate) fn add_unreadable_document(&mut self, address: String) {
        self.addresses.push(address);
        self.values.push(DocumentNode::Null);
        self.anchors.push(OnceLock::new());
    }

    pub(crate) fn root_value(&self) -> DocumentValue<'_> {
        self.document_value(0)
    }

    pub(crate) fn document_value(&self, document: usize) -> DocumentValue<'_> {
        DocumentValue { document, value: &self.values[document] }
    }

    pub(crate) fn document_address(&self, document: usize) -> &str {
        &self.addresses[document]
    }

    /// Follows references until the value is not a reference.
    pub(crate) fn resolve_reference<'a>(
        &'a self,
        place: DocumentValue<'a>,
    ) -> Result<DocumentValue<'a>, DanglingReference> {
        let mut here = place;
        for _ in 0..CHAIN_LIMIT {
            let Some(reference) = reference_of(here) else { return Ok(here) };
            here = self.follow_reference(here, reference)?;
        }
        let reference = reference_of(place).unwrap_or_default().to_owned();
        Err(DanglingReference { reference, why: "leads in a circle" })
    }

    /// Follows one reference.
    pub(crate) fn follow_reference<'a>(
        &'a self,
        place: DocumentValue<'a>,
        reference: &str,
    ) -> Result<DocumentValue<'a>, DanglingReference> {
        let dangling = |why| DanglingReference { reference: reference.to_owned(), why };
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match address {
            "" => place.document,
            relative => {
                let address = join_address(self.document_address(place.document), relative)
                    .ok_or_else(|| dangling("is no address"))?;
                *self
                    .index
                    .get(&address)
                    .ok_or_else(|| dangling("leads to a document that was not read"))?
            }
        };
        let fragment = percent_decode_str(fragment)
            .decode_utf8()
            .map_err(|_| dangling("is not a JSON pointer"))?;
        let root = self.document_value(document);
        let found = match fragment.strip_prefix('/') {
            None if fragment.is_empty() => Some(root.value),
            None => self.find_anchor(document, &fragment),
            Some(_) => root.value.pointer(&fragment),
        };
        found.map(|value| root.with_value(value)).ok_or_else(|| dangling("leads to nothing"))
    }

    /// The value with this `$anchor` (JSON Schema 2020-12, 8.2.2).
    fn find_anchor(&self, document: usize, anchor: &str) -> Option<&DocumentNode<'t>> {
        let root = &self.values[document];
        let anchors = self.anchors[document].get_or_init(|| {
            let mut anchors = HashMap::new();
            collect_anchors(root, &mut String::new(), &mut anchors);
            anchors
        });
        root.pointer(anchors.get(anchor)?)
    }
}

/// The `$ref` of a value, if it has one.
pub(crate) fn reference_of(place: DocumentValue<'_>) -> Option<&str> {
    place.string_field("$ref")
}

/// Collects the first location of every `$anchor` below a value; `at` is the pointer to that value.
fn collect_anchors(
    value: &DocumentNode<'_>,
    at: &mut String,
    anchors: &mut HashMap<String, String>,
) {
    let length = at.len();
    match value {
        DocumentNode::Object(object) => {
            if let Some(DocumentNode::Text(anchor)) = object.get("$anchor") {
                anchors.entry(anchor.to_string()).or_insert_with(|| at.clone());
            }
            for (name, value) in object.iter() {
                at.push('/');
                at.push_str(&name.replace('~', "~0").replace('/', "~1"));
                collect_anchors(value, at, anchors);
                at.truncate(length);
            }
        }
        DocumentNode::List(items) => {
            for (index, value) in items.iter().enumerate() {
                at.push_str(&format!("/{index}"));
                collect_anchors(value, at, anchors);
                at.truncate(length);
            }
        }
        DocumentNode::Null
        | DocumentNode::Bool(_)
        | DocumentNode::Number(_)
        | DocumentNode::Text(_) => {}
    }
}

/// Resolves an address relative to the document that contains it: `models/pet.json` in `api/spec.yaml` is
/// `api/models/pet.json`. Rejects addresses above the folder of the specification, the root of relative addresses.
pub(crate) fn join_address(base: &str, relative: &str) -> Option<String> {
    let relative = percent_decode_str(relative).decode_utf8().ok()?;
    if let Ok(base) = url::Url::parse(base) {
        let mut joined = base.join(&relative).ok()?;
        joined.set_fragment(None);
        return Some(joined.into());
    }
    if relative.contains(':') || relative.starts_with(['/', '\\']) {
        return None;
    }
    let mut segments: Vec<&str> = base.split('/').collect();
    segments.pop();
    for segment in relative.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &'static str) -> DocumentNode<'static> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_reference_is_a_json_pointer_in_uri_spelling() {
        let documents = SpecificationDocuments::new(
            "spec",
            node(r##"{"a": {"x y": [1, {"/~": "found"}]}, "r": {"$ref": "#/a/x%20y/1/~1~0"}}"##),
        );
        let place = documents.root_value().get("r").unwrap();
        assert_eq!(documents.resolve_reference(place).unwrap().value.as_str(), Some("found"));
    }

    #[test]
    fn a_circle_of_references_is_dangling() {
        let documents = SpecificationDocuments::new(
            "spec",
            node(r##"{"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}}"##),
        );
        let circle =
            documents.resolve_reference(documents.root_value().get("a").unwrap()).unwrap_err();
        assert_eq!(circle.to_sentence(), "its `$ref` `#/b` leads in a circle");
    }

    #[test]
    fn an_anchor_is_found_at_its_location() {
        let documents = SpecificationDocuments::new(
            "spec",
            node(r##"{"a": [{"$anchor": "here", "type": "string"}], "r": {"$ref": "#here"}}"##),
        );
        let found = documents.resolve_reference(documents.root_value().get("r").unwrap()).unwrap();
        assert_eq!(found.string_field("type"), Some("string"));
    }

    #[test]
    fn a_relative_address_is_resolved_in_its_document_and_stays_below_the_folder() {
        let relative = |base, address| join_address(base, address);
        assert_eq!(relative("spec.yaml", "./a/b.yaml").as_deref(), Some("a/b.yaml"));
        assert_eq!(relative("a/b.yaml", "../c.yaml").as_deref(), Some("c.yaml"));
        assert_eq!(relative("a/b.yaml", "../../c.yaml"), None);
        assert_eq!(relative("a/b.yaml", "/etc/passwd"), None);
        assert_eq!(relative("a/b.yaml", "file:///etc/passwd"), None);
        assert_eq!(relative("a/b.yaml", "https://elsewhere.example/x"), None);
        assert_eq!(
            relative("https://api.example/v1/spec.json", "models/pet.json").as_deref(),
            Some("https://api.example/v1/models/pet.json")
        );
    }
}
