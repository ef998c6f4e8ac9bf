//! Every parameter style in every location, as in the table "Style Examples" of OpenAPI 3.0.4 and 3.1.1.

use serde_json::{Value, json};

use super::{api, call, discovered, sent_request, tool};

/// Accepts the three types of values in the table.
const ANY: &str = "schema: {anyOf: [{type: string}, {type: array}, {type: object}]}";

/// The request line of a call with this value, for one operation with a parameter `bake`.
fn line(location: &str, style: &str, value: &Value) -> String {
    line_of(location, &format!("{ANY}, {style}"), value)
}

fn line_of(location: &str, more: &str, value: &Value) -> String {
    let path = if location == "path" { "/oven/{bake}" } else { "/oven" };
    let parameter = format!("{{in: {location}, name: bake, required: true, {more}}}");
    let paths = format!("  {path}: {{get: {{operationId: heat, parameters: [{parameter}]}}}}");
    let sent = call(&api(&paths), json!({"bake": value}));
    sent.replace("GET https://pizza.example/oven", "")
}

/// A string, an array and an object, serialized in a style.
fn serialize_in_style(location: &str, style: &str) -> [String; 3] {
    let values = [json!("thin"), json!(["thin", "crisp"]), json!({"min": 200, "max": 300})];
    values.map(|value| line(location, style, &value))
}

#[test]
fn path_parameters_follow_every_style() {
    for (style, expected) in [
        ("style: simple", ["/thin", "/thin,crisp", "/min,200,max,300"]),
        ("style: simple, explode: true", ["/thin", "/thin,crisp", "/min=200,max=300"]),
        ("style: label", ["/.thin", "/.thin,crisp", "/.min,200,max,300"]),
        ("style: label, explode: true", ["/.thin", "/.thin.crisp", "/.min=200.max=300"]),
        ("style: matrix", ["/;bake=thin", "/;bake=thin,crisp", "/;bake=min,200,max,300"]),
        (
            "style: matrix, explode: true",
            ["/;bake=thin", "/;bake=thin;bake=crisp", "/;min=200;max=300"],
        ),
    ] {
        assert_eq!(serialize_in_style("path", style), expected, "{style}");
    }
    assert_eq!(
        serialize_in_style("path", "x-usual: yes"),
        serialize_in_style("path", "style: simple, explode: false")
    );
}

#[test]
fn query_parameters_follow_every_style() {
    for (style, expected) in [
        ("style: form", ["?bake=thin", "?bake=thin&bake=crisp", "?min=200&max=300"]),
        (
            "style: form, explode: false",
            ["?bake=thin", "?bake=thin,crisp", "?bake=min,200,max,300"],
        ),
        (
            "style: spaceDelimited",
            ["?bake=thin", "?bake=thin%20crisp", "?bake=min%20200%20max%20300"],
        ),
        (
            "style: pipeDelimited",
            ["?bake=thin", "?bake=thin%7Ccrisp", "?bake=min%7C200%7Cmax%7C300"],
        ),
        (
            "style: spaceDelimited, explode: true",
            ["?bake=thin", "?bake=thin&bake=crisp", "?min=200&max=300"],
        ),
    ] {
        assert_eq!(serialize_in_style("query", style), expected, "{style}");
    }
    assert_eq!(
        serialize_in_style("query", "x-usual: yes"),
        serialize_in_style("query", "style: form, explode: true")
    );
}

#[test]
fn an_untyped_object_value_cannot_add_query_parameters() {
    let value = json!({"admin": true});
    for more in ["schema: {}", "style: spaceDelimited, explode: true", "schema: {type: anything}"] {
        assert_eq!(line_of("query", more, &value), "?bake=%7B%22admin%22%3Atrue%7D", "{more}");
    }
    assert_eq!(line_of("cookie", "schema: {}", &value), "\nCookie: bake={%22admin%22:true}");
    let list = json!(["thin", "crisp"]);
    assert_eq!(line_of("query", "schema: {}", &list), "?bake=thin&bake=crisp");
}

#[test]
fn a_deep_object_names_its_fields_in_brackets() {
    let deep = |value| line("query", "style: deepObject, explode: true", &value);
    assert_eq!(deep(json!({"min": 200, "by": "me"})), "?bake%5Bmin%5D=200&bake%5Bby%5D=me");
    assert_eq!(deep(json!({"a b": "&="})), "?bake%5Ba%20b%5D=%26%3D");
}

#[test]
fn header_parameters_follow_every_style() {
    for (style, expected) in [
        ("style: simple", ["bake: thin", "bake: thin,crisp", "bake: min,200,max,300"]),
        (
            "style: simple, explode: true",
            ["bake: thin", "bake: thin,crisp", "bake: min=200,max=300"],
        ),
    ] {
        let expected = expected.map(|line| format!("\n{line}"));
        assert_eq!(serialize_in_style("header", style), expected, "{style}");
    }
}

#[test]
fn cookie_parameters_follow_every_style() {
    for (style, expected) in [
        ("style: form, explode: false", ["bake=thin", "bake=thin,crisp", "bake=min,200,max,300"]),
        ("style: form", ["bake=thin", "bake=thin; bake=crisp", "min=200; max=300"]),
    ] {
        let expected = expected.map(|cookie| format!("\nCookie: {cookie}"));
        assert_eq!(serialize_in_style("cookie", style), expected, "{style}");
    }
}

#[test]
fn cookies_share_one_header_and_no_value_can_add_another_cookie() {
    let found = discovered(&api("  /oven:
    get:
      operationId: heat
      parameters:
        - {in: cookie, name: guest, schema: {type: string}}
        - {in: cookie, name: table, schema: {type: integer}}"));
    let sent = |arguments| sent_request(tool(&found, "heat"), arguments);
    assert_eq!(
        sent(json!({"guest": "ann", "table": 7})),
        "GET https://pizza.example/oven\nCookie: guest=ann; table=7"
    );
    assert_eq!(
        sent(json!({"guest": "ann; admin=1"})),
        "GET https://pizza.example/oven\nCookie: guest=ann%3B%20admin=1"
    );
    assert_eq!(sent(json!({})), "GET https://pizza.example/oven");
}

#[test]
fn a_parameter_with_a_media_type_is_serialized_in_it() {
    let json = "content: {application/json: {schema: {}}}";
    let value = json!({"min": [1, "ü"]});
    assert_eq!(line("query", json, &value), "?bake=%7B%22min%22%3A%5B1%2C%22%C3%BC%22%5D%7D");
    assert_eq!(line("path", json, &value), "/%7B%22min%22%3A%5B1%2C%22%C3%BC%22%5D%7D");
    assert_eq!(line("header", json, &value), "\nbake: {\"min\":[1,\"\\u00fc\"]}");
    let text = "content: {text/plain: {schema: {type: string}}}";
    assert_eq!(line("query", text, &json!("a b")), "?bake=a%20b");
    assert_eq!(line("header", text, &json!("a b")), "\nbake: a b");
}

#[test]
fn allowed_reserved_characters_are_kept_but_never_end_the_value() {
    let reserved = |value| line("query", "allowReserved: true", &json!(value));
    assert_eq!(reserved("/a/b:c?d[e]@!$()*,;="), "?bake=/a/b:c?d[e]@!$()*,;=");
    assert_eq!(reserved("a&b#c+d%20"), "?bake=a%26b%23c%2Bd%20");
    assert_eq!(line("query", "allowReserved: false", &json!("/?")), "?bake=%2F%3F");
}
