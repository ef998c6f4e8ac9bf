//! JSON of every kind, as the whole body and as an argument of a call: malformed JSON is rejected, and valid JSON
//! arrives unchanged.

use serde_json::{Value, json};

use super::{Wire, parse_json, status_and_code};
use crate::api::mcp::{grant, key};
use crate::api::server::{Ask, Server};
use crate::support::ok;
use crate::upstream::Upstream;

/// Texts that are not JSON.
const MALFORMED: &[&str] = &[
    // Empty, or white space only.
    "",
    " ",
    "\t\r\n",
    "\u{a0}",
    "\u{c}",
    "\u{b}",
    "\u{2028}",
    // Truncated.
    "[",
    "{",
    "[[",
    "[1",
    "[1,",
    "[\"a\"",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":1",
    "{\"a\":1,",
    "\"",
    "\"a",
    "\"\\",
    "\"\\\"",
    "[{}",
    "{\"a\":[",
    "[\"a\",\n4\n,1,",
    "[{\"\":[",
    // Closed twice, or continued after the end.
    "]",
    "}",
    "[}",
    "{]",
    "[1}",
    "{\"a\":1]",
    "{}{}",
    "[][]",
    "{}x",
    "[1]1",
    "{} []",
    "1 2",
    "null null",
    "{}}",
    "[]]",
    "{}\0",
    "\"a\"b",
    "{\"a\":1}\u{1}",
    "[1],",
    "\"a\":1",
    // Commas and colons.
    ",",
    ":",
    "[,]",
    "[,1]",
    "[1,]",
    "[1,,2]",
    "[1 2]",
    "[1;2]",
    "[1:2]",
    "{,}",
    "{\"a\",1}",
    "{\"a\" 1}",
    "{\"a\"::1}",
    "{\"a\":1,}",
    "{\"a\":1,,\"b\":2}",
    "{\"a\":1 \"b\":2}",
    "{:1}",
    "{\"a\":}",
    "{\"a\":1:2}",
    "{\"a\"}",
    // Object keys.
    "{a:1}",
    "{'a':1}",
    "{1:2}",
    "{null:1}",
    "{[]:1}",
    "{\"a\":b}",
    // Literals.
    "nul",
    "nulll",
    "NULL",
    "Null",
    "tru",
    "True",
    "fals",
    "undefined",
    "None",
    "NaN",
    "-NaN",
    "Infinity",
    "-Infinity",
    "a",
    "truefalse",
    // Numbers.
    "+1",
    "-",
    "--1",
    "-+1",
    "01",
    "-01",
    "00",
    "1.",
    ".1",
    "-.1",
    "1.e1",
    "1e",
    "1e+",
    "1E-",
    "1ee1",
    "1e1.5",
    "0x10",
    "1_000",
    "1 000",
    "\u{ff11}",
    "1.2.3",
    "1a",
    "-a",
    "0e",
    "1/2",
    "1n",
    "\u{2212}1",
    // Strings.
    "'a'",
    "`a`",
    "\"\\x41\"",
    "\"\\a\"",
    "\"\\u12\"",
    "\"\\u12g4\"",
    "\"\\U0041\"",
    "\"\\u{41}\"",
    "\"\n\"",
    "\"\t\"",
    "\"\0\"",
    "\"\u{1f}\"",
    // Comments and syntax of other languages.
    "{} //",
    "/**/{}",
    "{\"a\":/**/1}",
    "#\n{}",
    "<a/>",
    "{{}}",
    "[...[]]",
];

/// Valid by the grammar of JSON, but with a string or number that cannot be represented.
const UNREPRESENTABLE: &[&str] = &[
    "\"\\ud800\"",
    "\"\\udc00\"",
    "\"\\ud800\\u0041\"",
    "\"\\ud800x\"",
    "\"\\ud800\\ud800\"",
    "\"\\udbff\\udbff\"",
    "[\"\\uDFAA\"]",
    "1e400",
    "-1e400",
    "1E+309",
    "1e999999999999",
    "1e-400",
    "123e-10000000",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "-123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
    "3.14159265358979323846",
    "1.0000000000000000000000000000001",
    "[1,{\"a\":[99999999999999999999]}]",
    "1.2345678e-320",
];

