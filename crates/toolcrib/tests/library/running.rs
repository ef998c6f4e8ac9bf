//! What a handler can do while it runs: report progress, ask the user, and detect that its caller is gone.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tokio::sync::mpsc;
use toolcrib::{
    BoxError, CallBuilder, CallContext, CallProgress, CallResult, CallUpdate, CallerCapabilities,
    InputError, InputRequest, ProvidedTool, Registry, ToolProvider as _,
};

use crate::{crib, object, text};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

const ABLE: CallerCapabilities = CallerCapabilities {
    elicitation: true,
    elicitation_by_url: false,
    sampling: false,
    roots: false,
    tasks: false,
};

#[tokio::test]
async fn a_handler_reports_progress() {
    let registry = Registry::new();
    let works = |_: Nothing, call: CallContext| async move {
        call.report_progress(CallProgress {
            progress: 1.0,
            total: Some(2.0),
            message: Some("half".into()),
        });
        "done"
    };
    registry.register_tool(ProvidedTool::new("work", "Works"), works, &[]).unwrap();
    let (call, mut heard) = CallBuilder::by_caller(ABLE).with_progress().start_with_updates();
    let result = registry.call_tool("work", Map::new(), &call).await.unwrap();
    assert_eq!(text(&result), "done");
    let Some(CallUpdate::Progress(progress)) = heard.recv().await else {
        panic!("nothing was said")
    };
    assert_eq!((progress.progress, progress.total), (1.0, Some(2.0)));
}

/// A handler that asks for a colour, and wraps an error of that question in its own message.
async fn asks(_: Nothing, call: CallContext) -> Result<String, BoxError> {
    let form = object(json!({"message": "Which colour?", "requestedSchema": {"type": "object"}}));
    let answer = call.ask("colour", InputRequest::Elicit(form)).await;
    let answer = answer.map_err(|why| format!("there is no colour: {why}"))?;
    Ok(answer["content"]["colour"].to_string())
}

#[tokio::test]
async fn a_handler_asks_the_user_and_waits_or_is_called_again_with_the_answer() {
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("paint", "Paints"), asks, &[]).unwrap();
    let view = crib(&registry).await.anonymous_view();
    let tool = view.find("paint").unwrap();
    let answer = json!({"action": "accept", "content": {"colour": "red"}});
    // The caller answers while the handler waits.
    let (call, mut heard) = CallBuilder::by_caller(ABLE).start_with_updates();
    let answers = async {
        let Some(CallUpdate::InputRequired { key, reply, .. }) = heard.recv().await else {
            panic!("no question")
        };
        assert_eq!(&*key, "colour");
        reply.send(Ok(answer.clone())).unwrap();
    };
    let (result, ()) = tokio::join!(registry.call_tool("paint", Map::new(), &call), answers);
    assert_eq!(text(&result.unwrap()), r#""red""#);
    // The caller receives the question and repeats the call with the answer.
    let call = CallBuilder::by_caller(ABLE).with_answers(Map::new()).start_with_updates().0;
    let CallResult::InputRequired(open) = view.call_found_tool(&tool, Map::new(), &call).await
    else {
        panic!("it did not ask")
    };
    assert_eq!(&*open[0].0, "colour");
    let answered = Map::from_iter([("colour".to_owned(), answer)]);
    let call = CallBuilder::by_caller(ABLE).with_answers(answered).start_with_updates().0;
    let CallResult::Completed(done) = view.call_found_tool(&tool, Map::new(), &call).await else {
        panic!("it was not carried out")
    };
    assert_eq!(json!(done.into_outcome().content[0])["text"], r#""red""#);
}

#[tokio::test]
async fn an_unanswerable_question_names_the_missing_ability() {
    async fn asks(_: Nothing, call: CallContext) -> Result<&'static str, InputError> {
        call.ask("roots", InputRequest::Roots).await.map(|_| "never")
    }
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("roots", "Asks"), asks, &[]).unwrap();
    let result = registry.call("roots", Map::new()).await;
    let why = "Error: the caller cannot do what the tool needs: roots";
    assert_eq!((text(&result), result.is_error), (why, true));
}

#[tokio::test]
async fn an_abandoned_handler_is_dropped_and_its_spawned_work_is_notified() {
    let registry = Registry::new();
    let (say, mut heard) = mpsc::channel(1);
    let starts = move |_: Nothing, call: CallContext| {
        let (say, started) = (say.clone(), call.clone());
        tokio::spawn(async move {
            say.send("started").await.unwrap();
            started.wait_until_over().await;
            assert!(started.is_over());
            say.send("over").await.unwrap();
        });
        async move {
            assert!(!call.is_over());
            std::future::pending::<()>().await
        }
    };
    registry.register_tool(ProvidedTool::new("starts", "Starts"), starts, &[]).unwrap();
    let crib = crib(&registry).await;
    let calling =
        tokio::spawn(async move { crib.anonymous_view().call("starts", Map::new()).await });
    assert_eq!(heard.recv().await, Some("started"));
    calling.abort();
    let told = tokio::time::timeout(Duration::from_secs(10), heard.recv()).await;
    assert_eq!(told.unwrap(), Some("over"));
}

#[tokio::test]
async fn a_panicking_handler_ends_its_call_and_the_caller_gets_an_error() {
    let registry = Registry::new();
    let panics = |_: Nothing, call: CallContext| async move {
        call.report_progress(CallProgress { progress: 1.0, total: None, message: None });
        assert!(call.is_over(), "it is not over while somebody waits");
    };
    registry.register_tool(ProvidedTool::new("boom", "Panics"), panics, &[]).unwrap();
    let (call, mut heard) = CallBuilder::by_caller(ABLE).with_progress().start_with_updates();
    let result = registry.call_in_context("boom", Map::new(), &call).await;
    assert!(result.is_error);
    assert_eq!(text(&result), "Error: it panicked");
    assert!(call.is_over());
    call.wait_until_over().await;
    drop(call);
    assert!(matches!(heard.recv().await, Some(CallUpdate::Progress(_))));
    assert!(heard.recv().await.is_none());
}
