//! Which arguments a tool has, and what becomes of names that several things share (requirement O4).

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
fn the_first_of_path_query_header_and_cookie_keeps_the_name() {
    assert_eq!(
        call(
            &api(TABLE),
            json!({"id": "p", "id__query": "q", "id__header": "h", "id__cookie": "c"})
        ),
        "PUT https://pizza.example/tables/p?id=q\nCookie: id=c\nid: h"
    );
}

#[test]
fn a_member_of_the_body_keeps_its_name_before_all_of_them() {
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
fn a_whole_body_and_a_parameter_called_body_are_two_arguments() {
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
fn a_name_that_is_taken_again_is_lengthened() {
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
fn parameters_of_the_path_count_and_those_of_the_operation_win() {
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
fn a_name_in_the_path_that_is_nowhere_declared_is_a_required_text() {
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
fn several_names_may_stand_in_one_segment_and_one_name_in_several() {
    let specification = api("  /f/{name}.{ext}:{act}/{name}: {get: {}}");
    assert_eq!(
        call(&specification, json!({"name": "a.b", "ext": "gz", "act": "get"})),
        "GET https://pizza.example/f/a.b.gz:get/a.b"
    );
}

#[test]
fn what_a_path_says_behind_a_question_mark_is_always_sent() {
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
fn what_a_path_says_behind_a_hash_only_tells_operations_apart() {
    let found = discovered(&api("  /orders#new{x}: {post: {}}\n  /orders#old: {post: {}}"));
    let tools = found.inventory.tools.values();
    let sent: Vec<String> = tools.map(|tool| super::sent(tool, json!({}))).collect();
    assert_eq!(sent, ["POST https://pizza.example/orders", "POST https://pizza.example/orders"]);
}

#[test]
fn headers_that_say_who_asks_are_not_for_agents() {
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
    // The first three are no parameters by the rules of OpenAPI; the others are told.
    assert_eq!(warnings(&discovered(&specification)).len(), names.len() - 3);
}