/// Objects with a duplicate key, whichever way it is escaped.
const TWICE: &[&str] = &[
    r#"{"a":1,"a":1}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"a":1,"b":2,"a":3}"#,
    r#"{"a":1,"\u0061":1}"#,
    r#"{"":1,"":1}"#,
    r#"{"a":{},"a":[]}"#,
    r#"{"a":null,"a":null}"#,
    r#"[{"a":1,"a":1}]"#,
    r#"{"x":{"y":[{"a":1,"a":1}]}}"#,
    r#"{"é":1,"\u00e9":1}"#,
    r#"{"\ud83d\ude00":1,"😀":1}"#,
    r#"{"a":{"b":1},"a":{"b":1}}"#,
];

/// Valid JSON, ordinary and unusual.
const GOOD: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-0.0",
    "1",
    "-1",
    "0.0",
    "0e5",
    "0E-5",
    "1.5",
    "1e2",
    "1E2",
    "1e+2",
    "1e-2",
    "0.1",
    "1.10",
    "123456789012345",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "1e300",
    "5e-324",
    "1e22",
    "1.7976931348623157e308",
    "0.30000000000000004",
    "100000000000000000000.0",
    "\"\"",
    "\" \"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u0000\"",
    "\"\\u001f\"",
    "\"\\u0041\"",
    "\"\\uABCD\\uabcd\"",
    "\"\\ud83d\\ude00\"",
    "\"😀\"",
    "\"\u{2028}\u{2029}\"",
    "\"\u{7f}\"",
    "\"\\uffff\\ufffe\"",
    "\"\u{fdd0}\"",
    "\"e\u{301}\"",
    "\"\u{202e}a\"",
    "\"\u{feff}\"",
    "\"\u{10ffff}\"",
    "\"a\\u0000b\"",
    "\"<script>\"",
    "\"'; DROP TABLE tools; --\"",
    "\"${jndi:ldap://x}\"",
    "\"{{7*7}}\"",
    "[]",
    "{}",
    "[[]]",
    "[{}]",
    "[null,1,\"1\",{}]",
    " [ 1 ,\r\n\t2 ] ",
    "{\"\":0}",
    "{\"a\":{\"a\":{\"a\":{}}}}",
    "{\"a\":1,\"A\":2}",
    "{\"\u{e9}\":1,\"e\u{301}\":2}",
    "{\"__proto__\":{\"x\":1}}",
    "{\"constructor\":{\"prototype\":1}}",
    "{\"$ref\":\"#/a\"}",
    "{\"a b\":1,\"\\u0000\":2}",
    "{\"value\":{\"value\":1}}",
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"extra\":1}",
];

/// Bytes that are not UTF-8, or that start with a byte order mark.
fn bodies_in_other_encodings() -> Vec<Vec<u8>> {
    let utf16 = |bytes: fn(u16) -> [u8; 2]| "{\"a\":1}".encode_utf16().flat_map(bytes).collect();
    vec![
        b"\"\xff\"".to_vec(),
        b"\"\xc0\xaf\"".to_vec(),
        b"\"\xe0\x80\xaf\"".to_vec(),
        b"\"\xed\xa0\x80\"".to_vec(),
        b"\"\xf4\x90\x80\x80\"".to_vec(),
        b"\"\xe2\x82\"".to_vec(),
        b"\"\x80\"".to_vec(),
        b"{\"\xff\":1}".to_vec(),
        b"[\xff]".to_vec(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"\xef\xbb".to_vec(),
        utf16(u16::to_le_bytes),
        utf16(u16::to_be_bytes),
        [&b"\xff\xfe"[..], &utf16(u16::to_le_bytes)].concat(),
        b"\x1f\x8b\x08\x00".to_vec(),
    ]
}

fn too_deep() -> Vec<Vec<u8>> {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth)).into_bytes()
    };
    vec![
        nested("[", "]", 200),
        nested("[", "]", 10_000),
        nested("{\"a\":", "}", 10_000),
        nested("[{\"a\":", "}]", 5_000),
        "[".repeat(100_000).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
    ]
}

