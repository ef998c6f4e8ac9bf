//! OpenAPI operations beside registered tools (requirement B2): one registry, one list.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use model::{ErrorCode, Visibility};
use serde_json::{Map, Value, json};
use toolcrib::{
    CallBuilder, CallContext, CallUpdate, Credentials, OpenApi, OpenApiOptions, ProvidedTool,
    Registry, SourceCredential, ToolProvider as _,
};
use upstream::egress::EgressPolicy;
use upstream::http::ExchangeLimits;

use crate::server::{Upstream, answer};
use crate::{crib, object, text};

const SPECIFICATION: &str = "
openapi: 3.1.0
info: {title: Pizzeria, version: '1'}
servers: [{url: 'https://pizzeria.example.com/v1'}]
security: [{token: []}]
components: {securitySchemes: {token: {type: http, scheme: bearer}}}
paths:
  /pizzas/{id}:
    get:
      operationId: get_pizza
      summary: One pizza\u{200b}
      tags: [menu]
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses:
        '200':
          description: it
          content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}}}}}
    head: {operationId: is_there}
";

const JSON: &str = "content-type: application/json\r\n";

/// An API that gives the same answer to every request, and the options that reach it.
fn api(status: &'static str, body: &'static str) -> (Upstream, OpenApiOptions) {
    let upstream = Upstream::replying(move |_| answer(status, JSON, body.as_bytes()));
    let options = options_for(&upstream);
    (upstream, options)
}

fn options_for(upstream: &Upstream) -> OpenApiOptions {
    OpenApiOptions {
        base_url: Some(upstream.url("/v1").parse().unwrap()),
        egress: EgressPolicy { allow_private: true, allowed: Vec::new() },
        ..OpenApiOptions::default()
    }
}

fn pizzeria(options: OpenApiOptions) -> Arc<OpenApi> {
    Arc::new(OpenApi::read("Pizzeria", SPECIFICATION, options).unwrap())
}

fn id(id: Value) -> Map<String, Value> {
    object(json!({"id": id}))
}

