//! The hashes of an inventory: the published hash as other programs compute it, and which changes each hash detects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Execution, SchemaDefinition};

fn manifest(name: &str, parameters: Value) -> Manifest {
    Manifest {
        name: name.into(),
        title: None,
        description: "does it".into(),
        method: "GET".into(),
        path: format!("/{name}").into(),
        tags: vec![],
        input_schema: Schema::new(parameters).unwrap(),
        output_schema: None,
        execution: Execution::Custom { does: None },
        deprecated: false,
        security: None,
        extra: BTreeMap::new(),
    }
}

fn inventory(manifests: Vec<Manifest>) -> Inventory {
    let keyed = manifests.into_iter().map(|manifest| (manifest.name.to_string(), manifest));
    Inventory::new("s".parse().unwrap(), keyed).unwrap()
}

#[test]
fn the_published_hash_equals_the_one_of_python() {
    // python3: hashlib.sha256(json.dumps([{"name": "a", "method": "GET", "path": "/a",
    //   "parameters": json.dumps({"type": "object", "title": "ü"}, sort_keys=True)}], sort_keys=True)…).hexdigest()[:16]
    let found = inventory(vec![manifest("a", json!({"type": "object", "title": "ü"}))]);
    assert_eq!(found.published_hash, PYTHON_HASH);
}

const PYTHON_HASH: &str = "9bc52d1677a576a9";

#[test]
fn separately_stored_definitions_are_hashed_as_part_of_the_schema() {
    let schema = json!({
        "$comment": "a \"quoted\" ü word", "type": "object",
        "$defs": {"Big": {"description": "ü".repeat(300), "type": "string"}, "Small": {"type": "integer"},
                  "Another": {"enum": ["x".repeat(600)]}},
        "properties": {"a": {"$ref": "#/$defs/Big"}},
    });
    // Computed with Python, as in the test above.
    assert_eq!(inventory(vec![manifest("big", schema)]).published_hash, "83ca0e6c0736ceb0");
}

#[test]
fn a_changed_description_changes_the_fingerprint_and_not_the_published_hash() {
    let one = inventory(vec![manifest("a", json!({}))]);
    let mut changed = manifest("a", json!({}));
    changed.description = "does it well".into();
    let two = inventory(vec![changed]);
    assert_eq!(one.published_hash, two.published_hash);
    assert_ne!(one.fingerprint, two.fingerprint);
}

#[test]
fn two_tools_with_one_key_are_rejected() {
    let twice =
        [("a".to_owned(), manifest("a", json!({}))), ("a".to_owned(), manifest("b", json!({})))];
    let error = Inventory::new("s".parse().unwrap(), twice).unwrap_err();
    assert_eq!(error.to_string(), "the key `a` stands for two tools");
}

proptest! {
    #[test]
    fn the_order_of_tools_does_not_change_a_hash(names in proptest::collection::btree_set("[a-z]{1,8}", 1..8)) {
        let forth = inventory(names.iter().map(|name| manifest(name, json!({"title": name}))).collect());
        let back = inventory(names.iter().rev().map(|name| manifest(name, json!({"title": name}))).collect());
        prop_assert_eq!(forth.published_hash, back.published_hash);
        prop_assert_eq!(forth.fingerprint, back.fingerprint);
    }
}

proptest! {
    #[test]
    fn a_schema_built_from_definitions_has_the_hash_of_the_whole(
        before in any::<bool>(), after in any::<bool>(), definitions in 0_usize..4, long in any::<bool>(),
    ) {
        let mut root = serde_json::Map::new();
        if before {
            root.insert("$comment".to_owned(), json!("ü \"quoted\" \\ \u{7f}"));
        }
        if after {
            root.insert("type".to_owned(), json!("object"));
        }
        let value = json!({"description": if long { "ü".repeat(300) } else { "\"".to_owned() }, "a": [1, 2.5, null]});
        let definition = |at: usize| SchemaDefinition::new(format!("D{at}").into(), &value);
        let parts = Schema::for_arguments(&root, (0..definitions).rev().map(definition).collect());
        let mut whole = root;
        if 0 < definitions {
            let named = (0..definitions).map(|at| (format!("D{at}"), value.clone()));
            whole.insert("$defs".to_owned(), Value::Object(named.collect()));
        }
        let mut one = manifest("one", Value::Object(whole));
        let hash = inventory(vec![one.clone()]).published_hash;
        one.input_schema = parts;
        prop_assert_eq!(inventory(vec![one]).published_hash, hash);
    }
}
