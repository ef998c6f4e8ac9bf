//! The security requirements of an operation: alternatives, each with its schemes resolved, so that execution does not
//! need the specification.

use json::document_text::{DocumentNode, DocumentObject};
use model::RawJson;
use model::header_names::is_reserved_header;
use serde_json::{Map, Value, json};

use super::specification_documents::{DocumentValue, SpecificationDocuments};

/// The requirements of an operation or of the specification. An empty list means that no credential is needed; `None`
/// means that nothing is declared.
pub(super) fn read_security(
    documents: &SpecificationDocuments<'_>,
    place: DocumentValue<'_>,
) -> Option<RawJson> {
    let said = place.get("security")?;
    let alternatives = said.value.as_list()?;
    let alternative = |requirement: &DocumentNode<'_>| {
        let schemes = requirement.as_object().into_iter().flat_map(DocumentObject::iter);
        Value::Object(
            schemes
                .map(|(name, scopes)| (name.to_owned(), read_scheme(documents, name, scopes)))
                .collect(),
        )
    };
    let alternatives: Vec<Value> = alternatives.iter().map(alternative).collect();
    Some(RawJson::from(&Value::Array(alternatives)))
}

/// A scheme with the fields that are needed to send a credential: its type and its location.
fn read_scheme(
    documents: &SpecificationDocuments<'_>,
    name: &str,
    scopes: &DocumentNode<'_>,
) -> Value {
    let root = documents.root_value();
    let shelf = match root.get("components") {
        Some(components) => components.get("securitySchemes"),
        None => root.get("securityDefinitions"),
    };
    let found = shelf.and_then(|shelf| documents.resolve_reference(shelf.get(name)?).ok());
    let Some(found) = found.filter(|found| is_complete(*found)) else {
        return json!({"type": "unknown"});
    };
    // A malicious specification must not send a secret in a header such as `Host`.
    let is_misplaced =
        |name: &str| is_reserved_header(name) && !name.eq_ignore_ascii_case("authorization");
    if found.string_field("in") == Some("header")
        && found.string_field("name").is_some_and(is_misplaced)
    {
        return json!({"type": "unknown"});
    }
    let mut scheme = Map::new();
    for key in ["type", "in", "name", "scheme"] {
        if let Some(text) = found.string_field(key) {
            scheme.insert(key.to_owned(), Value::from(text));
        }
    }
    // Swagger 2.0 calls this type `basic`.
    if found.string_field("type") == Some("basic") {
        scheme.insert("type".to_owned(), Value::from("http"));
        scheme.insert("scheme".to_owned(), Value::from("basic"));
    }
    if scopes.as_list().is_some_and(|scopes| !scopes.is_empty()) {
        scheme.insert("scopes".to_owned(), scopes.to_value());
    }
    Value::Object(scheme)
}

/// Whether a scheme has all fields that are needed to send a credential.
fn is_complete(scheme: DocumentValue<'_>) -> bool {
    match scheme.string_field("type") {
        Some("apiKey") => {
            matches!(scheme.string_field("in"), Some("header" | "query" | "cookie"))
                && scheme.string_field("name").is_some()
        }
        Some("http") => scheme.string_field("scheme").is_some(),
        other => other.is_some(),
    }
}
