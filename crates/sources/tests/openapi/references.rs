//! References: none reaches outside the source, and none causes excessive work.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use toolcrib_sources::openapi;
use toolcrib_sources::openapi::{
    DiscoveredInventory, OpenApiSpecification, SpecOptions, SpecificationAddress,
};

use super::{discover_quickly, discovered, input, names, warnings};

/// A specification with a valid operation, and one with this reference as schema, parameter, body and response.
fn with_reference(reference: &str) -> String {
    let place = json!({"$ref": reference});
    let content = json!({"application/json": {"schema": place}});
    json!({"openapi": "3.1.0", "paths": {
        "/good": {"get": {"operationId": "good"}},
        "/schema": {"get": {"operationId": "schema", "parameters": [{"in": "query", "name": "q", "schema": place}]}},
        "/parameter": {"get": {"operationId": "parameter", "parameters": [place]}},
        "/body": {"post": {"operationId": "body", "requestBody": {"content": content}}},
        "/answer": {"get": {"operationId": "answer", "responses": {"200": {"content": content}}}},
        "/item": place,
        "/example": {"get": {"operationId": "example", "parameters": [{"in": "query", "name": "q",
            "schema": {"type": "object", "example": place}, "examples": {"a": {"externalValue": reference}}}]}},
    }})
    .to_string()
}

#[test]
fn operations_with_outside_references_are_omitted_and_nothing_is_fetched() {
    for reference in [
        "http://127.0.0.1:1/x.json",
        "https://pizza.example/x.yaml#/a",
        "file:///etc/passwd",
        "//pizza.example/x.yaml",
        "/etc/passwd",
        "../x.yaml",
        "..\\x.yaml",
        "%2e%2e/x.yaml",
        "data:application/json,{}",
        "C:\\x.yaml",
    ] {
        let found = discovered(&with_reference(reference));
        assert_eq!(names(&found), ["answer", "example", "good"], "{reference}");
        // Four operations are omitted; the fifth only loses its response schema.
        assert_eq!(warnings(&found).len(), 5, "{reference}: {:?}", warnings(&found));
        assert!(found.inventory.tools.values().all(|tool| tool.manifest.output_schema.is_none()));
    }
}

/// Discovers a specification in a folder of its own; a secret file lies beside that folder.
fn discover_in_folder(reference: &str, prepare: impl Fn(&std::path::Path)) -> DiscoveredInventory {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.yaml"), "{type: string, description: SECRET}").unwrap();
    let folder = outside.path().join("specification");
    fs::create_dir(&folder).unwrap();
    prepare(&folder);
    let file = folder.join("openapi.json");
    fs::write(&file, with_reference(reference)).unwrap();
    let specification = OpenApiSpecification::open_file(&file).unwrap();
    openapi::discover_openapi("pizzeria".parse().unwrap(), &specification, &SpecOptions::default())
        .unwrap()
}

#[test]
fn referenced_files_below_the_folder_are_read() {
    let found = discover_in_folder("models/pizza.yaml", |folder| {
        fs::create_dir(folder.join("models")).unwrap();
        fs::write(
            folder.join("models/pizza.yaml"),
            "{type: string, description: A long enough description of a pizza}",
        )
        .unwrap();
    });
    assert!(names(&found).contains(&"schema"), "{:?}", warnings(&found));
}

#[test]
fn no_reference_leads_out_of_the_folder() {
    let link = |folder: &std::path::Path| {
        std::os::unix::fs::symlink("../secret.yaml", folder.join("link.yaml")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("up")).unwrap();
    };
    for reference in ["../secret.yaml", "link.yaml", "up/secret.yaml", "a/../../secret.yaml"] {
        let found = discover_in_folder(reference, link);
        assert_eq!(names(&found), ["answer", "example", "good"], "{reference}");
        let told = format!("{:?}", found.inventory);
        assert!(!told.contains("SECRET"), "{reference}");
    }
}

#[test]
fn a_fetched_specification_may_refer_only_to_its_own_origin() {
    let text = json!({"openapi": "3.1.0", "paths": {
        "/a": {"$ref": "paths/a.yaml"}, "/b": {"$ref": "https://pizza.example/b.yaml"},
        "/c": {"$ref": "https://other.example/c.yaml"}, "/d": {"$ref": "//other.example/d.yaml"},
        "/e": {"$ref": "http://pizza.example/e.yaml"}, "/f": {"$ref": "file:///etc/passwd"},
        "/g": {"$ref": "https://pizza.example:444/g.yaml"},
    }});
    let address =
        SpecificationAddress::Url("https://pizza.example/api/openapi.json".parse().unwrap());
    let specification =
        OpenApiSpecification::from_bytes(address, text.to_string().as_bytes()).unwrap();
    let missing: Vec<String> =
        specification.missing_documents().iter().map(|url| url.as_str().to_owned()).collect();
    assert_eq!(missing, ["https://pizza.example/api/paths/a.yaml", "https://pizza.example/b.yaml"]);
}