#[tokio::test]
async fn operations_are_listed_searched_and_called_beside_registered_tools() {
    let (upstream, options) = api("200 OK", r#"{"name":"Margherita"}"#);
    let registry = Registry::from_provider(pizzeria(options));
    let own = ProvidedTool::new("fold_napkin", "Folds a napkin");
    registry.register_tool(own, || async { "folded" }, &[]).unwrap();
    let view = crib(&registry).await.anonymous_view();
    let listed: Vec<_> = view.list().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(listed, ["fold_napkin", "get_pizza"]);
    assert_eq!(view.search("menu", 5).await[0].tool.name(), "get_pizza");
    let outcome = view.call("get_pizza", id(json!(7))).await.unwrap();
    assert_eq!(outcome.result, Some(json!({"name": "Margherita"})));
    assert!(upstream.requests()[0].starts_with("GET /v1/pizzas/7 HTTP/1.1"));
}

#[test]
fn a_tool_shows_the_texts_of_its_operation_without_invisible_characters() {
    let pizzeria = pizzeria(OpenApiOptions::default());
    let tool = pizzeria.get_tool("get_pizza").unwrap();
    assert_eq!(*tool.description, *"One pizza");
    assert_eq!(tool.input_schema["properties"], json!({"id": {"type": "integer"}}));
    assert_eq!(tool.input_schema["required"], json!(["id"]));
    assert_eq!(tool.more["outputSchema"]["required"], json!(["name"]));
    assert_eq!(tool.more["annotations"]["readOnlyHint"], true);
    let warnings: Vec<_> = pizzeria.warnings().iter().map(|warning| &*warning.code).collect();
    assert_eq!(warnings, ["other_methods"]);
    let options =
        OpenApiOptions { visibility: Visibility::Searchable, ..OpenApiOptions::default() };
    let hidden = OpenApi::read("Pizzeria", SPECIFICATION, options).unwrap();
    assert_eq!(hidden.list_tools()[0].visibility, Visibility::Searchable);
}

#[test]
fn an_invalid_specification_is_refused_with_the_cause() {
    let read = |name: &str, text: &str| {
        let read = OpenApi::read(name, text, OpenApiOptions::default());
        read.err().unwrap().to_string()
    };
    assert!(read("a", "{}").starts_with("this is not an OpenAPI specification"));
    assert!(read("a", "openapi: 4.0.0").starts_with("version 4.0.0 is not known"));
    assert!(read("…", SPECIFICATION).contains("no ASCII letter or digit"));
    let missing = OpenApi::open("a", "/nowhere/at.yaml", OpenApiOptions::default());
    assert!(missing.err().unwrap().to_string().contains("/nowhere/at.yaml"));
}

#[tokio::test]
async fn a_registered_tool_shadows_an_operation_of_the_same_name() {
    let (upstream, options) = api("200 OK", "{}");
    let registry = Registry::from_provider(pizzeria(options));
    let own = ProvidedTool::new("get_pizza", "Ours");
    registry.register_tool(own, || async { "ours" }, &[]).unwrap();
    let view = crib(&registry).await.anonymous_view();
    assert_eq!(view.list().len(), 1);
    let outcome = view.call("get_pizza", Map::new()).await.unwrap();
    assert_eq!(json!(outcome.content[0])["text"], "ours");
    assert!(upstream.requests().is_empty());
}

#[tokio::test]
async fn arguments_are_checked_before_anything_is_sent() {
    let (upstream, options) = api("200 OK", "{}");
    let pizzeria = pizzeria(options);
    let registry = Registry::from_provider(pizzeria.clone());
    let result = registry.call("get_pizza", id(json!("seven"))).await;
    assert_eq!((result.is_error, result.code()), (true, Some(ErrorCode::ValidationError)));
    let outcome =
        crib(&registry).await.anonymous_view().call("get_pizza", Map::new()).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::ValidationError);
    assert!(upstream.requests().is_empty());
    let missing = pizzeria.call_tool("no_pizza", Map::new(), &CallContext::silent()).await;
    assert_eq!(missing.unwrap_err().to_string(), "Tool not found: no_pizza");
}

#[tokio::test]
async fn a_failure_has_the_code_of_its_cause_and_its_credential_is_redacted() {
    let (_upstream, mut options) =
        api("500 Internal Server Error", r#"{"error": "hunter2 is wrong"}"#);
    options.credentials = Credentials::from([("token".to_owned(), "hunter2".into())]);
    let registry = Registry::from_provider(pizzeria(options));
    let result = registry.call("get_pizza", id(json!(7))).await;
    assert_eq!((result.is_error, result.code()), (true, Some(ErrorCode::UpstreamError)));
    assert!(text(&result).contains("is wrong") && !text(&result).contains("hunter2"), "{result:?}");
    let outcome =
        crib(&registry).await.anonymous_view().call("get_pizza", id(json!(7))).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::UpstreamError);
    // No server listens on this port.
    let nowhere = OpenApiOptions {
        base_url: Some("http://127.0.0.1:1/".parse().unwrap()),
        egress: EgressPolicy { allow_private: true, allowed: Vec::new() },
        ..OpenApiOptions::default()
    };
    let result = Registry::from_provider(pizzeria(nowhere)).call("get_pizza", id(json!(7))).await;
    assert_eq!(result.code(), Some(ErrorCode::UpstreamConnectionError));
}

