//! A complete specification of medium size, and the same specification in other OpenAPI versions.

use model::DiscoveredTool;
use serde_json::Value;

use super::{discovered, names, warnings};

const VERSION_3_0: &str = include_str!("pizzeria-3.0.yaml");
const VERSION_3_1: &str = include_str!("pizzeria-3.1.yaml");
const VERSION_2_0: &str = include_str!("pizzeria-2.0.yaml");

/// The manifests, with their schemas inlined.
fn manifests(specification: &str) -> Vec<Value> {
    let whole = |tool: &DiscoveredTool| {
        let mut manifest = serde_json::to_value(&*tool.manifest).unwrap();
        manifest["input_schema"] = tool.schema(&tool.manifest.input_schema).to_served();
        if let Some(output) = &tool.manifest.output_schema {
            manifest["output_schema"] = tool.schema(output).to_served();
        }
        manifest
    };
    discovered(specification).inventory.tools.values().map(whole).collect()
}

#[test]
fn the_manifests_of_a_pizzeria() {
    insta::assert_json_snapshot!(manifests(VERSION_3_0));
    assert_eq!(warnings(&discovered(VERSION_3_0)), [""; 0]);
}

#[test]
fn version_3_1_gives_the_same_tools() {
    assert_eq!(manifests(VERSION_3_1), manifests(VERSION_3_0));
}

#[test]
fn swagger_2_0_gives_the_same_tools() {
    assert_eq!(manifests(VERSION_2_0), manifests(VERSION_3_0));
}

#[test]
fn the_version_of_the_specification_is_reported() {
    let found = discovered(VERSION_3_0);
    assert_eq!(found.inventory.source_version.as_deref(), Some("2.1.0"));
    assert_eq!(names(&found).len(), found.operations);
}
