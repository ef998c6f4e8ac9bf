//! Documents as found in practice: YAML pitfalls, all OpenAPI versions, references.

use serde_json::json;

use super::{api, call, discovered, input, sent_request, tool, warnings};

#[test]
fn yaml_words_are_strings_and_numbers_are_numbers() {
    let specification = api("  /menu: {get: {operationId: on, tags: [1, off], parameters: [
            {in: query, name: y, schema: {type: string, enum: [NO, yes, off, =, 1.10]}}]}}");
    let found = discovered(&specification);
    assert_eq!(tool(&found, "on").manifest.tags, ["1".into(), "off".into()]);
    assert_eq!(
        input(&specification)["properties"]["y"]["enum"],
        json!(["NO", "yes", "off", "=", "1.1"])
    );
    assert_eq!(call(&specification, json!({"y": "NO"})), "GET https://pizza.example/menu?y=NO");
}

#[test]
fn anchors_aliases_and_merge_keys_are_resolved() {
    let specification = "openapi: 3.0.4
servers: [{url: https://pizza.example}]
x-page: &page {in: query, name: page, schema: {type: integer}}
x-base: &base
  parameters: [*page]
paths:
  /menu:
    get:
      <<: *base
      operationId: menu
      responses: {200: {description: fine}}";
    assert_eq!(call(specification, json!({"page": 2})), "GET https://pizza.example/menu?page=2");
}

#[test]
fn a_byte_order_mark_and_numeric_texts_are_tolerated() {
    let specification = "\u{feff}{\"openapi\": 3.1, \"info\": {\"title\": 5, \"version\": 1.10},
        \"servers\": [{\"url\": \"https://pizza.example\"}],
        \"paths\": {\"/menu\": {\"get\": {\"operationId\": 7, \"summary\": 8, \"responses\": {\"200\": null}}}}}";
    let found = discovered(specification);
    assert_eq!(found.inventory.source_version.as_deref(), Some("1.1"));
    assert_eq!(&*tool(&found, "7").manifest.description, "8");
}

#[test]
fn of_the_methods_of_version_3_2_only_five_become_tools() {
    let found = discovered(
        "openapi: 3.2.0
servers: [{url: https://pizza.example, name: main}]
paths:
  /menu:
    get: {operationId: menu, parameters: [{in: querystring, name: all, content: {
      application/x-www-form-urlencoded: {schema: {type: object}}}}]}
    query: {operationId: ask}
    additionalOperations: {COPY: {operationId: copy}}",
    );
    assert_eq!(found.inventory.tools.len(), 1);
    assert_eq!(
        warnings(&found),
        ["2 operations are no tools: only GET, PUT, POST, DELETE and PATCH become tools"]
    );
    assert_eq!(
        sent_request(tool(&found, "menu"), json!({"all": {"a": 1, "b": "x y"}})),
        "GET https://pizza.example/menu?a=1&b=x%20y"
    );
}

#[test]
fn references_may_point_anywhere_in_the_document() {
    let found = discovered(
        "openapi: 3.1.0
servers: [{url: https://pizza.example}]
paths:
  /a~b/{x}:
    get: {operationId: first, parameters: [{in: query, name: size, schema: {maximum: 9}}]}
  /c:
    $ref: '#/components/pathItems/c%20d'
components:
  pathItems:
    c d:
      get:
        operationId: second
        parameters: [{$ref: '#/paths/~1a~0b~1%7Bx%7D/get/parameters/0'}]",
    );
    assert_eq!(
        sent_request(tool(&found, "second"), json!({"size": 9})),
        "GET https://pizza.example/c?size=9"
    );
    assert!(
        sent_request(tool(&found, "second"), json!({"size": 10})).starts_with("refused: /size")
    );
}

#[test]
fn callbacks_and_webhooks_are_not_tools() {
    let found = discovered(
        "openapi: 3.1.0
paths:
  /subscribe: {post: {operationId: subscribe, callbacks: {baked: {'{$request.body#/url}': {post: {operationId: baked}}}}}}
webhooks: {ready: {post: {operationId: ready}}}",
    );
    let names: Vec<_> = found.inventory.tools.values().map(|tool| &*tool.manifest.name).collect();
    assert_eq!(names, ["subscribe"]);
}
