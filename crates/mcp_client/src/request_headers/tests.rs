//! Repeated headers: their values and encoding, and invalid annotations.

use serde_json::json;

use super::*;

fn shown(method: &str, params: Value, schema: Value) -> Vec<String> {
    let headers = modern_headers(method, params.as_object().unwrap(), Some(&schema)).unwrap();
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    headers.iter().map(line).collect()
}

#[test]
fn names_and_arguments_are_repeated_in_headers() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "size": {"type": "integer", "x-mcp-header": "Size"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
        "none": {"type": "string", "x-mcp-header": "None"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deep"}}},
    }});
    let arguments = json!({"region": "Zürich", "size": 42, "dry": false, "none": null,
        "deep": {"er": "=?base64?YQ==?="}});
    let params = json!({"name": "order", "arguments": arguments});
    assert_eq!(
        shown("tools/call", params, schema),
        [
            "mcp-method: tools/call",
            "mcp-name: order",
            "mcp-param-region: =?base64?WsO8cmljaA==?=",
            "mcp-param-size: 42",
            "mcp-param-dry: false",
            "mcp-param-deep: =?base64?PT9iYXNlNjQ/WVE9PT89?=",
        ]
    );
    assert_eq!(
        shown("resources/read", json!({"uri": "a://b "}), json!({})),
        ["mcp-method: resources/read", "mcp-name: =?base64?YTovL2Ig?="]
    );
    assert_eq!(shown("tools/list", json!({"name": "x"}), json!({})), ["mcp-method: tools/list"]);
}

#[test]
fn an_argument_of_an_unsuitable_type_is_rejected() {
    let schema = json!({"properties": {"a": {"type": "integer", "x-mcp-header": "A"}}});
    for wrong in [json!(1.5), json!([1]), json!({}), json!(u64::MAX)] {
        let params = json!({"name": "t", "arguments": {"a": wrong}});
        let refused = modern_headers("tools/call", params.as_object().unwrap(), Some(&schema));
        assert!(
            matches!(refused, Err(McpError::InvalidHeaderArgument { argument }) if &*argument == "a")
        );
    }
    let whole = json!({"name": "t", "arguments": {"a": 2.0}});
    assert!(shown("tools/call", whole, schema).contains(&"mcp-param-a: 2".to_owned()));
}

#[test]
fn invalid_annotations_are_reported() {
    let property = |header: Value, kind: &str| json!({"type": kind, "x-mcp-header": header});
    let one = |property: Value| json!({"properties": {"a": property}});
    for wrong in [
        one(property(json!(""), "string")),
        one(property(json!("a b"), "string")),
        one(property(json!("a\r\nb"), "string")),
        one(property(json!("ä"), "string")),
        one(property(json!(1), "string")),
        one(property(json!("A"), "number")),
        one(property(json!("A"), "object")),
        json!({"properties": {"a": property(json!("A"), "string"), "b": property(json!("a"), "string")}}),
        json!({"type": "string", "x-mcp-header": "Root"}),
        one(json!({"type": "array", "items": property(json!("A"), "string")})),
        json!({"anyOf": [one(property(json!("A"), "string"))]}),
        json!({"$defs": {"d": property(json!("A"), "string")}}),
    ] {
        assert!(annotation_error(&wrong).is_some(), "{wrong}");
    }
    for right in [
        json!({}),
        one(property(json!("A"), "string")),
        one(json!({"type": "object", "default": {"x-mcp-header": 1}})),
        one(json!({"$ref": "https://example.com/never/fetched"})),
    ] {
        assert_eq!(annotation_error(&right), None, "{right}");
    }
}
