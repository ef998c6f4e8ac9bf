//! HTTP calls against a test upstream: the request, the outcome, and calls that must not be repeated.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../upstream/tests/support/upstream.rs"]
mod server;

use std::time::Duration;

use model::{CallFailure, CallStatus, ErrorCode, Manifest, Outcome, SchemaRef};
use secrecy::SecretString;
use serde_json::{Map, Value, json};
use server::{Upstream, answer};
use toolcrib_execution::{CallCredentials, Credentials, HttpTool, HttpToolError, HttpToolResponse};
use upstream::egress::EgressPolicy;
use upstream::http::{ExchangeLimits, HttpClient, Origin};

fn tool(method: &str, base: &str, answers: HttpToolResponse) -> HttpTool {
    let body = (method == "POST").then_some("{{ json(rest()) }}");
    let schema = json!({"type": "object", "properties": {"count": {"type": "integer"}}, "additionalProperties": false});
    let manifest: Manifest<SchemaRef> = serde_json::from_value(json!({
        "name": "a", "method": method, "path": "/a", "input_schema": {"inline": schema},
        "security": [{"token": {"type": "http", "scheme": "bearer"}}],
        "execution": {"mode": "sync_http", "url_template": format!("{base}/a"), "body_template": body},
    }))
    .unwrap();
    HttpTool::compile("s:a".parse().unwrap(), &manifest, &schema, answers).ok().unwrap()
}

fn client() -> HttpClient {
    HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() })
}

async fn call(tool: &HttpTool, arguments: Value) -> Outcome {
    let limits = ExchangeLimits { deadline: Duration::from_millis(300), max_bytes: 10_000 };
    let arguments = tool.validate_arguments(arguments.as_object().unwrap().clone()).unwrap();
    let request = tool.render_request(&arguments).unwrap();
    tool.call(&client(), limits, request, &call_credentials(&credentials()), None).await.outcome
}

fn call_credentials(credentials: &Credentials) -> CallCredentials {
    CallCredentials { credentials: credentials.clone(), ..CallCredentials::default() }
}

fn credentials() -> Credentials {
    [("token".to_owned(), SecretString::from("hunter2"))].into()
}

/// The failure of a call whose upstream gives this answer, and the number of requests.
async fn failure(method: &str, answer: &'static [u8]) -> (CallFailure, usize) {
    let server = Upstream::replying(move |_| answer.to_vec());
    let outcome = call(&tool(method, &server.url(""), HttpToolResponse::Api), json!({})).await;
    assert_eq!((outcome.status, outcome.result), (CallStatus::Failed, None));
    let mut failure = outcome.error.unwrap();
    failure.message = failure.message.replace(&server.url(""), "SERVER");
    (failure, server.requests().len())
}

#[tokio::test]
async fn arguments_and_credentials_are_sent_and_the_answer_is_the_result() {
    let server = Upstream::replying(|_| {
        answer("200 OK", "Content-Type: application/json\r\n", br#"{"content": [], "n": 1}"#)
    });
    let outcome =
        call(&tool("POST", &server.url(""), HttpToolResponse::Api), json!({"count": 2})).await;
    assert_eq!((outcome.status, outcome.upstream_status), (CallStatus::Completed, Some(200)));
    assert_eq!(outcome.result, Some(json!({"content": [], "n": 1})));
    let request = server.requests().concat();
    assert!(request.contains("authorization: Bearer hunter2\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"count\":2}"), "{request}");
    let outcome =
        call(&tool("POST", &server.url(""), HttpToolResponse::ToolResult), json!({})).await;
    assert_eq!((outcome.status, outcome.result), (CallStatus::Completed, None));
}

#[tokio::test]
async fn invalid_arguments_are_not_sent() {
    let server = Upstream::replying(|_| Vec::new());
    let tool = tool("POST", &server.url(""), HttpToolResponse::Api);
    let arguments = json!({"count": "x", "other": 1}).as_object().unwrap().clone();
    let error = tool.validate_arguments(arguments).unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::ValidationError, false));
    assert_eq!(
        error.message,
        "there is no argument `other`\n/count: it is not of type \"integer\""
    );
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test]
async fn a_lost_answer_of_a_modifying_call_is_an_unknown_outcome() {
    let (failure, requests) = failure("POST", b"").await;
    assert_eq!((failure.code, failure.retryable), (ErrorCode::UpstreamConnectionError, false));
    assert!(failure.message.contains("the outcome is unknown"), "{}", failure.message);
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_lost_answer_of_a_read_only_call_is_retryable() {
    let (failure, requests) = failure("GET", b"").await;
    assert_eq!((failure.code, failure.retryable), (ErrorCode::UpstreamConnectionError, true));
    assert!(
        failure.message.starts_with("the answer of `SERVER` was lost ("),
        "{}",
        failure.message
    );
    assert_eq!(requests, 1);
}

#[tokio::test]
async fn a_call_that_timed_out_may_have_been_executed() {
    let stuck = |method: &'static str| async move {
        let server = Upstream::replying(|_| {
            std::thread::park();
            Vec::new()
        });
        let tool = tool(method, &server.url(""), HttpToolResponse::Api);
        call(&tool, json!({"count": 1})).await.error.unwrap()
    };
    let post = stuck("POST").await;
    assert_eq!((post.code, post.retryable), (ErrorCode::UpstreamTimeout, false));
    assert!(post.message.contains("the outcome is unknown"), "{}", post.message);
    let get = stuck("GET").await;
    assert_eq!((get.code, get.retryable), (ErrorCode::UpstreamTimeout, true));
    assert!(get.message.ends_with("did not answer within 300ms"), "{}", get.message);
}

