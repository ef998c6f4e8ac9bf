//! Headers that mirror the body: required, unique, and equal to the body.

use serde_json::json;

use super::Era::Modern;
use super::{ACCEPT, VERSION, error_of_answer, request};
use crate::api::calls::Shop;
use crate::api::server::{Answer, Ask};

const VALID: [(&str, &str); 3] =
    [("MCP-Protocol-Version", VERSION), ("Mcp-Method", "tools/call"), ("Mcp-Name", "get_pet")];

/// A call of `get_pet` with these headers.
fn call(shop: &Shop, headers: &[(&str, &str)]) -> Answer {
    let ask = Ask::new("POST", "/mcp").bearer(&shop.key).header("Accept", ACCEPT);
    let ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    let params = json!({"name": "get_pet", "arguments": {"id": 7}});
    shop.server.send(&ask.json(&request(Modern, json!(1), "tools/call", params)))
}

/// The valid headers with the values of one replaced, or without it if there are no values.
fn valid_except(name: &str, values: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    let mut headers: Vec<_> = VALID.into_iter().filter(|(known, _)| *known != name).collect();
    let name = VALID.iter().find(|(known, _)| *known == name).unwrap().0;
    headers.extend(values.iter().map(|value| (name, *value)));
    headers
}

#[test]
fn headers_that_match_the_body_are_accepted() {
    let shop = Shop::open();
    for headers in [
        VALID.to_vec(),
        valid_except("Mcp-Name", &["=?base64?Z2V0X3BldA==?="]),
        valid_except("Mcp-Name", &["  get_pet  "]),
        valid_except("Mcp-Method", &["\ttools/call"]),
    ] {
        let answer = call(&shop, &headers);
        assert_eq!(answer.ok()["result"]["resultType"], "complete", "{headers:?}");
    }
    // Header names are case-insensitive.
    let shouted = VALID.map(|(name, value)| (name.to_uppercase(), value));
    let shouted: Vec<_> = shouted.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(call(&shop, &shouted).status, 200);
}

#[test]
fn missing_or_different_headers_are_a_mismatch() {
    let shop = Shop::open();
    for headers in [
        valid_except("MCP-Protocol-Version", &[]),
        valid_except("MCP-Protocol-Version", &["2099-01-01"]),
        valid_except("MCP-Protocol-Version", &["2025-11-25"]),
        valid_except("MCP-Protocol-Version", &[VERSION, VERSION]),
        valid_except("MCP-Protocol-Version", &[VERSION, "2025-11-25"]),
        valid_except("MCP-Protocol-Version", &["2025-11-25", VERSION]),
        valid_except("MCP-Protocol-Version", &["\u{fc}"]),
        valid_except("Mcp-Method", &[]),
        valid_except("Mcp-Method", &[""]),
        valid_except("Mcp-Method", &["tools/list"]),
        valid_except("Mcp-Method", &["Tools/Call"]),
        valid_except("Mcp-Method", &["tools/call, tools/call"]),
        valid_except("Mcp-Method", &["tools/call", "tools/call"]),
        valid_except("Mcp-Method", &["=?base64?dG9vbHMvY2FsbA==?="]),
        valid_except("Mcp-Name", &[]),
        valid_except("Mcp-Name", &[""]),
        valid_except("Mcp-Name", &["add_pet"]),
        valid_except("Mcp-Name", &["GET_PET"]),
        valid_except("Mcp-Name", &["get_pet", "get_pet"]),
        valid_except("Mcp-Name", &["get_pet", "delete_pet"]),
        valid_except("Mcp-Name", &["=?base64?Z2V0X3BldA?="]),
        valid_except("Mcp-Name", &["=?base64?Z2V0X3BldA==?"]),
        valid_except("Mcp-Name", &["=?BASE64?Z2V0X3BldA==?="]),
        valid_except("Mcp-Name", &["=?base64?Z2V0 X3BldA==?="]),
        valid_except("Mcp-Name", &["=?base64??="]),
        valid_except("Mcp-Name", &["=?base64?/w==?="]),
        valid_except("Mcp-Name", &["=?base64?PT9iYXNlNjQ/WjJWMFgzQmxkQT09Pz0=?="]),
        valid_except("Mcp-Name", &["\u{fc}"]),
    ] {
        let answer = call(&shop, &headers);
        let (status, code, text) = error_of_answer(&answer);
        assert_eq!((status, code), (400, -32020), "{headers:?}: {text}");
        assert_eq!(answer.json()["id"], 1);
    }
    assert!(shop.upstream.requests().is_empty());
}

#[test]
fn the_legacy_generation_ignores_these_headers() {
    let shop = Shop::open();
    for version in [None, Some("2025-11-25"), Some("2025-06-18"), Some("2025-03-26")] {
        let ask = Ask::new("POST", "/mcp").bearer(&shop.key).header("Accept", ACCEPT);
        let ask = ask.header("Mcp-Method", "something/else").header("Mcp-Name", "else");
        let ask =
            version.into_iter().fold(ask, |ask, text| ask.header("MCP-Protocol-Version", text));
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(shop.server.send(&ask.json(&message)).ok()["result"], json!({}));
    }
    // An unknown version is rejected, not guessed.
    let ask = Ask::new("POST", "/mcp").bearer(&shop.key).header("MCP-Protocol-Version", "2020");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(shop.server.send(&ask.json(&message)).status, 400);
}
