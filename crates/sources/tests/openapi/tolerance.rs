//! Real specifications contain mistakes. A mistake only affects the element that contains it, and causes a warning.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{discovered, discovery_of, input, names, warnings};

/// The schema that this query parameter gets as an argument.
fn parameter(schema: Value) -> Value {
    let specification = json!({"openapi": "3.0.4", "paths": {"/menu": {"get": {"operationId": "menu",
        "parameters": [{"in": "query", "name": "q", "schema": schema}]}}}});
    input(&discovered(&specification.to_string()), "menu")["properties"]["q"].take()
}

#[test]
fn a_schema_keyword_with_an_invalid_value_is_omitted() {
    for schema in [
        json!({"type": "string", "required": true}),
        json!({"type": "string", "enum": []}),
        json!({"type": "string", "minLength": "many", "pattern": "(", "maxLength": -1}),
        json!({"type": "string", "properties": [1], "allOf": {}, "items": null}),
        json!({"type": "string", "additionalProperties": "yes", "nullable": "yes", "x-other": 1}),
    ] {
        let mut converted = parameter(schema.clone());
        // The invalid pattern is kept as a `$comment`.
        converted.as_object_mut().unwrap().shift_remove("$comment");
        assert_eq!(converted["type"], "string", "{schema}");
    }
    assert_eq!(parameter(json!({"type": "strnig"})), json!({}));
    assert_eq!(parameter(json!(7)), json!({}));
}

/// The request URL template of an operation with this query parameter.
fn address(parameter: Value) -> String {
    let specification = json!({"openapi": "3.1.1", "paths": {"/menu": {"get": {"operationId": "menu",
        "parameters": [parameter]}}}, "components": {"schemas": {"size": {"properties": {"cm": {}}}}}});
    let found = discovered(&specification.to_string());
    let tool = found.inventory.tools.values().next().unwrap();
    let manifest = serde_json::to_value(&tool.manifest).unwrap();
    manifest["execution"]["url_template"].as_str().unwrap().to_owned()
}

#[test]
fn an_object_is_sent_whole_unless_the_schema_constrains_the_type() {
    let of = |schema: Value| address(json!({"in": "query", "name": "q", "schema": schema}));
    for unsaid in [
        json!({}),
        json!(true),
        json!({"type": "strnig"}),
        json!({"enum": []}),
        json!({"properties": [1]}),
        json!({"additionalProperties": false}),
        json!({"anyOf": [{"type": "string"}, {}]}),
        json!({"allOf": [{"description": "anything"}]}),
    ] {
        let address = of(unsaid.clone());
        assert!(address.ends_with(r#"{{ query(form("q", args["q"], whole=true)) }}"#), "{address}");
    }
    for said in [
        json!({"type": "string"}),
        json!({"type": ["object", "null"]}),
        json!({"$ref": "#/components/schemas/size"}),
        json!({"additionalProperties": {"type": "string"}}),
        json!({"additionalProperties": true}),
        json!({"required": ["a"]}),
        json!({"enum": ["a", 1]}),
        json!({"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/size"}]}),
        json!({"anyOf": [{"type": "string"}, {"type": "array"}]}),
    ] {
        let address = of(said.clone());
        assert!(address.ends_with(r#"{{ query(form("q", args["q"])) }}"#), "{said}: {address}");
    }
    let without_schema = address(json!({"in": "query", "name": "q"}));
    assert!(without_schema.contains("whole=true"), "{without_schema}");
    let joined = address(json!({"in": "query", "name": "q", "explode": false, "schema": {}}));
    assert!(joined.ends_with(r#"form("q", args["q"], explode=false)) }}"#), "{joined}");
}

#[test]
fn a_mistake_affects_only_its_own_operation() {
    let found = discovered(
        "openapi: 3.0.4
paths:
  /one: {get: {parameters: [{$ref: '#/components/parameters/missing'}]}}
  /two: {get: {operationId: dup, parameters: [7, {in: nowhere, name: x}, {in: query}, null]}}
  /three: {get: {operationId: dup, parameters: {}, tags: {}, security: {}, responses: [], servers: 7}}
  /four: {get: {operationId: [], summary: {}, requestBody: 7}}
  /five: {get: 7, put: null, post: {$ref: '#/nowhere'}}
  /six: 7
  /seven: {$ref: '#/nowhere'}
  x-eight: {get: {}}",
    );
    assert_eq!(found.inventory.tools.len(), 3);
    let left_out = warnings(&found);
    assert_eq!(left_out.iter().filter(|text| text.contains("operation is left out")).count(), 3);
    assert_eq!(left_out.iter().filter(|text| text.contains("path is left out")).count(), 2);
    assert_eq!(left_out.iter().filter(|text| text.contains("parameter_ignored")).count(), 4);
}

#[test]
fn a_document_of_another_format_is_refused_with_a_reason() {
    for (text, reason) in [
        ("hello", "this is not an OpenAPI specification"),
        ("{}", "this is not an OpenAPI specification"),
        ("[1]", "this is not an OpenAPI specification"),
        ("openapi: 4.0.0\npaths: {}", "version 4.0.0 is not known"),
        ("swagger: '1.2'\npaths: {}", "version 1.2 is not known"),
        ("", "the document is empty"),
        ("{\"openapi\": ", "the document is not JSON"),
    ] {
        let error = discovery_of(text).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{text}: {error}");
    }
    assert_eq!(names(&discovered("openapi: 3.1.0\nwebhooks: {}")), [""; 0]);
}

fn pizzeria() -> Value {
    // The test changes the specification as JSON.
    let text = include_str!("pizzeria-3.0.yaml");
    json::document_text::read_document(text.as_bytes()).unwrap()
}

/// Collects the JSON pointer of every value of a document.
fn json_pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                json_pointers(
                    value,
                    &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                    found,
                );
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                json_pointers(value, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "#/(paths|components/schemas/(Pizza|Topping|nobody))?"
            .prop_map(|text| json!({"$ref": text})),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        let name =
            prop_oneof!["\\PC{0,6}", "(type|properties|items|allOf|in|name|schema|get|content)"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Replaces one value of a valid specification by arbitrary JSON.
    #[test]
    fn rubbish_anywhere_costs_only_what_it_is_in(place in any::<prop::sample::Index>(), rubbish in any_json()) {
        let mut specification = pizzeria();
        let mut found = Vec::new();
        json_pointers(&specification, "", &mut found);
        let place = place.get(&found);
        *specification.pointer_mut(place).unwrap() = rubbish;
        let Ok(found) = discovery_of(&specification.to_string()) else {
            // Only the document itself, its version or its paths can invalidate the whole specification.
            prop_assert!(["", "/openapi", "/paths"].contains(&place.as_str()), "{}", place);
            return Ok(());
        };
        let left_out = warnings(&found);
        let left_out = left_out.iter().filter(|text| text.contains("operation is left out"));
        prop_assert_eq!(found.operations, found.inventory.tools.len() + left_out.count());
        // An invalid value below one path does not affect other paths.
        if let Some(path) = place.strip_prefix("/paths/").and_then(|rest| rest.split('/').next()) {
            let others = 5 - if path == "~1pizzas" { 2 } else { 1 };
            prop_assert!(others <= found.inventory.tools.len(), "{}", place);
        }
        for tool in found.inventory.tools.values() {
            let schema = tool.schema(&tool.manifest.input_schema).to_served();
            prop_assert!(jsonschema::draft202012::new(&schema).is_ok(), "{}", schema);
        }
    }
}
