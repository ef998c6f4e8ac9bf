//! Small specifications designed to be expensive: each is processed quickly or refused.

use serde_json::{Map, Value, json};

use super::{discover_quickly, names};

/// A specification with these schemas, and operations with `S0` as request and response body.
fn with_schemas(schemas: Map<String, Value>, operations: usize) -> String {
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}});
    let operation =
        json!({"requestBody": {"content": content}, "responses": {"200": {"content": content}}});
    let path = |index: usize| (format!("/{index}"), json!({"post": operation}));
    let paths: Map<String, Value> = (0..operations).map(path).collect();
    json!({"openapi": "3.1.0", "components": {"schemas": schemas}, "paths": paths}).to_string()
}

fn reference(index: usize) -> Value {
    json!({"$ref": format!("#/components/schemas/S{index}")})
}

#[test]
fn an_all_of_that_fans_out_at_every_depth_is_cheap() {
    let link =
        |index: usize| (format!("S{index}"), json!({"allOf": vec![reference(index + 1); 50]}));
    let mut schemas: Map<String, Value> = (0..30).map(link).collect();
    schemas.insert("S30".to_owned(), json!({}));
    assert_eq!(names(&discover_quickly(&with_schemas(schemas, 1))), ["post_0"]);
}

#[test]
fn many_references_to_a_late_anchor_are_cheap() {
    let property = |index: usize| (format!("p{index}"), json!({"$ref": "#end"}));
    let properties: Map<String, Value> = (0..20_000).map(property).collect();
    let schemas = json!({
        "S0": {"anyOf": [{"properties": properties}]}, "End": {"$anchor": "end", "minLength": 2, "title": "The end"},
    });
    let found = discover_quickly(&with_schemas(schemas.as_object().unwrap().clone(), 1));
    assert_eq!(names(&found), ["post_0"]);
}

#[test]
fn an_object_with_very_many_properties_is_cheap() {
    let properties: Map<String, Value> =
        (0..100_000).map(|index| (format!("p{index}"), json!({}))).collect();
    let required: Vec<&String> = properties.keys().take(1_000).collect();
    let schema = json!({"type": "object", "required": required, "properties": properties});
    discover_quickly(&with_schemas(Map::from_iter([("S0".to_owned(), schema)]), 1));
}

#[test]
fn an_operation_with_very_many_parameters_is_cheap() {
    let parameter = |index: usize| json!({"in": "query", "name": format!("p{index}")});
    let parameters: Vec<Value> = (0..100_000).map(parameter).collect();
    let found = discover_quickly(
        &json!({"openapi": "3.1.0", "paths": {
            "/many": {"get": {"operationId": "many", "parameters": parameters}},
            "/good": {"get": {"operationId": "good"}},
        }})
        .to_string(),
    );
    assert_eq!(names(&found), ["good"]);
}

#[test]
fn a_text_full_of_incomplete_references_is_cheap() {
    let text =
        json!({"openapi": "3.1.0", "info": {"description": "$ref:".repeat(50_000)}, "paths": {}});
    discover_quickly(&text.to_string());
}

#[test]
fn a_server_url_that_expands_excessively_is_cheap() {
    let server = json!({"url": format!("https://h/{}", "{v}".repeat(20_000)),
        "variables": {"v": {"default": "a".repeat(60_000)}}});
    let text = json!({"openapi": "3.1.0", "servers": [server], "paths": {"/a": {"get": {"operationId": "a"}}}});
    assert_eq!(names(&discover_quickly(&text.to_string())), ["a"]);
}

#[test]
fn an_object_with_very_many_duplicate_fields_is_cheap() {
    let members: Vec<String> =
        (0..200_000).map(|index| format!("\"k{}\":0", index % 50_000)).collect();
    discover_quickly(&format!(
        r#"{{"openapi": "3.1.0", "x-many": {{{}}}, "paths": {{}}}}"#,
        members.join(",")
    ));
}

#[test]
fn long_texts_shared_by_many_operations_and_warnings_are_cheap() {
    let paths: Map<String, Value> =
        (0..1_000).map(|at| (format!("/{at}"), json!({"$ref": "#/x-item"}))).collect();
    let item = json!({"get": {"description": "long".repeat(75_000)}});
    let found =
        discover_quickly(&json!({"openapi": "3.1.0", "x-item": item, "paths": paths}).to_string());
    assert_eq!(found.operations, 1_000);
    assert!(found.inventory.tools.len() < 500, "{}", found.inventory.tools.len());
    let path = format!("/{}", "a".repeat(100_000));
    let get = json!({"parameters": vec![json!({}); 900]});
    let found =
        discover_quickly(&json!({"openapi": "3.1.0", "paths": {path: {"get": get}}}).to_string());
    let warnings: usize = found.inventory.warnings.iter().map(|warning| warning.at.len()).sum();
    assert!(warnings < 50_000, "{warnings}");
}