/// A specification with one operation, whose body is the first of these schemas.
fn with_schemas(schemas: Map<String, Value>) -> String {
    let body =
        json!({"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}});
    json!({"openapi": "3.1.0", "components": {"schemas": schemas}, "paths": {
        "/bad": {"post": {"operationId": "bad", "requestBody": body}},
        "/good": {"get": {"operationId": "good"}},
    }})
    .to_string()
}

#[test]
fn a_reference_cycle_affects_only_the_operation_that_uses_it() {
    let to = |target: &str| json!({"$ref": format!("#/components/schemas/{target}")});
    for schemas in [
        json!({"S0": to("S0")}),
        json!({"S0": to("S1"), "S1": to("S0")}),
        json!({"S0": to("a~1b"), "a/b": {"$ref": "#/components/schemas/a%2Fb"}}),
        json!({"S0": to("a~1b"), "a/b": {"$ref": "#/components/schemas/a~1b"}}),
        json!({"S0": to("missing")}),
        json!({}),
    ] {
        let found = discover_quickly(&with_schemas(schemas.as_object().unwrap().clone()));
        assert_eq!(names(&found), ["good"], "{schemas}");
        assert_eq!(warnings(&found).len(), 1, "{schemas}");
    }
}

#[test]
fn a_reference_to_a_non_schema_allows_any_body() {
    for target in [json!(7), json!("text"), json!([1]), json!(null), json!(true)] {
        let found = discover_quickly(&with_schemas(Map::from_iter([("S0".to_owned(), target)])));
        assert_eq!(names(&found), ["bad", "good"]);
        assert!(input(&found, "bad")["properties"].get("body").is_some());
    }
}

#[test]
fn a_chain_of_ten_thousand_references_is_rejected() {
    let link = |index: usize| {
        (format!("S{index}"), json!({"$ref": format!("#/components/schemas/S{}", index + 1)}))
    };
    let found = discover_quickly(&with_schemas((0..10_000).map(link).collect()));
    assert_eq!(names(&found), ["good"]);
    assert!(warnings(&found)[0].ends_with("leads in a circle"), "{:?}", warnings(&found));
}

#[test]
fn ten_thousand_schemas_may_contain_each_other() {
    let link = |index: usize| {
        let next = json!({"$ref": format!("#/components/schemas/S{}", (index + 1) % 10_000)});
        (
            format!("S{index}"),
            json!({"type": "object", "properties": {"next": next, "n": {"const": index}}}),
        )
    };
    let found = discover_quickly(&with_schemas((0..10_000).map(link).collect()));
    assert_eq!(names(&found), ["bad", "good"]);
}

#[test]
fn schemas_that_hold_the_next_one_twice_do_not_double() {
    for keyword in ["properties", "allOf"] {
        let link = |index: usize| {
            let next = json!({"$ref": format!("#/components/schemas/S{}", index + 1)});
            let schema = match keyword {
                "allOf" => json!({"allOf": [next, next]}),
                _ => json!({"type": "object", "properties": {"a": next, "b": next}}),
            };
            (format!("S{index}"), schema)
        };
        let mut schemas: Map<String, Value> = (0..30).map(link).collect();
        schemas.insert(
            "S30".to_owned(),
            json!({"type": "object", "properties": {"end": {"type": "integer"}}}),
        );
        let found = discover_quickly(&with_schemas(schemas));
        assert_eq!(names(&found), ["bad", "good"], "{keyword}");
        assert!(input(&found, "bad").to_string().len() < 10_000, "{keyword}");
    }
}

#[test]
fn a_document_with_too_deeply_nested_schemas_is_refused() {
    let mut schema = json!({});
    for _ in 0..200 {
        schema = json!({"properties": {"a": schema}});
    }
    let text = with_schemas(Map::from_iter([("S0".to_owned(), schema)]));
    assert!(super::discovery_of(&text).is_err());
}

#[test]
fn a_yaml_alias_bomb_is_refused() {
    let mut text =
        "openapi: 3.1.0\nx0: &x0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for index in 1..12 {
        let copies = vec![format!("*x{}", index - 1); 9].join(", ");
        text.push_str(&format!("x{index}: &x{index} [{copies}]\n"));
    }
    text.push_str("paths: {/menu: {get: {}}}\n");
    let started = Instant::now();
    assert!(super::discovery_of(&text).unwrap_err().to_string().contains("copy too much"));
    // Unbounded work would take hours; the generous limit tolerates a busy machine.
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn two_documents_may_use_one_name_for_different_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    for (name, kind) in [("a.json", "string"), ("b.json", "integer")] {
        let base = json!({"type": kind, "description": "long enough to stand apart ".repeat(20)});
        let document = json!({"definitions": {"Base": base, "Pizza": {"type": "object", "properties": {
            "one": {"$ref": "#/definitions/Base"}, "two": {"$ref": "#/definitions/Base"}}}}});
        write(name, document.to_string());
    }
    let body = json!({"type": "object", "properties": {
        "a": {"$ref": "a.json#/definitions/Pizza"}, "b": {"$ref": "b.json#/definitions/Pizza"}}});
    let content = json!({"application/json": {"schema": body}});
    let text = json!({"openapi": "3.1.0", "paths": {"/o": {"post": {"operationId": "order",
        "requestBody": {"content": content}}}}});
    write("openapi.json", text.to_string());
    let specification =
        OpenApiSpecification::open_file(&folder.path().join("openapi.json")).unwrap();
    let source = "pizzeria".parse().unwrap();
    let found = openapi::discover_openapi(source, &specification, &SpecOptions::default()).unwrap();
    let schema = jsonschema::draft202012::new(&input(&found, "order")).unwrap();
    assert!(schema.is_valid(&json!({"a": {"one": "x"}, "b": {"one": 1}})));
    assert!(!schema.is_valid(&json!({"a": {"one": 1}})));
    assert!(!schema.is_valid(&json!({"b": {"one": "x"}})));
}

#[test]
fn a_binary_file_affects_only_the_operation_that_refers_to_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("logo.png"), b"\x89PNG\xff\xfe").unwrap();
    let file = folder.path().join("openapi.json");
    fs::write(&file, with_reference("logo.png")).unwrap();
    let specification = OpenApiSpecification::open_file(&file).unwrap();
    let source = "pizzeria".parse().unwrap();
    let found = openapi::discover_openapi(source, &specification, &SpecOptions::default()).unwrap();
    assert_eq!(names(&found), ["answer", "example", "good"]);
    assert!(warnings(&found).iter().any(|warning| warning.starts_with("unreadable_document")));
}