/// All bodies that must be rejected.
fn rejected_bodies() -> Vec<Vec<u8>> {
    let texts = MALFORMED.iter().chain(UNREPRESENTABLE).chain(TWICE);
    let texts = texts.map(|text| text.as_bytes().to_vec());
    texts.chain(bodies_in_other_encodings()).chain(too_deep()).collect()
}

/// Server whose tool `echo` returns its argument `value`.
fn world() -> (Server, Upstream, String) {
    let upstream = Upstream::replying(|request| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        ok("application/json", body)
    });
    let server = Server::start();
    let schema = json!({"type": "object", "properties": {"value": {}}, "required": ["value"]});
    let body = json!({"required": true, "content": {"application/json": {"schema": schema}}});
    let operation = json!({"operationId": "echo", "requestBody": body, "responses": {"200": {"description": "ok"}}});
    let text = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": upstream.url("")}],
        "paths": {"/echo": {"post": operation}},
    });
    let settings = json!({"kind": "openapi", "specification": {"text": text.to_string()}});
    let source = json!({"name": "s", "settings": settings, "allow": ["127.0.0.1"]});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/s", |source| !source["inventory"].is_null());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "s"}]})).ok();
    grant(&server, "staff", "all");
    // Return the whole result, not a truncated one.
    let patch = Ask::new("PATCH", "/api/tools/s:echo").bearer(&server.key);
    server.send(&patch.json(&json!({"max_result_bytes": 1 << 20}))).ok();
    let key = key(&server, "bot", &json!({"role": "staff"}));
    (server, upstream, key)
}

/// Call with these bytes as the argument.
fn call(value: &[u8]) -> Vec<u8> {
    let start = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"#;
    [start, value, b"}}}"].concat()
}

fn preview(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(60).collect()
}

#[test]
fn malformed_json_is_rejected_as_body_and_as_argument() {
    let (server, upstream, key) = world();
    let mut wire = Wire::new(&server, &key);
    let all = rejected_bodies();
    assert!(150 <= all.len(), "{}", all.len());
    for bytes in all {
        for body in [bytes.clone(), call(&bytes)] {
            let came = wire.send(&body);
            assert_eq!(status_and_code(&came), (400, -32700), "{}", preview(&body));
            // The error has no id: the message could not be parsed.
            assert!(parse_json(&came.1).get("id").is_none());
            assert!(came.1.len() < 1_000, "{}", came.1.len());
            wire.assert_still_answers();
        }
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn json_that_is_no_message_is_an_invalid_request() {
    let (server, upstream, key) = world();
    let mut wire = Wire::new(&server, &key);
    for text in GOOD.iter().filter(|text| !text.contains("jsonrpc")) {
        assert_eq!(status_and_code(&wire.send(text.as_bytes())), (400, -32600), "{text}");
        wire.assert_still_answers();
    }
    assert!(upstream.requests().is_empty());
}

#[test]
fn valid_json_arrives_unchanged() {
    let (server, upstream, key) = world();
    let mut wire = Wire::new(&server, &key);
    let long = format!("\"{}\"", "é".repeat(200_000));
    let many = format!("[{}0]", "0,".repeat(90_000));
    let members: Vec<String> = (0..5_000).map(|number| format!("\"m{number}\":{number}")).collect();
    let members = format!("{{{}}}", members.join(","));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let texts = GOOD.iter().copied().chain([long.as_str(), &many, &members, &deep]);
    for (number, text) in texts.enumerate() {
        let (status, body) = wire.send(&call(text.as_bytes()));
        let answer = parse_json(&body);
        let expected: Value = serde_json::from_str(text).unwrap();
        let result = &answer["result"];
        assert_eq!(
            (status, &answer["id"]),
            (200, &json!(1)),
            "{}: {}",
            preview(text.as_bytes()),
            preview(body.as_bytes())
        );
        // An upstream response may not be as large as a request.
        let is_large = 1 << 19 < text.len();
        let value = &result["structuredContent"]["value"];
        assert!(is_large || *value == expected, "{}", preview(text.as_bytes()));
        let sent = upstream.requests().swap_remove(number);
        let (_, sent) = sent.split_once("\r\n\r\n").unwrap();
        assert!(parse_json(sent) == json!({"value": expected}), "{}", preview(text.as_bytes()));
        wire.assert_still_answers();
    }
}
