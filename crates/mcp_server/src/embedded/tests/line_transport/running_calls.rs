//! Tests of a running handler with clients of both eras: it reports progress, asks the user, sees cancellation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib::{CallContext, CallProgress, InputError, InputRequest, ProvidedTool, Registry};

use super::{Client, ERAS, Era};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

fn with_tool<Takes>(name: &str, handler: impl toolcrib::ToolHandler<Takes>) -> Registry {
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new(name, "A tool"), handler, &[]).unwrap();
    registry
}

#[tokio::test]
async fn a_handler_reports_progress_to_clients_that_request_it() {
    let works = |_: Nothing, call: CallContext| async move {
        for done in [1.0, 2.0] {
            let message = Some("baking".into());
            call.report_progress(CallProgress { progress: done, total: Some(2.0), message });
        }
        "done"
    };
    let registry = with_tool("work", works);
    for era in ERAS {
        let mut client = Client::in_era(era, &registry).await;
        let wanted = json!({"name": "work", "_meta": {"progressToken": 7}});
        client.begin("tools/call", wanted).await;
        for done in [1, 2] {
            let progress = client.hear().await;
            assert_eq!(progress["method"], "notifications/progress", "{era:?}");
            let params = &progress["params"];
            assert_eq!(params["progressToken"], 7);
            assert_eq!((&params["progress"], &params["total"]), (&json!(done), &json!(2)));
            assert_eq!(params["message"], "baking");
        }
        assert_eq!(client.hear().await["result"]["content"][0]["text"], "done");
        // Without a progress token, the server sends no progress.
        let answer = client.ask("tools/call", json!({"name": "work"})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "done", "{era:?}");
    }
}

async fn paints(_: Nothing, call: CallContext) -> Result<String, InputError> {
    let form = json!({"message": "Which colour?", "requestedSchema": {
        "type": "object", "properties": {"colour": {"type": "string"}},
    }});
    let form = form.as_object().cloned().unwrap_or_default();
    let answer = call.ask("colour", InputRequest::Elicit(form)).await?;
    Ok(format!("{} {}", answer["action"], answer["content"]["colour"]))
}

/// Calls the tool, answers its question with this, and returns the result.
async fn painted(era: Era, answer: &Value) -> Value {
    let mut client = Client::in_era(era, &with_tool("paint", paints)).await;
    let mut asked = client.ask("tools/call", json!({"name": "paint"})).await;
    match era {
        // The question arrives while the call waits.
        Era::Legacy => {
            assert_eq!(asked["method"], "elicitation/create");
            assert_eq!(asked["params"]["message"], "Which colour?");
            client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
            client.hear().await["result"].take()
        }
        // The question is the result; the client repeats the call with the answer.
        Era::Modern => {
            let result = asked["result"].take();
            assert_eq!(result["resultType"], "input_required");
            let question = &result["inputRequests"]["colour"];
            assert_eq!(question["method"], "elicitation/create");
            assert_eq!(question["params"]["message"], "Which colour?");
            let again = json!({
                "name": "paint", "requestState": result["requestState"],
                "inputResponses": {"colour": answer},
            });
            client.ask("tools/call", again).await["result"].take()
        }
    }
}

#[tokio::test]
async fn a_handler_asks_the_user_and_receives_answer_or_refusal() {
    let red = json!({"action": "accept", "content": {"colour": "red"}});
    for era in ERAS {
        let result = painted(era, &red).await;
        assert_eq!(result["content"][0]["text"], r#""accept" "red""#, "{era:?}");
        let result = painted(era, &json!({"action": "decline"})).await;
        assert_eq!(result["content"][0]["text"], r#""decline" null"#, "{era:?}");
    }
}

#[tokio::test]
async fn a_handler_notices_the_cancellation_of_its_call() {
    for era in ERAS {
        let (say, mut heard) = mpsc::channel(1);
        let waits = move |_: Nothing, call: CallContext| {
            let say = say.clone();
            tokio::spawn(async move {
                say.send("begun").await.unwrap();
                call.wait_until_over().await;
                say.send("over").await.unwrap();
            });
            std::future::pending::<()>()
        };
        let mut client = Client::in_era(era, &with_tool("wait", waits)).await;
        client.begin("tools/call", json!({"name": "wait"})).await;
        assert_eq!(heard.recv().await, Some("begun"));
        client.tell("notifications/cancelled", json!({"requestId": 1})).await;
        let over = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await;
        assert_eq!(over.unwrap(), Some("over"), "{era:?}");
    }
}
