//! The difference between two catalogs: entity by entity, field by field.

use json::document_text::{field_path, item_path};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::declared_config::config_export::without_defaults;
use crate::declared_config::declared_objects::{DeclaredKind, DeclaredObjects};

/// Something that would be others than it is.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlannedChange")]
pub struct PlannedChange {
    /// What becomes of it.
    pub change: ChangeKind,
    /// What it is.
    pub kind: DeclaredKind,
    /// Which.
    pub id: String,
    /// Where it differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<PlannedFieldChange>,
}

/// What becomes of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ChangeKind")]
pub enum ChangeKind {
    Added,
    Changed,
    Removed,
}

/// A member that would be others than it is.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PlannedMember")]
pub struct PlannedFieldChange {
    /// Which: `selectors[0].name`.
    pub member: String,
    /// As it is; left out if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// As it would be; left out if it would not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// All differences, in the order of a file.
pub(crate) fn diff_objects(
    before: &DeclaredObjects,
    after: &DeclaredObjects,
) -> Vec<PlannedChange> {
    let mut changes = Vec::new();
    let nothing = Map::new();
    let mut ids: Vec<_> = before.keys().chain(after.keys()).collect();
    ids.sort();
    ids.dedup();
    for key in ids {
        let (had, has) = (before.get(key), after.get(key));
        if had == has {
            continue;
        }
        let (kind, id) = key.clone();
        let change = match (kind, had, has) {
            // The tool itself belongs to its source: only its overrides can be added or removed.
            (DeclaredKind::Tool, _, _) | (_, Some(_), Some(_)) => ChangeKind::Changed,
            (_, None, _) => ChangeKind::Added,
            (_, Some(_), None) => ChangeKind::Removed,
        };
        let mut members = Vec::new();
        if change == ChangeKind::Added {
            // Fields with default values are omitted.
            let has = has.cloned().unwrap_or_default();
            compare_objects("", &nothing, &without_defaults(kind, has), &mut members);
        } else if change == ChangeKind::Changed {
            compare_objects(
                "",
                &with_default_switch(kind, had),
                &with_default_switch(kind, has),
                &mut members,
            );
        }
        members.retain(|differs| differs.member != "id");
        changes.push(PlannedChange { change, kind, id, members });
    }
    changes
}

/// Adds the default switch: a tool without overrides is enabled.
fn with_default_switch(
    kind: DeclaredKind,
    body: Option<&Map<String, Value>>,
) -> Map<String, Value> {
    let mut body = body.cloned().unwrap_or_default();
    if kind == DeclaredKind::Tool {
        body.entry("is_enabled").or_insert(Value::Bool(true));
    }
    body
}

fn compare_objects(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    differs: &mut Vec<PlannedFieldChange>,
) {
    let new = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(new) {
        compare_values(&field_path(path, name), before.get(name), after.get(name), differs);
    }
}

fn compare_values(
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    differs: &mut Vec<PlannedFieldChange>,
) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            compare_objects(path, before, after, differs);
        }
        // Arrays of objects with equal lengths are compared element by element; any others as a whole.
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.len() == after.len() && before.iter().any(Value::is_object) =>
        {
            for (number, (before, after)) in before.iter().zip(after).enumerate() {
                compare_values(&item_path(path, number), Some(before), Some(after), differs);
            }
        }
        (before, after) => differs.push(PlannedFieldChange {
            member: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}
