//! Swagger 2.0 documents, which express the same with different keywords.

use serde_json::json;

use super::{call, discovered, sent_request, sent_with, tool};

fn swagger(operation: &str) -> String {
    format!(
        "swagger: '2.0'
host: pizza.example
basePath: /v1/
schemes: [http, https]
consumes: [application/json]
paths: {{/orders: {{post: {{operationId: order, {operation}}}}}}}
definitions: {{Pizza: {{type: object, required: [name], properties: {{name: {{type: string}}}}}}}}"
    )
}

#[test]
fn a_body_parameter_is_the_body() {
    let body = "parameters: [{in: body, name: pizza, required: true, schema: {$ref: '#/definitions/Pizza'}}]";
    assert_eq!(
        call(&swagger(body), json!({"name": "Diavola"})),
        "POST https://pizza.example/v1/orders\nContent-Type: application/json\n\n{\"name\":\"Diavola\"}"
    );
}

#[test]
fn consumes_of_the_operation_overrides_that_of_the_document() {
    let body =
        "consumes: [text/plain], parameters: [{in: body, name: note, schema: {type: string}}]";
    assert_eq!(
        call(&swagger(body), json!({"body": "hot"})),
        "POST https://pizza.example/v1/orders\nContent-Type: text/plain\n\nhot"
    );
}

#[test]
fn form_data_parameters_are_a_form() {
    let form = "consumes: [application/x-www-form-urlencoded], parameters: [
        {in: formData, name: name, type: string, required: true},
        {in: formData, name: with, type: array, items: {type: string}, collectionFormat: multi},
        {in: formData, name: without, type: array, items: {type: string}}]";
    assert_eq!(
        call(&swagger(form), json!({"name": "a b", "with": ["x", "y"], "without": ["1", "2"]})),
        "POST https://pizza.example/v1/orders\nContent-Type: application/x-www-form-urlencoded\n\n\
         name=a%20b&with=x&with=y&without=1,2"
    );
}

#[test]
fn a_file_makes_the_form_multipart() {
    let form = "consumes: [multipart/form-data], parameters: [
        {in: formData, name: photo, type: file, required: true}, {in: formData, name: note, type: string}]";
    assert_eq!(
        call(
            &swagger(form),
            json!({"photo": "data:image/png;name=p.png;base64,aGk=", "note": "n"})
        ),
        r#"POST https://pizza.example/v1/orders
Content-Type: multipart/form-data; boundary=BOUNDARY

--BOUNDARY
Content-Disposition: form-data; name="photo"; filename="p.png"
Content-Type: image/png

hi
--BOUNDARY
Content-Disposition: form-data; name="note"

n
--BOUNDARY--
"#
    );
}

#[test]
fn a_collection_format_sets_the_separator_of_an_array() {
    for (format, expected) in [
        ("", "a,b"),
        (", collectionFormat: csv", "a,b"),
        (", collectionFormat: ssv", "a%20b"),
        (", collectionFormat: pipes", "a%7Cb"),
        (", collectionFormat: multi", "a&with=b"),
    ] {
        let list = format!(
            "parameters: [{{in: query, name: with, type: array, items: {{type: string}}{format}}}]"
        );
        assert_eq!(
            call(&swagger(&list), json!({"with": ["a", "b"]})),
            format!("POST https://pizza.example/v1/orders?with={expected}"),
            "{format}"
        );
    }
}

#[test]
fn an_array_in_a_path_or_header_is_comma_separated() {
    let found = discovered(
        "swagger: 2.0
host: pizza.example
schemes: [http]
paths:
  /menu/{ids}:
    get:
      operationId: menu
      parameters:
        - {in: path, name: ids, required: true, type: array, items: {type: integer}}
        - {in: header, name: X-With, type: array, items: {type: string}, collectionFormat: csv}",
    );
    assert_eq!(
        sent_request(tool(&found, "menu"), json!({"ids": [1, 2], "X-With": ["a", "b"]})),
        "GET http://pizza.example/menu/1,2\nX-With: a,b"
    );
}

#[test]
fn security_definitions_work_like_security_schemes() {
    let found = discovered(
        "swagger: '2.0'
host: pizza.example
security: [{door: []}]
securityDefinitions: {door: {type: basic}, key: {type: apiKey, in: query, name: k}}
paths:
  /a: {get: {operationId: a}}
  /b: {get: {operationId: b, security: [{key: []}]}}",
    );
    let credentials = [("door", "ann:pw"), ("key", "K 1")];
    assert_eq!(
        sent_with(tool(&found, "a"), &credentials),
        "GET https://pizza.example/a\nAuthorization: Basic YW5uOnB3"
    );
    assert_eq!(sent_with(tool(&found, "b"), &credentials), "GET https://pizza.example/b?k=K%201");
}