#[tokio::test]
async fn operations_get_the_credentials_they_declare_and_a_configured_one_always() {
    let (upstream, mut options) = api("200 OK", r#"{"name":"x"}"#);
    options.credentials = Credentials::from([("token".to_owned(), "abc".into())]);
    let key = model::ApiKeyLocation::Header;
    options.own = Some(SourceCredential::api_key(key, "X-Key", "def".to_owned().into()));
    Registry::from_provider(pizzeria(options)).call("get_pizza", id(json!(7))).await;
    let request = upstream.requests()[0].to_lowercase();
    assert!(request.contains("authorization: bearer abc\r\n"), "{request}");
    assert!(request.contains("x-key: def\r\n"), "{request}");
}

#[tokio::test]
async fn a_fetched_specification_gets_no_credential_to_other_origins() {
    let elsewhere = Upstream::replying(|_| answer("200 OK", JSON, br#"{"name":"x"}"#));
    let text = SPECIFICATION.replace("https://pizzeria.example.com", &elsewhere.url(""));
    let home = Upstream::replying(move |_| answer("200 OK", "", text.as_bytes()));
    let options = OpenApiOptions {
        credentials: Credentials::from([("token".to_owned(), "abc".into())]),
        ..options_for(&home)
    };
    let url = home.url("/openapi.yaml").parse().unwrap();
    let options = OpenApiOptions { base_url: None, ..options };
    let fetched = OpenApi::fetch("Pizzeria", &url, options).await.unwrap();
    let result = Registry::from_provider(Arc::new(fetched)).call("get_pizza", id(json!(7))).await;
    assert!(result.is_error && elsewhere.requests().is_empty(), "{result:?}");
}

#[tokio::test]
async fn only_public_addresses_are_reached_unless_configured_and_timeouts_apply() {
    let upstream = Upstream::replying(|_| {
        std::thread::sleep(Duration::from_secs(5));
        Vec::new()
    });
    let shut = OpenApiOptions { egress: EgressPolicy::default(), ..options_for(&upstream) };
    let result = Registry::from_provider(pizzeria(shut)).call("get_pizza", id(json!(7))).await;
    assert!(text(&result).contains("not public"), "{result:?}");
    assert!(upstream.requests().is_empty());
    let limits =
        ExchangeLimits { deadline: Duration::from_millis(50), ..ExchangeLimits::default() };
    let hurried = OpenApiOptions { limits, ..options_for(&upstream) };
    let result = Registry::from_provider(pizzeria(hurried)).call("get_pizza", id(json!(7))).await;
    assert_eq!(result.code(), Some(ErrorCode::UpstreamTimeout));
}

/// A long-running operation whose status is polled every 100 ms.
const BAKERY: &str = "
openapi: 3.1.0
paths:
  /loaves:
    post:
      operationId: bake
      x-toolcrib-polling:
        status_url: '/loaves/{answer.id}'
        status_path: state
        completed: [done]
        failed: [burnt]
        result_path: loaf
        interval_ms: 100
        cancel: {url: '/loaves/{answer.id}'}
      responses: {'202': {description: begun}}
";

#[tokio::test]
async fn a_long_running_operation_reports_progress_and_is_cancelled_with_its_call() {
    let looks = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&looks);
    let upstream = Upstream::replying(move |request| {
        let body: &[u8] = match request {
            _ if request.starts_with("POST") => br#"{"id": 7}"#,
            _ if request.starts_with("DELETE") => b"{}",
            _ if seen.fetch_add(1, Ordering::Relaxed) == 1 => br#"{"state":"done","loaf":"bread"}"#,
            _ => br#"{"state":"rising"}"#,
        };
        answer("200 OK", JSON, body)
    });
    let bakery = OpenApi::read("Bakery", BAKERY, options_for(&upstream)).unwrap();
    assert!(bakery.list_tools()[0].may_outlive_request, "{:?}", bakery.warnings());
    let registry = Registry::from_provider(Arc::new(bakery));
    let (call, mut heard) = CallBuilder::default().with_progress().start_with_updates();
    let result = registry.call_tool("bake", Map::new(), &call).await.unwrap();
    assert_eq!((text(&result), result.is_error), (r#""bread""#, false), "{result:?}");
    let Some(CallUpdate::Progress(progress)) = heard.recv().await else {
        panic!("nothing was said")
    };
    assert_eq!(progress.message.as_deref(), Some("rising"));

    let calling = tokio::spawn(async move { registry.call("bake", Map::new()).await });
    while looks.load(Ordering::Relaxed) < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    calling.abort();
    let told = async {
        while !upstream.requests().iter().any(|request| request.starts_with("DELETE /v1/loaves/7"))
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), told).await.unwrap();
}
