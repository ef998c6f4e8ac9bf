//! Whether a schema accepts objects because it declares one, or only because it has no restriction.

use std::collections::HashSet;

use json::document_text::DocumentNode;

use super::keyword_values::type_names;
use crate::openapi::specification_documents::{DocumentValue, SpecificationDocuments};

/// The maximum nesting depth that is inspected.
const MAX_OBJECT_DEPTH: usize = 16;

/// Whether a schema accepts objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectAcceptance {
    Declared,
    Unspecified,
    Rejected,
}

/// Whether a schema accepts objects without declaring one.
pub(in super::super) fn accepts_objects_implicitly(
    documents: &SpecificationDocuments<'_>,
    schema: DocumentValue<'_>,
) -> bool {
    object_acceptance(documents, schema, &mut HashSet::new(), 0) == ObjectAcceptance::Unspecified
}

/// Classifies a schema. `seen` prevents repeated visits: `allOf` can contain one schema many times.
fn object_acceptance<'a>(
    documents: &'a SpecificationDocuments<'a>,
    schema: DocumentValue<'a>,
    seen: &mut HashSet<*const DocumentNode<'a>>,
    depth: usize,
) -> ObjectAcceptance {
    let Ok(schema) = documents.resolve_reference(schema) else {
        return ObjectAcceptance::Unspecified;
    };
    if MAX_OBJECT_DEPTH < depth || !seen.insert(schema.value) {
        return ObjectAcceptance::Unspecified;
    }
    let types = schema.value.get("type").map(type_names).unwrap_or_default();
    if !types.is_empty() {
        return if types.contains(&"object") {
            ObjectAcceptance::Declared
        } else {
            ObjectAcceptance::Rejected
        };
    }
    let members = ["properties", "additionalProperties", "patternProperties", "propertyNames"];
    let has_members =
        |key: &&str| schema.value.get(key).and_then(DocumentNode::as_object).is_some();
    let takes_any =
        matches!(schema.value.get("additionalProperties"), Some(DocumentNode::Bool(true)));
    let wants_some = matches!(schema.value.get("required"), Some(DocumentNode::List(_)));
    if takes_any || wants_some || members.iter().any(has_members) {
        return ObjectAcceptance::Declared;
    }
    if let Some(DocumentNode::List(values)) = schema.value.get("enum")
        && !values.is_empty()
    {
        let has_object = values.iter().any(|value| value.as_object().is_some());
        return if has_object { ObjectAcceptance::Declared } else { ObjectAcceptance::Rejected };
    }
    let mut said = |key| -> Vec<ObjectAcceptance> {
        schema
            .list_items(key)
            .map(|one| object_acceptance(documents, one, seen, depth + 1))
            .collect()
    };
    let (all, choices) = (said("allOf"), [said("anyOf"), said("oneOf")]);
    let is_ruled_out = |choices: &Vec<ObjectAcceptance>| {
        !choices.is_empty() && choices.iter().all(|one| *one == ObjectAcceptance::Rejected)
    };
    if all.contains(&ObjectAcceptance::Rejected) || choices.iter().any(is_ruled_out) {
        return ObjectAcceptance::Rejected;
    }
    match all.iter().chain(choices.iter().flatten()).any(|one| *one == ObjectAcceptance::Declared) {
        true => ObjectAcceptance::Declared,
        false => ObjectAcceptance::Unspecified,
    }
}
