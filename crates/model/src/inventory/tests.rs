//! The hashes of an inventory: the published one as other programs compute it, and which changes they see.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Execution, Schema};

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
        execution: Execution::Custom,
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
fn the_published_hash_is_the_one_python_gives() {
    // python3: hashlib.sha256(json.dumps([{"name": "a", "method": "GET", "path": "/a",
    //   "parameters": json.dumps({"type": "object", "title": "ü"}, sort_keys=True)}], sort_keys=True)…).hexdigest()[:16]
    let found = inventory(vec![manifest("a", json!({"type": "object", "title": "ü"}))]);
    assert_eq!(found.published_hash, PYTHON_HASH);
}

const PYTHON_HASH: &str = "9bc52d1677a576a9";

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
fn two_tools_under_one_key_are_refused() {
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
