//! Handlers that fail (requirement B5).

use model::CallStatus;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use toolcrib::{
    BoxError, CallContext, CallResult, ProvidedTool, ProviderError, Registry, ToolAnswer,
};

use crate::{crib, object, text};

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u8,
}

fn registry() -> Registry {
    let registry = Registry::new();
    let fails = || async { Err::<(), _>("the disk is full") };
    registry.register_tool(ProvidedTool::new("fails", "Fails"), fails, &[]).unwrap();
    let panics = |it: Number| async move { if it.n == 0 { panic!("hunter2") } else { "fine" } };
    registry.register_tool(ProvidedTool::new("panics", "Panics"), panics, &[]).unwrap();
    // Panics before the handler returns its future.
    let at_once = |it: Number| {
        assert_ne!(it.n, 0, "hunter2");
        std::future::ready("fine")
    };
    registry.register_tool(ProvidedTool::new("at_once", "Panics"), at_once, &[]).unwrap();
    registry
}

#[tokio::test]
async fn a_failing_handler_gives_is_error_and_the_cause_as_text() {
    let registry = registry();
    let result = registry.call("fails", Map::new()).await;
    assert_eq!((text(&result), result.is_error), ("Error: the disk is full", true));
    let view = crib(&registry).await.anonymous_view();
    let tool = view.find("fails").unwrap();
    let called = view.call_found_tool(&tool, Map::new(), &CallContext::silent()).await;
    let CallResult::Completed(done) = called else { panic!("it was not carried out") };
    let ToolAnswer::Built(result) = done.into_tool_answer() else { panic!("it is not ours") };
    assert_eq!((text(&result), result.is_error), ("Error: the disk is full", true));
}

#[tokio::test]
async fn a_failing_handler_does_not_affect_other_calls() {
    let registry = Registry::new();
    let waits = |it: Number| async move {
        tokio::task::yield_now().await;
        if it.n == 0 { Err("the disk is full") } else { Ok(it.n.to_string()) }
    };
    registry.register_tool(ProvidedTool::new("waits", "Waits"), waits, &[]).unwrap();
    let call = |n: u8| registry.call("waits", object(json!({"n": n})));
    let (failed, fine, failed_too) = tokio::join!(call(0), call(1), call(0));
    assert_eq!([text(&failed), text(&failed_too)], ["Error: the disk is full"; 2]);
    assert_eq!((text(&fine), text(&call(7).await)), ("1", "7"));
}

#[tokio::test]
async fn a_panicking_handler_gives_an_error_without_the_panic_message() {
    let registry = registry();
    let view = crib(&registry).await.anonymous_view();
    for name in ["panics", "at_once"] {
        let result = registry.call(name, object(json!({"n": 0}))).await;
        assert_eq!((text(&result), result.is_error), ("Error: it panicked", true));
        let outcome = view.call(name, object(json!({"n": 0}))).await.unwrap();
        assert_eq!(outcome.error.unwrap().message, "Error: it panicked");
        let outcome = view.call(name, object(json!({"n": 1}))).await.unwrap();
        assert_eq!(outcome.status, CallStatus::Completed);
        assert_eq!(text(&registry.call(name, object(json!({"n": 1}))).await), "fine");
    }
}

#[tokio::test]
async fn an_unknown_tool_gives_tool_not_found() {
    let registry = registry();
    let result = registry.call("nothing", Map::new()).await;
    assert_eq!((text(&result), result.is_error), ("Tool not found: nothing", true));
    let missing =
        crib(&registry).await.anonymous_view().call("nothing", Map::new()).await.unwrap_err();
    assert_eq!(missing.to_string(), "Tool not found: nothing");
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_handler() {
    let registry = registry();
    let result = registry.call("panics", object(json!({"n": 300}))).await;
    assert!(text(&result).starts_with("Error: the arguments do not fit"), "{result:?}");
    let view = crib(&registry).await.anonymous_view();
    let outcome = view.call("panics", object(json!({"n": 300}))).await.unwrap();
    assert_eq!(json!(outcome.error.unwrap().code), json!("validation_error"));
}

#[tokio::test]
async fn errors_of_any_type_work_with_the_question_mark_operator() {
    fn bytes() -> Vec<u8> {
        vec![0xff]
    }
    async fn reads() -> Result<String, BoxError> {
        Ok(std::str::from_utf8(&bytes())?.to_owned())
    }
    async fn refuses() -> Result<&'static str, ProviderError> {
        Err(ProviderError::Invalid("not like this".to_owned()))
    }
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("reads", "Reads"), reads, &[]).unwrap();
    registry.register_tool(ProvidedTool::new("refuses", "Refuses"), refuses, &[]).unwrap();
    let read = registry.call("reads", Map::new()).await;
    assert!(text(&read).starts_with("Error: invalid utf-8"), "{read:?}");
    assert_eq!(text(&registry.call("refuses", Map::new()).await), "Error: not like this");
}
