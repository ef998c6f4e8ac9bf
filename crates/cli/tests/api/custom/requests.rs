//! Tools that send an HTTP request: argument values cannot escape their position in it.

use serde_json::{Value, json};

use super::{CustomSource, Folder, Server};
use crate::support::ok;
use crate::upstream::{Upstream, answer};

fn upstream() -> Upstream {
    Upstream::replying(|request| match request.split(' ').nth(1) {
        Some("/plain.txt") => ok("text/plain; charset=utf-8", "a plain text"),
        Some("/data.json") => ok("application/json", "{ \"n\": 12345678901234567890123 }"),
        Some("/picture") => answer("200 OK", "Content-Type: image/png\r\n", b"\x89PNG"),
        Some("/gone") => answer("404 Not Found", "", b"no"),
        _ => ok("application/json", r#"{"done": true}"#),
    })
}

fn own(upstream: &Upstream) -> CustomSource {
    let optional = json!({"type": "object", "properties": {"id": {"type": "string"}, "q": {"type": "string"}, "n": {}}});
    let settings = json!({"tools": [
        {"name": "get", "input_schema": optional, "request": {
            "url": "/v1/orders/{{id}}?fixed=1", "query": {"q": "{{q}}", "w": "x {{q}}"},
            "headers": {"X-Who": "me {{q}}"}}},
        {"name": "post", "input_schema": optional, "request": {
            "method": "POST", "url": "/v1/orders",
            "body": {"json": {"whole": "{{n}}", "part": "a {{q}}", "fixed": [1, {"x": null}], "id": "{{id}}"}}}},
        {"name": "any", "input_schema": {"properties": {"c": {}}}, "request": {
            "method": "POST", "url": "/v1/any", "query": {"q": "{{c}}", "fixed": "1"},
            "body": {"form": {"q": "{{c}}", "role": "guest"}}}},
        {"name": "form", "request": {"method": "PUT", "url": "/v1/form", "body": {"form": {"a": "{{a}}"}}}},
        {"name": "text", "request": {"method": "POST", "url": "/v1/text", "body": {"text": "{{a}} {% b %} {{ c }}"}}},
    ]});
    let source = json!({"url": upstream.url("/api/"), "allow": ["127.0.0.1"], "settings": settings,
        "auth": {"kind": "bearer", "token": "env:TOKEN"}});
    let server =
        Server::on_folder_with_environment(Folder::empty(), "", &[("TOKEN", "s3cret-token")]);
    CustomSource::with_source(server, source)
}

fn last(upstream: &Upstream) -> (String, String, String) {
    let request = upstream.requests().pop().unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let (line, headers) = head.split_once("\r\n").unwrap();
    (line.to_owned(), headers.to_lowercase(), body.to_owned())
}

#[test]
fn values_are_encoded_for_their_position_in_the_request() {
    let upstream = upstream();
    let own = own(&upstream);
    let got = own.call("get", json!({"id": "a/../b?c#d", "q": "x&y=z {{id}}"}));
    assert_eq!(got["structuredContent"], json!({"done": true}), "{got}");
    let (line, headers, _) = last(&upstream);
    let path = "/api/v1/orders/a%2F..%2Fb%3Fc%23d";
    let query = "fixed=1&q=x%26y%3Dz%20%7B%7Bid%7D%7D&w=x%20x%26y%3Dz%20%7B%7Bid%7D%7D";
    assert_eq!(line, format!("GET {path}?{query} HTTP/1.1"));
    assert!(headers.contains("authorization: bearer s3cret-token"), "{headers}");

    own.call("get", json!({"id": "7"}));
    let (line, headers, _) = last(&upstream);
    assert_eq!(line, "GET /api/v1/orders/7?fixed=1 HTTP/1.1");
    assert!(!headers.contains("x-who"), "{headers}");

    own.call("post", json!({"n": {"deep": [1, "\""]}, "q": "\"}{{n}}"}));
    let (_, headers, body) = last(&upstream);
    let body: Value = serde_json::from_str(&body).unwrap();
    let expected =
        json!({"whole": {"deep": [1, "\""]}, "part": "a \"}{{n}}", "fixed": [1, {"x": null}]});
    assert_eq!(body, expected);
    assert!(headers.contains("content-type: application/json"), "{headers}");

    own.call("form", json!({"a": "x&b=c"}));
    assert_eq!(last(&upstream).2, "a=x%26b%3Dc");
    own.call("text", json!({"a": "{{ c }} {% d %}"}));
    assert_eq!(last(&upstream).2, "{{ c }} {% d %} {% b %} {{ c }}");
    assert_eq!(own.rest("form", &json!({"a": "b"})).ok()["result"]["done"], true);
}

#[test]
fn a_structured_value_stays_one_query_or_form_pair() {
    let upstream = upstream();
    let own = own(&upstream);
    own.call("any", json!({"c": {"role": "admin", "fixed": "2"}}));
    let (line, _, body) = last(&upstream);
    let text = "%7B%22role%22%3A%22admin%22%2C%22fixed%22%3A%222%22%7D";
    assert_eq!(line, format!("POST /api/v1/any?fixed=1&q={text} HTTP/1.1"));
    assert_eq!(body, format!("q={text}&role=guest"));
}

#[test]
fn values_that_would_escape_their_position_are_rejected() {
    let upstream = upstream();
    let own = own(&upstream);
    for arguments in [
        json!({"id": ".."}),
        json!({"id": "."}),
        json!({"id": ""}),
        json!({"q": "x"}),
        json!({"id": "a", "q": "b\r\nX-Evil: 1"}),
        json!({"id": "a", "other": 1}),
    ] {
        let why = own.failure("get", arguments.clone());
        assert!(!why.contains("s3cret"), "{why}");
    }
    assert!(own.failure("form", json!({})).contains('a'));
    assert_eq!(upstream.requests(), [""; 0]);
    let missing = own.failure("get", json!({"q": "x"}));
    assert!(missing.contains("`id` is missing"), "{missing}");
}

#[test]
fn credentials_are_sent_only_to_the_origin_of_the_source() {
    let (upstream, elsewhere) = (upstream(), upstream());
    let settings = json!({"tools": [{"name": "there", "request": {"url": elsewhere.url("/x")}}]});
    let source = json!({"url": upstream.url(""), "allow": ["127.0.0.1"], "settings": settings,
        "auth": {"kind": "bearer", "token": "env:TOKEN"}});
    let server =
        Server::on_folder_with_environment(Folder::empty(), "", &[("TOKEN", "s3cret-token")]);
    let own = CustomSource::with_source(server, source);
    own.call("there", json!({}));
    assert!(!elsewhere.requests().concat().contains("s3cret"), "{:?}", elsewhere.requests());
}

#[test]
fn web_resources_are_fetched_under_the_egress_rules() {
    let upstream = upstream();
    let settings = json!({
        "resources": [
            {"uri": "web://text", "name": "t", "url": "/plain.txt"},
            {"uri": "web://json", "name": "j", "mime_type": "application/json", "url": "/data.json"},
            {"uri": "web://picture", "name": "p", "url": "/picture"},
            {"uri": "web://gone", "name": "g", "url": "/gone"},
        ],
        "resource_templates": [{"uri_template": "web://pages/{page}", "name": "pages", "url": "/pages/{{page}}"}],
    });
    let source = json!({"url": upstream.url(""), "allow": ["127.0.0.1"], "settings": settings});
    let own = CustomSource::with_source(Server::start(), source.clone());
    assert_eq!(own.read("web://text"), json!({"uri": "web://text", "text": "a plain text"}));
    assert_eq!(own.read("web://json")["text"], "{ \"n\": 12345678901234567890123 }");
    let picture = json!({"uri": "web://picture", "mimeType": "image/png", "blob": "iVBORw=="});
    assert_eq!(own.read("web://picture"), picture);
    let (_, _, why) = own.not_read("web://gone");
    assert!(why.contains("404"), "{why}");
    own.read("web://pages/a%2F..%2Fb");
    assert_eq!(last(&upstream).0, "GET /pages/a%2F..%2Fb HTTP/1.1");
    let before = upstream.requests().len();
    own.not_read("web://pages/..");
    own.not_read("web://pages/a/b");
    // An address that is not public is unreachable unless the source allows it.
    let mut shut = source;
    shut.as_object_mut().unwrap().remove("allow");
    own.server.put("/api/sources/own", &super::as_custom_source(shut)).ok();
    own.not_read("web://text");
    assert_eq!(upstream.requests().len(), before);
}
