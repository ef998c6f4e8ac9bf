//! JSON that is not a valid JSON-RPC message: the error code, and the id if it can be repeated.

use serde_json::{Value, json};

use super::{Wire, parse_json, status_and_code};
use crate::api::server::Server;

/// Sends an invalid message; returns the code and the id of the error.
fn id_and_code(wire: &mut Wire<'_>, message: &str) -> (i64, Value) {
    let came = wire.send(message.as_bytes());
    let (status, code) = status_and_code(&came);
    assert_eq!(status, 400, "{}", came.1);
    wire.assert_still_answers();
    (code, parse_json(&came.1)["id"].take())
}

#[test]
fn an_invalid_message_gets_an_error_with_its_id() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    for message in [
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":null,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":["2.0"],"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0 ","id":1,"method":"ping"}"#,
        r#"{"JSONRPC":"2.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"Method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"METHOD":"ping","Params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":["ping"]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"{}"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
    ] {
        assert_eq!(id_and_code(&mut wire, message), (-32600, json!(1)), "{message}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "a".repeat(1 << 20));
    assert_eq!(id_and_code(&mut wire, &long), (-32600, json!(1)));
}

#[test]
fn an_invalid_id_is_not_repeated() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    for id in ["null", "1.5", "1.0", "1e3", "-0", "true", "[]", "{}", "[1]", r#"{"a":1}"#] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        assert_eq!(id_and_code(&mut wire, &message), (-32600, Value::Null), "{id}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "a".repeat(1 << 20));
    assert_eq!(id_and_code(&mut wire, &long), (-32600, Value::Null));
    // A number this large cannot be represented, so the body counts as malformed.
    let large = r#"{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}"#;
    assert_eq!(id_and_code(&mut wire, large), (-32700, Value::Null));
    for id in [
        "0",
        "-1",
        "9223372036854775807",
        "18446744073709551615",
        r#""""#,
        r#""1""#,
        r#""\u0000""#,
        r#""é\n\"""#,
        r#""null""#,
    ] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        let (status, body) = wire.send(message.as_bytes());
        let expected: Value = serde_json::from_str(id).unwrap();
        assert_eq!((status, &parse_json(&body)["id"]), (200, &expected));
    }
}

#[test]
fn keys_are_case_sensitive_and_unique() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    // `ſ` (long s) does not count as `s`, so the message has no parameters.
    for name in ["paramſ", "Params", "PARAMS", "params ", "parameters"] {
        let message =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", name: {"name": "x"}});
        let (status, body) = wire.send(message.to_string().as_bytes());
        let error = &parse_json(&body)["error"];
        assert_eq!((status, &error["message"]), (200, &json!("`name` must be a text")), "{name}");
    }
    // A message with a duplicate key is rejected.
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":{"y":1,"y":2}}}}"#,
    ] {
        assert_eq!(id_and_code(&mut wire, message), (-32700, Value::Null), "{message}");
    }
}

#[test]
fn batches_are_rejected_in_every_version() {
    let server = Server::start();
    let mut wire = Wire::new(&server, &server.key);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let many = format!("[{}{ping}]", format!("{ping},").repeat(10_000));
    for batch in ["[]", &format!("[{ping}]"), &format!("[{ping},{ping}]"), "[[]]", "[1,2]", &many] {
        let came = wire.send(batch.as_bytes());
        assert_eq!(status_and_code(&came), (400, -32600));
        let message = &parse_json(&came.1)["error"]["message"];
        assert_eq!(message, "a message is one JSON object; batches are not taken");
        wire.assert_still_answers();
        for version in ["2025-03-26", "2025-11-25", "2026-07-28"] {
            let head = wire.head();
            let head = format!(
                "{head}MCP-Protocol-Version: {version}\r\nContent-Type: application/json\r\n"
            );
            let request = format!("{head}Content-Length: {}\r\n\r\n{batch}", batch.len());
            let came = wire.write(request.as_bytes()).unwrap();
            assert_eq!(status_and_code(&came), (400, -32600), "{version}");
        }
    }
}