#[tokio::test]
async fn an_answer_that_arrives_but_is_not_processed_in_time_is_an_error() {
    let body = format!("[\"{}\"]", "x".repeat(limits::MAX_INLINE_BYTES));
    let server = Upstream::replying(move |_| answer("200 OK", "", body.as_bytes()));
    let tool = tool("GET", &server.url(""), HttpToolResponse::Api);
    let once = |deadline| {
        let limits = ExchangeLimits {
            deadline: Duration::from_millis(deadline),
            ..ExchangeLimits::default()
        };
        let request = tool.render_request(&Map::new()).unwrap();
        let tool = &tool;
        async move {
            tool.call(&client(), limits, request, &CallCredentials::default(), None).await.outcome
        }
    };
    assert_eq!(once(30_000).await.status, CallStatus::Completed);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let busy: Vec<_> = (0..256)
        .map(|_| {
            let wait = std::sync::Arc::clone(&wait);
            tokio::spawn(limits::run_low_priority(move || {
                drop(wait.lock().map(|wait| wait.recv()))
            }))
        })
        .collect();
    tokio::task::yield_now().await;
    let failure = once(3_000).await.error.unwrap();
    assert_eq!((failure.code, failure.retryable), (ErrorCode::UpstreamError, false));
    let told = failure.message.replace(&server.url(""), "SERVER");
    assert_eq!(
        told,
        "the answer of `SERVER` came, and is so long that it was not read within 3s: ask for less"
    );
    drop(go);
    for one in busy {
        one.await.unwrap();
    }
}

#[tokio::test]
async fn failures_have_codes_and_tell_whether_they_are_retryable() {
    let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
    let large = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n";
    for (reply, retryable) in [(&busy[..], true), (large, false)] {
        let (failure, _) = failure("POST", reply).await;
        assert_eq!((failure.code, failure.retryable), (ErrorCode::UpstreamError, retryable));
    }
    let nobody = tool("POST", "http://127.0.0.1:1", HttpToolResponse::Api);
    let error = call(&nobody, json!({})).await.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::UpstreamConnectionError, true));
    let limits = ExchangeLimits::default();
    let shut = HttpClient::new(EgressPolicy::default());
    let refused = nobody
        .call(
            &shut,
            limits,
            nobody.render_request(&Map::new()).unwrap(),
            &CallCredentials::default(),
            None,
        )
        .await
        .outcome;
    let error = refused.error.unwrap();
    assert_eq!((error.code, error.retryable), (ErrorCode::UpstreamConnectionError, false));
}

#[tokio::test]
async fn a_credential_repeated_by_an_upstream_is_not_in_the_error() {
    let (failure, _) =
        failure("GET", b"HTTP/1.1 401 No\r\nContent-Length: 18\r\n\r\nbad token: hunter2").await;
    assert_eq!(failure.message, "the upstream answered with status 401: bad token: ***");
}

#[tokio::test]
async fn credentials_are_sent_only_to_the_origin_of_the_source() {
    let server = Upstream::replying(|_| answer("200 OK", "", b""));
    let tool = tool("GET", &server.url(""), HttpToolResponse::Api);
    let origin = |url: &str| url.parse::<upstream::http::Url>().unwrap().origin();
    let call = async |credentials: &Credentials, origin: Origin| {
        let limits = ExchangeLimits::default();
        let request = tool.render_request(&Map::new()).unwrap();
        tool.call(&client(), limits, request, &call_credentials(credentials), Some(&origin))
            .await
            .outcome
    };
    let refused = call(&credentials(), origin("http://127.0.0.1:1/openapi.json")).await;
    let expected = format!(
        "calls go to `{}`, not to `http://127.0.0.1:1` where the specification is from",
        server.url("")
    );
    assert_eq!(refused.error.unwrap().message, expected);
    assert_eq!(server.requests(), [""; 0]);
    let without = call(&Credentials::new(), origin("http://127.0.0.1:1/")).await;
    let within = call(&credentials(), origin(&server.url("/openapi.json"))).await;
    assert_eq!((without.error, within.error), (None, None));
    let [without, within] = server.requests().try_into().unwrap();
    assert!(!without.contains("hunter2") && within.contains("hunter2"), "{without}{within}");
}

#[test]
fn a_tool_with_another_execution_mode_is_refused() {
    let manifest: Manifest<SchemaRef> = serde_json::from_value(json!({
        "name": "a", "method": "POST", "path": "/mcp/a", "input_schema": {"inline": {}},
        "execution": {"mode": "mcp_call"},
    }))
    .unwrap();
    let compiled =
        HttpTool::compile("s:a".parse().unwrap(), &manifest, &json!({}), HttpToolResponse::Api)
            .err();
    assert_eq!(compiled, Some(HttpToolError::NotHttp));
}
