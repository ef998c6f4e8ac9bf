//! Removes fields with default values: the file means the same without them.

use model::{LabelProfile, PolicyRules, Selector, SourceProfile};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::declared_config::declared_objects::DeclaredKind;

/// Maximum depth of examined fields, such as `limits.calls` and `matchers[0].value`.
const MAX_DEPTH: usize = 3;
/// Maximum number of examined fields; each requires parsing the whole value without it. Further fields are kept.
const MAX_EXAMINED_FIELDS: usize = 200;

/// Removes fields with default values. Ids and switches stay: an omitted switch would keep the state of the target.
pub(crate) fn without_defaults(kind: DeclaredKind, body: Map<String, Value>) -> Map<String, Value> {
    match kind {
        DeclaredKind::Source => remove_defaults::<SourceProfile>(body),
        DeclaredKind::Label => remove_defaults::<LabelProfile>(body),
        DeclaredKind::Policy => remove_defaults::<PolicyRules>(body),
        DeclaredKind::Group => group_without_defaults(body),
        DeclaredKind::Tool => body,
    }
}

fn group_without_defaults(mut body: Map<String, Value>) -> Map<String, Value> {
    if body.get("selector_mode").is_some_and(|mode| mode == "all") {
        body.shift_remove("selector_mode");
    }
    let selectors = body.get_mut("selectors").and_then(Value::as_array_mut);
    for selector in selectors.into_iter().flatten().filter_map(Value::as_object_mut) {
        *selector = remove_defaults::<Selector>(std::mem::take(selector));
    }
    body
}

fn remove_defaults<T: DeserializeOwned + PartialEq>(
    body: Map<String, Value>,
) -> Map<String, Value> {
    let read = |value: &Value| serde_json::from_value::<T>(value.clone()).ok();
    let mut value = Value::Object(body);
    let meant = read(&value);
    let mut pointers = Vec::new();
    collect_pointers(&value, "", 0, &mut pointers);
    for pointer in pointers.into_iter().take(MAX_EXAMINED_FIELDS) {
        let Some((parent, name)) = pointer.rsplit_once('/') else { continue };
        let name = name.replace("~1", "/").replace("~0", "~");
        let mut shorter = value.clone();
        let parent = shorter.pointer_mut(parent).and_then(Value::as_object_mut);
        let Some(_) = parent.and_then(|parent| parent.shift_remove(&name)) else { continue };
        if meant.is_some() && read(&shorter) == meant {
            value = shorter;
        }
    }
    match value {
        Value::Object(body) => body,
        _ => Map::new(),
    }
}

/// Pointers to fields that may have default values, outer ones first.
fn collect_pointers(value: &Value, at: &str, depth: usize, pointers: &mut Vec<String>) {
    match value {
        Value::Object(members) if depth < MAX_DEPTH => {
            for (name, value) in members {
                if depth == 0 && ["id", "is_enabled", "is_active"].contains(&name.as_str()) {
                    continue;
                }
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                pointers.push(at.clone());
                collect_pointers(value, &at, depth + 1, pointers);
            }
        }
        Value::Array(values) if depth < MAX_DEPTH => {
            for (number, value) in values.iter().enumerate() {
                collect_pointers(value, &format!("{at}/{number}"), depth, pointers);
            }
        }
        _ => {}
    }
}
