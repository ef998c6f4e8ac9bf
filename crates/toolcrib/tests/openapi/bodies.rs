//! Request bodies: the chosen media type and the serialization.

use serde_json::json;
use sources::openapi::{SpecOptions, SpecificationAddress};

use super::{call, discovered, discovered_at, input, order, sent_request, tool};

const PIZZA: &str = "{type: object, properties: {name: {type: string}, sizes: {type: array, items: {type: integer}}}}";

fn pizza(media_type: &str) -> String {
    order(&format!("content: {{{media_type}: {{schema: {PIZZA}}}}}"))
}

#[test]
fn an_object_is_sent_with_the_declared_json_media_type() {
    for media_type in
        ["application/json", "application/merge-patch+json", "application/vnd.pizza.v1+json"]
    {
        assert_eq!(
            call(&pizza(media_type), json!({"name": "Diavola", "sizes": [1, 2]})),
            format!(
                "POST https://pizza.example/orders\nContent-Type: {media_type}\n\n{}",
                r#"{"name":"Diavola","sizes":[1,2]}"#
            )
        );
    }
}

#[test]
fn a_media_type_range_is_sent_as_json() {
    for range in ["'*/*'", "'application/*'"] {
        let sent = call(&pizza(range), json!({"name": "Diavola"}));
        assert!(sent.contains("\nContent-Type: application/json\n"), "{sent}");
    }
}

#[test]
fn a_form_repeats_arrays_and_encodes_values() {
    assert_eq!(
        call(
            &pizza("application/x-www-form-urlencoded"),
            json!({"name": "a&b c", "sizes": [1, 2]})
        ),
        "POST https://pizza.example/orders\nContent-Type: application/x-www-form-urlencoded\n\n\
         name=a%26b%20c&sizes=1&sizes=2"
    );
}

#[test]
fn a_form_follows_its_encoding_object() {
    let specification = order(
        "content: {application/x-www-form-urlencoded: {
            schema: {type: object, properties: {sizes: {type: array, items: {}}, to: {type: object}, by: {type: object}}},
            encoding: {sizes: {style: pipeDelimited, explode: false}, to: {style: deepObject, explode: true},
                       by: {contentType: application/json}}}}",
    );
    assert_eq!(
        call(&specification, json!({"sizes": [1, 2], "to": {"street": "Via 1"}, "by": {"at": 7}})),
        "POST https://pizza.example/orders\nContent-Type: application/x-www-form-urlencoded\n\n\
         sizes=1%7C2&to%5Bstreet%5D=Via%201&by=%7B%22at%22%3A7%7D"
    );
}

#[test]
fn a_multipart_body_has_text_json_and_file_parts() {
    let specification = order(
        "content: {multipart/form-data: {
            schema: {type: object, properties: {
                name: {type: string}, notes: {type: array, items: {type: string}},
                to: {type: object}, photo: {type: string, format: binary}}},
            encoding: {photo: {contentType: 'image/png, image/jpeg'}}}}",
    );
    let arguments = json!({
        "name": "Diavola", "notes": ["hot", "cut"], "to": {"floor": 2},
        "photo": "data:image/webp;name=pizza.webp;base64,aGk=",
    });
    assert_eq!(
        call(&specification, arguments),
        r#"POST https://pizza.example/orders
Content-Type: multipart/form-data; boundary=BOUNDARY

--BOUNDARY
Content-Disposition: form-data; name="name"

Diavola
--BOUNDARY
Content-Disposition: form-data; name="notes"

hot
--BOUNDARY
Content-Disposition: form-data; name="notes"

cut
--BOUNDARY
Content-Disposition: form-data; name="to"
Content-Type: application/json

{"floor":2}
--BOUNDARY
Content-Disposition: form-data; name="photo"; filename="pizza.webp"
Content-Type: image/png

hi
--BOUNDARY--
"#
    );
}

#[test]
fn text_xml_and_bytes_are_sent_unchanged() {
    for (media_type, body, expected) in [
        ("text/plain", "line 1\n\"two\"", "line 1\n\"two\""),
        ("application/xml", "<pizza name=\"x\"/>", "<pizza name=\"x\"/>"),
        ("application/octet-stream", "raw", "raw"),
        ("image/png", "data:image/png;base64,aGk=", "hi"),
    ] {
        let specification =
            order(&format!("content: {{{media_type}: {{schema: {{type: string}}}}}}"));
        assert_eq!(
            call(&specification, json!({"body": body})),
            format!("POST https://pizza.example/orders\nContent-Type: {media_type}\n\n{expected}")
        );
    }
}

