//! Which requests are exact, which are lenient and which fail.

use execution::RenderedRequest;
use serde_json::{Value, json};

use super::{CaseVerdict, compare_request};
use crate::corpus::cases::sent_request::SentRequest;

fn get(url: &str) -> RenderedRequest {
    RenderedRequest {
        method: "GET".to_owned(),
        url: url.parse().unwrap(),
        headers: Vec::new(),
        body: None,
    }
}

fn word(expect: &Value, request: Option<RenderedRequest>) -> &'static str {
    match compare_request(expect, request.map(SentRequest::from).as_ref()) {
        CaseVerdict::Exact => "exact",
        CaseVerdict::Lenient(_) => "lenient",
        CaseVerdict::Failed(_) => "failed",
    }
}

#[test]
fn a_target_is_exact_in_any_encoding_and_lenient_if_only_delimiters_differ() {
    let expect = json!({"method": "GET", "path": "/a,b", "query": "x=1%202&y=,"});
    let verdict = |target: &str| word(&expect, Some(get(&format!("http://echo.test{target}"))));
    assert_eq!(verdict("/a,b?y=,&x=%31%202"), "exact");
    assert_eq!(verdict("/a%2Cb?x=1%202&y=,"), "lenient");
    assert_eq!(verdict("/a,b?x=1+2&y=,"), "lenient");
    assert_eq!(verdict("/a,b?x=1%202&y=%2C"), "lenient");
    assert_eq!(verdict("/a,b?x=12&y=,"), "failed");
    assert_eq!(verdict("/a%2Fb?x=1%202&y=,"), "failed");
    assert_eq!(verdict("/a,b?x=1%202"), "failed");
}

#[test]
fn headers_and_cookies_must_be_present_or_absent() {
    let expect = json!({
        "method": "GET", "path": "/", "headers": {"X-List": "1,2"}, "headers_absent": ["X-Key"],
        "cookies": {"c": "a b"},
    });
    let verdict = |headers: &[(&str, &str)]| {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let headers = headers.iter().map(own).collect();
        word(&expect, Some(RenderedRequest { headers, ..get("http://echo.test/") }))
    };
    assert_eq!(verdict(&[("x-list", "1,2"), ("Cookie", "z=1; c=a b")]), "exact");
    assert_eq!(verdict(&[("x-list", "1, 2"), ("Cookie", "c=a b")]), "lenient");
    assert_eq!(verdict(&[("x-list", "1,2"), ("Cookie", "c=a%20b")]), "lenient");
    assert_eq!(verdict(&[("x-list", "1,2")]), "failed");
    assert_eq!(verdict(&[("x-list", "1,2"), ("Cookie", "c=a b"), ("X-Key", "k")]), "failed");
}

#[test]
fn a_body_is_compared_by_its_kind() {
    let verdict = |body: Value, content_type: &str, sent: &str| {
        let expect = json!({"method": "GET", "path": "/", "body": body});
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let body = Some(sent.as_bytes().to_vec());
        word(&expect, Some(RenderedRequest { headers, body, ..get("http://echo.test/") }))
    };
    let json = json!({"kind": "json", "content_type": "application/json", "json": {"a": 1}});
    assert_eq!(verdict(json.clone(), "application/json; charset=utf-8", "{ \"a\": 1 }"), "exact");
    assert_eq!(verdict(json.clone(), "application/json", "{\"a\": 1.0}"), "failed");
    assert_eq!(verdict(json, "text/plain", "{\"a\": 1}"), "failed");
    assert_eq!(verdict(json!({"kind": "none"}), "", "{}"), "failed");
    let part = json!({"name": "f", "json": [1], "is_file": "preferred"});
    let multipart =
        json!({"kind": "multipart", "content_type": "multipart/form-data", "parts": [part]});
    let sent = |head: &str| {
        let body = format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n[1]\r\n--b--\r\n");
        verdict(multipart.clone(), "multipart/form-data; boundary=b", &body)
    };
    assert_eq!(sent("name=\"f\"; filename=\"f\"\r\nContent-Type: application/json"), "exact");
    assert_eq!(sent("name=\"f\""), "lenient");
    assert_eq!(sent("name=\"g\""), "failed");
}

#[test]
fn one_of_several_expectations_is_enough_and_may_be_a_refusal() {
    let either = json!({"any_of": [{"error": true}, {"method": "GET", "path": "/a"}]});
    assert_eq!(word(&either, None), "exact");
    assert_eq!(word(&either, Some(get("http://echo.test/a"))), "exact");
    assert_eq!(word(&either, Some(get("http://echo.test/b"))), "failed");
    assert_eq!(word(&json!({"method": "GET", "path": "/a"}), None), "failed");
}
