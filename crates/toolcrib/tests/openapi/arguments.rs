//! Arguments of OpenAPI tools, and names that several parameters share (requirement O4).

use serde_json::{Value, json};

use super::{api, call, discovered, input, menu, warnings};

fn properties(input: &Value) -> Vec<&str> {
    input["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

const TABLE: &str = "  /tables/{id}:
    put:
      operationId: seat
      parameters:
        - {in: header, name: id, schema: {type: string}}
        - {in: cookie, name: id, schema: {type: string}}
        - {in: query, name: id, schema: {type: string}}
        - {in: path, name: id, required: true, schema: {type: string}}";

#[test]
fn a_shared_name_goes_to_path_then_query_then_header_then_cookie() {
    assert_eq!(
        call(
            &api(TABLE),
            json!({"id": "p", "id__query": "q", "id__header": "h", "id__cookie": "c"})
        ),
        "PUT https://pizza.example/tables/p?id=q\nCookie: id=c\nid: h"
    );
}

#[test]
fn a_body_field_keeps_its_name_before_all_parameters() {
    let body = "      requestBody: {content: {application/json: {schema: {type: object, properties: {id: {}, note: {}}}}}}";
    let specification = api(&format!("{TABLE}\n{body}"));
    assert_eq!(
        call(
            &specification,
            json!({"id": 1, "note": "x", "id__path": "p", "id__query": "q", "id__header": "h", "id__cookie": "c"})
        ),
        "PUT https://pizza.example/tables/p?id=q\nCookie: id=c\nid: h\nContent-Type: application/json\n\n\
         {\"id\":1,\"note\":\"x\"}"
    );
}

#[test]
fn a_whole_body_and_a_parameter_named_body_are_two_arguments() {
    let specification = api(
        "  /notes: {post: {operationId: note, parameters: [{in: query, name: body, schema: {type: string}}],
            requestBody: {content: {text/plain: {schema: {type: string}}}}}}",
    );
    assert_eq!(
        call(&specification, json!({"body": "text", "body__query": "q"})),
        "POST https://pizza.example/notes?body=q\nContent-Type: text/plain\n\ntext"
    );
}

#[test]
fn a_name_whose_replacement_is_taken_gets_a_longer_suffix() {
    let specification = api(
        "  /a/{id}: {get: {parameters: [{in: path, name: id, schema: {}}, {in: query, name: id, schema: {}},
            {in: query, name: id__query, schema: {}}]}}",
    );
    assert_eq!(
        call(&specification, json!({"id": "p", "id__query": "own", "id__query_": "q"})),
        "GET https://pizza.example/a/p?id=q&id__query=own"
    );
}

#[test]
fn path_item_parameters_apply_and_operation_parameters_override_them() {
    let specification = api("  /tables/{id}:
    parameters:
      - {in: path, name: id, required: true, schema: {type: string}}
      - {in: query, name: size, schema: {type: integer}}
      - {in: header, name: X-Trace, schema: {type: string}}
    get:
      parameters: [{in: query, name: size, required: true, schema: {type: string, enum: [S, L]}}]");
    let input = input(&specification);
    assert_eq!(properties(&input), ["id", "X-Trace", "size"]);
    assert_eq!(input["required"], json!(["id", "size"]));
    assert_eq!(
        call(&specification, json!({"id": "1", "size": "L", "X-Trace": "t"})),
        "GET https://pizza.example/tables/1?size=L\nX-Trace: t"
    );
}

#[test]
fn an_undeclared_path_parameter_is_a_required_string() {
    let specification = api("  /a/{one}/b/{two-of.it}.json: {get: {}}");
    let schema = input(&specification);
    assert_eq!(schema["required"], json!(["one", "two-of.it"]));
    assert_eq!(schema["properties"]["one"], json!({"type": "string"}));
    assert_eq!(
        call(&specification, json!({"one": "1", "two-of.it": "2"})),
        "GET https://pizza.example/a/1/b/2.json"
    );
}

#[test]
fn a_segment_may_hold_several_parameters_and_a_parameter_may_repeat() {
    let specification = api("  /f/{name}.{ext}:{act}/{name}: {get: {}}");
    assert_eq!(
        call(&specification, json!({"name": "a.b", "ext": "gz", "act": "get"})),
        "GET https://pizza.example/f/a.b.gz:get/a.b"
    );
}

#[test]
fn a_query_string_in_a_path_is_always_sent() {
    let specification = api(
        "  /search?kind=pizza&by={by}: {get: {parameters: [{in: query, name: q, schema: {type: string}}]}}",
    );
    assert_eq!(
        call(&specification, json!({"q": "x y", "by": "a b&c"})),
        "GET https://pizza.example/search?kind=pizza&by=a%20b%26c&q=x%20y"
    );
    assert_eq!(call(&specification, json!({"q": "x"})), "refused:  \"by\" is a required property");
}

#[test]
fn a_fragment_in_a_path_only_distinguishes_operations() {
    let found = discovered(&api("  /orders#new{x}: {post: {}}\n  /orders#old: {post: {}}"));
    let tools = found.inventory.tools.values();
    let sent: Vec<String> = tools.map(|tool| super::sent_request(tool, json!({}))).collect();
    assert_eq!(sent, ["POST https://pizza.example/orders", "POST https://pizza.example/orders"]);
}

#[test]
fn agents_cannot_set_identity_headers() {
    let names = [
        "Accept",
        "Content-Type",
        "Authorization",
        "Host",
        "Cookie",
        "Content-Length",
        "Connection",
        "Transfer-Encoding",
        "Expect",
        "Keep-Alive",
        "X-Real-IP",
        "X-Forwarded-For",
        "Forwarded",
        "Proxy-Authorization",
        "Proxy-Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "a b",
        "größe",
    ];
    let parameters =
        names.map(|name| format!("{{in: header, name: '{name}', schema: {{type: string}}}}"));
    let specification = menu(&format!("parameters: [{}]", parameters.join(", ")));
    assert_eq!(properties(&input(&specification)), [""; 0]);
    assert_eq!(call(&specification, json!({})), "GET https://pizza.example/menu");
    // OpenAPI ignores parameters with the first three names; the others cause a warning.
    assert_eq!(warnings(&discovered(&specification)).len(), names.len() - 3);
}