#[test]
fn a_non_object_body_is_the_argument_body() {
    for (schema, body, expected) in [
        ("{type: array, items: {type: object}}", json!([{"a": 1}]), r#"[{"a":1}]"#),
        ("{type: string}", json!("hot"), r#""hot""#),
        ("{type: object}", json!({"any": [1]}), r#"{"any":[1]}"#),
        ("{oneOf: [{type: object, properties: {a: {}}}, {type: string}]}", json!("x"), r#""x""#),
        ("{}", json!(null), "null"),
    ] {
        let specification = order(&format!("content: {{application/json: {{schema: {schema}}}}}"));
        let sent = call(&specification, json!({"body": body}));
        assert!(sent.ends_with(&format!("\n\n{expected}")), "{schema}: {sent}");
    }
}

#[test]
fn without_arguments_an_optional_body_is_omitted_and_a_required_one_is_empty() {
    let content = format!("content: {{application/json: {{schema: {PIZZA}}}}}");
    assert_eq!(call(&order(&content), json!({})), "POST https://pizza.example/orders");
    assert_eq!(
        call(&order(&format!("required: true, {content}")), json!({})),
        "POST https://pizza.example/orders\nContent-Type: application/json\n\n{}"
    );
}

#[test]
fn json_is_preferred_unless_a_setting_names_another_media_type() {
    let specification = order(&format!(
        "content: {{application/xml: {{schema: {PIZZA}}}, multipart/form-data: {{schema: {PIZZA}}},
                   application/x-www-form-urlencoded: {{schema: {PIZZA}}}, application/json: {{schema: {PIZZA}}}}}"
    ));
    let with = |media_type: Option<&str>| {
        let media_type = media_type.map(str::to_owned);
        let options = SpecOptions { media_type, ..SpecOptions::default() };
        let found = discovered_at(SpecificationAddress::Inline, &specification, &options);
        let whole = input_of(&found).get("body").is_some();
        let arguments = if whole { json!({"body": "<a/>"}) } else { json!({"name": "x"}) };
        let sent = sent_request(tool(&found, "order"), arguments);
        sent.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(with(None), "Content-Type: application/json");
    assert_eq!(with(Some("APPLICATION/XML")), "Content-Type: application/xml");
    assert_eq!(
        with(Some("application/x-www-form-urlencoded")),
        "Content-Type: application/x-www-form-urlencoded"
    );
    assert_eq!(with(Some("text/unknown")), "Content-Type: application/json");
}

fn input_of(found: &sources::openapi::DiscoveredInventory) -> serde_json::Value {
    let tool = tool(found, "order");
    tool.schema(&tool.manifest.input_schema).to_served()["properties"].clone()
}

#[test]
fn read_only_fields_are_not_arguments() {
    let specification = order(
        "required: true, content: {application/json: {schema: {type: object, required: [id, name, pin],
            properties: {id: {type: string, readOnly: true}, name: {type: string}, pin: {type: string, writeOnly: true}}}}}",
    );
    let input = input(&specification);
    assert_eq!(input["required"], json!(["name", "pin"]));
    assert_eq!(input["properties"].get("id"), None);
}

#[test]
fn null_clears_a_field_and_differs_from_omission() {
    let specification = order(
        "content: {application/json: {schema: {type: object, properties: {
            note: {type: string, nullable: true}, size: {type: integer}}}}}",
    );
    assert_eq!(
        call(&specification, json!({"note": null})),
        "POST https://pizza.example/orders\nContent-Type: application/json\n\n{\"note\":null}"
    );
    assert!(call(&specification, json!({"size": null})).starts_with("refused: /size"));
}

#[test]
fn the_parts_of_an_all_of_form_one_object() {
    let specification = order(
        "required: true, content: {application/json: {schema: {allOf: [
            {type: object, required: [name], properties: {name: {type: string}}},
            {type: object, required: [size], properties: {size: {type: integer}}}]}}}",
    );
    let sent = call(&specification, json!({"name": "Diavola", "size": 2}));
    assert!(sent.ends_with(r#"{"name":"Diavola","size":2}"#), "{sent}");
    assert!(call(&specification, json!({"name": "Diavola"})).starts_with("refused: "));
}

#[test]
fn a_recursive_body_is_validated_at_every_depth() {
    let specification = format!(
        "{}components: {{schemas: {{Topping: {{type: object, properties: {{name: {{type: string}},
            on: {{type: array, items: {{$ref: '#/components/schemas/Topping'}}}}}}}}}}}}",
        order("content: {application/json: {schema: {$ref: '#/components/schemas/Topping'}}}")
    );
    let found = discovered(&specification);
    let deep = |name| json!({"on": [{"on": [{"on": [{"name": name}]}]}]});
    let sent = |name| sent_request(tool(&found, "order"), deep(name));
    assert!(sent(json!("basil")).ends_with(r#"{"on":[{"on":[{"on":[{"name":"basil"}]}]}]}"#));
    assert!(sent(json!(1)).starts_with("refused: /on/0/on/0/on/0/name"));
}

#[test]
fn read_only_fields_are_not_sent_even_if_given() {
    let specification = order(
        "required: true, content: {application/json: {schema: {type: object, properties: {
            role: {type: string, readOnly: true}, name: {type: string}}}}}",
    );
    assert_eq!(
        call(&specification, json!({"name": "Diavola", "role": "admin"})),
        "POST https://pizza.example/orders\nContent-Type: application/json\n\n{\"name\":\"Diavola\"}"
    );
}
