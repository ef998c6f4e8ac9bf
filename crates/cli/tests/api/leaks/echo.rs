//! Upstream that echoes every request: an API, an MCP server and a token endpoint.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::ok;
use crate::upstream::{Upstream, answer};

/// Tokens that it issues.
pub(super) const OWN: &str = "canary-own-7740.b1";
pub(super) const EXCHANGED: &str = "canary-exchanged-0c2e.b1";
/// Identity assertion that it issues; not an access token.
pub(super) const ASSERTION: &str = "canary-assertion-77af.b1";

/// Longer than any test waits for a call.
const LATE: Duration = Duration::from_millis(2_600);
const VERBS: [&str; 4] = ["echo", "odd", "fail", "late"];

pub(super) fn start() -> Upstream {
    Upstream::replying(reply)
}

/// OpenAPI document of a source.
pub(super) fn specification(source: &str) -> String {
    let paths = VERBS.map(|verb| {
        let id = format!("{verb}_{}", source.replace('-', "_"));
        let done = json!({"200": {"description": "ok"}});
        (format!("/{verb}"), json!({"get": {"operationId": id, "responses": done}}))
    });
    let paths: serde_json::Map<String, Value> = paths.into_iter().collect();
    json!({"openapi": "3.1.0", "info": {"title": source, "version": "1"}, "paths": paths})
        .to_string()
}

fn reply(request: &str) -> Vec<u8> {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    match path.trim_start_matches('/').split_once('/') {
        None if path == "/token" => token(request),
        Some((".well-known", place)) => metadata(place, request),
        None => message(path.trim_start_matches('/'), request),
        Some((_, "odd")) => ok("application/json", &format!("{{you sent {request}")),
        Some((_, "fail")) => {
            let said = format!("you sent {request}");
            answer("500 No", "Content-Type: text/plain\r\n", said.as_bytes())
        }
        Some((_, verb)) => {
            if verb == "late" {
                sleep(LATE);
            }
            ok("application/json", &json!({"you sent": lines(request)}).to_string())
        }
    }
}

fn lines(request: &str) -> Vec<&str> {
    request.lines().collect()
}

/// OAuth metadata as if each source were its own resource, and all of them shared one authorization server.
fn metadata(place: &str, request: &str) -> Vec<u8> {
    let host = request.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("host").then_some(value)
    });
    let base = format!("http://{}", host.unwrap_or_default());
    let metadata = match place.split_once('/') {
        Some(("oauth-protected-resource", source)) => {
            json!({"resource": format!("{base}/{source}"), "authorization_servers": [base]})
        }
        None if place == "oauth-authorization-server" => {
            json!({"issuer": base, "token_endpoint": format!("{base}/token")})
        }
        _ => return answer("404 No", "", b""),
    };
    ok("application/json", &metadata.to_string())
}

fn token(request: &str) -> Vec<u8> {
    let (token, kind, issued) = if request.contains("id-jag") {
        (ASSERTION, "N_A", "id-jag")
    } else if request.contains("token-exchange") || request.contains("jwt-bearer") {
        (EXCHANGED, "Bearer", "access_token")
    } else {
        (OWN, "Bearer", "access_token")
    };
    let issued = format!("urn:ietf:params:oauth:token-type:{issued}");
    let granted = json!({"access_token": token, "token_type": kind, "expires_in": 300,
        "issued_token_type": issued});
    ok("application/json", &granted.to_string())
}

/// Replies as the MCP server of a source.
fn message(source: &str, request: &str) -> Vec<u8> {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let Ok(message) = serde_json::from_str::<Value>(body) else {
        return answer("405 No", "", b"");
    };
    let (method, name) = (message["method"].as_str(), message["params"]["name"].as_str());
    let verb = name.unwrap_or_default().split('_').next().unwrap_or_default();
    let tool = |verb: &str| {
        let name = format!("{verb}_{}", source.replace('-', "_"));
        json!({"name": name, "inputSchema": {"type": "object"}})
    };
    let said = json!({"you sent": lines(request)});
    let mut reply = json!({"jsonrpc": "2.0", "id": message["id"]});
    match method.unwrap_or_default() {
        "server/discover" => {
            reply["result"] =
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
        }
        "tools/list" => reply["result"] = json!({"tools": VERBS.map(tool)}),
        "tools/call" if verb == "odd" => {
            reply["error"] = json!({"code": -32602, "message": said.to_string(), "data": said});
        }
        "tools/call" => {
            if verb == "late" {
                sleep(LATE);
            }
            let content = json!([{"type": "text", "text": said.to_string()}]);
            reply["result"] =
                json!({"content": content, "structuredContent": said, "isError": verb == "fail"});
        }
        _ => return answer("202 Accepted", "", b""),
    }
    ok("application/json", &reply.to_string())
}