#[test]
fn fields_beside_a_path_item_reference_apply() {
    let found = discovered(
        r##"{"openapi": "3.1.0", "paths": {"/o": {"$ref": "#/components/pathItems/Order",
            "parameters": [{"in": "query", "name": "beside", "schema": {"type": "string"}}],
            "servers": [{"url": "https://beside.example"}],
            "delete": {"operationId": "cancel"}}},
        "components": {"pathItems": {"Order": {"get": {"operationId": "status"},
            "parameters": [{"in": "query", "name": "within", "schema": {"type": "string"}}]}}}}"##,
    );
    assert_eq!(names(&found), ["cancel", "status"]);
    for name in ["cancel", "status"] {
        let schema = input(&found, name);
        let properties: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(properties, ["within", "beside"]);
    }
    assert!(found.inventory.tools.values().all(|tool| {
        format!("{:?}", tool.manifest.execution).contains("https://beside.example/o")
    }));
}

#[test]
fn additional_properties_false_applies_through_a_reference() {
    let found = discovered(
        r##"{"openapi": "3.1.0", "paths": {"/o": {"post": {"operationId": "order", "requestBody": {"content":
            {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}}}}},
        "components": {"schemas": {"Order": {"type": "object", "additionalProperties": false,
            "properties": {"pizza": {"type": "string"}}}}}}"##,
    );
    assert_eq!(input(&found, "order")["additionalProperties"], json!(false));
}

#[test]
fn repeatedly_combined_schemas_are_processed_once() {
    let part = |next: usize| json!({"allOf": vec![json!({"$ref": format!("#/components/schemas/S{next}")}); 20]});
    let mut schemas: Map<String, Value> =
        (0..8).map(|at| (format!("S{at}"), part(at + 1))).collect();
    schemas.insert(
        "S8".to_owned(),
        json!({"type": "object", "properties": {"a": {"type": "string"}}}),
    );
    let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}});
    let specification = json!({"openapi": "3.1.0", "components": {"schemas": schemas}, "paths": {"/o": {"post": {
        "operationId": "order", "requestBody": {"content": content}, "responses": {"200": {"content": content}}}}}});
    assert_eq!(names(&discover_quickly(&specification.to_string())), ["order"]);
}
