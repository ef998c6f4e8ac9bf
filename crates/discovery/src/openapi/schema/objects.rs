//! Whether a schema accepts objects because it declares one, or only because it has no restriction.

use std::collections::HashSet;

use super::keyword::types;
use crate::openapi::documents::{Documents, Place};
use crate::text::Node;

/// The maximum nesting depth that is inspected.
const DEPTH: usize = 16;

/// Whether a schema accepts objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    Named,
    Unmentioned,
    RuledOut,
}

/// Whether a schema accepts objects without declaring one.
pub(in super::super) fn takes_objects_unsaid(documents: &Documents<'_>, schema: Place<'_>) -> bool {
    objects(documents, schema, &mut HashSet::new(), 0) == Objects::Unmentioned
}

/// Classifies a schema. `seen` prevents repeated visits: `allOf` can contain one schema many times.
fn objects<'a>(
    documents: &'a Documents<'a>,
    schema: Place<'a>,
    seen: &mut HashSet<*const Node<'a>>,
    depth: usize,
) -> Objects {
    let Ok(schema) = documents.resolve(schema) else { return Objects::Unmentioned };
    if DEPTH < depth || !seen.insert(schema.value) {
        return Objects::Unmentioned;
    }
    let types = schema.value.get("type").map(types).unwrap_or_default();
    if !types.is_empty() {
        return if types.contains(&"object") { Objects::Named } else { Objects::RuledOut };
    }
    let members = ["properties", "additionalProperties", "patternProperties", "propertyNames"];
    let has_members = |key: &&str| schema.value.get(key).and_then(Node::as_object).is_some();
    let takes_any = matches!(schema.value.get("additionalProperties"), Some(Node::Bool(true)));
    let wants_some = matches!(schema.value.get("required"), Some(Node::List(_)));
    if takes_any || wants_some || members.iter().any(has_members) {
        return Objects::Named;
    }
    if let Some(Node::List(values)) = schema.value.get("enum")
        && !values.is_empty()
    {
        let has_object = values.iter().any(|value| value.as_object().is_some());
        return if has_object { Objects::Named } else { Objects::RuledOut };
    }
    let mut said = |key| -> Vec<Objects> {
        schema.items(key).map(|one| objects(documents, one, seen, depth + 1)).collect()
    };
    let (all, choices) = (said("allOf"), [said("anyOf"), said("oneOf")]);
    let is_ruled_out = |choices: &Vec<Objects>| {
        !choices.is_empty() && choices.iter().all(|one| *one == Objects::RuledOut)
    };
    if all.contains(&Objects::RuledOut) || choices.iter().any(is_ruled_out) {
        return Objects::RuledOut;
    }
    match all.iter().chain(choices.iter().flatten()).any(|one| *one == Objects::Named) {
        true => Objects::Named,
        false => Objects::Unmentioned,
    }
}
