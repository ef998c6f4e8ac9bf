//! Over standard input and output, or any two ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use toolcrib::{
    CallContext, NoAnswer, Progress, Prompt, ProvidedTool, Question, Registry, Toolcrib,
};

use super::{hello, modern, names};
use crate::speak;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A client of the older era, and what it speaks with.
struct Client {
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Client {
    async fn of(registry: &Registry) -> Self {
        let crib = Toolcrib::of(registry.clone()).await.unwrap();
        let (ours, theirs) = duplex(1 << 16);
        let (input, output) = split(theirs);
        let server = tokio::spawn(speak(crib, input, output));
        let (output, input) = split(ours);
        Self { input, output: BufReader::new(output), server }
    }

    /// One that has introduced itself, and can be asked.
    async fn introduced(registry: &Registry) -> Self {
        let mut client = Self::of(registry).await;
        let who = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let welcome = client.ask("initialize", who).await;
        assert_eq!(welcome["result"]["protocolVersion"], "2025-11-25");
        client.tell("notifications/initialized", json!({})).await;
        client
    }

    async fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    async fn begin(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await;
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.begin(method, params).await;
        self.hear().await
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let heard = self.output.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(20), heard).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    async fn end(mut self) {
        self.input.shutdown().await.unwrap();
        self.server.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn both_eras_list_and_call_until_the_input_ends() {
    let mut client = Client::of(&hello()).await;
    client.send(&modern("tools/list", json!({}))).await;
    assert_eq!(names(&client.hear().await), ["hello"]);
    client.end().await;
    let mut client = Client::introduced(&hello()).await;
    let called = client.ask("tools/call", json!({"name": "hello"})).await;
    assert_eq!(called["result"]["content"][0]["text"], "hello");
    client.end().await;
}

#[tokio::test]
async fn list_changed_is_sent_when_something_is_registered_and_only_then() {
    let registry = hello();
    let mut client = Client::introduced(&registry).await;
    // Whoever is answered is listened to from then on.
    client.ask("ping", json!({})).await;
    let again = ProvidedTool::new("hello", "Again");
    registry.register_tool(again, || async { "again" }, &[]).unwrap_err();
    let other = ProvidedTool::new("other", "Another");
    registry.register_tool(other, || async { "other" }, &[]).unwrap();
    assert_eq!(client.hear().await["method"], "notifications/tools/list_changed");
    registry.register_prompt(Prompt::new("hi", "Says hi").user("Hi!")).unwrap();
    assert_eq!(client.hear().await["method"], "notifications/prompts/list_changed");
    assert_eq!(names(&client.ask("tools/list", json!({})).await), ["hello", "other"]);
}

#[tokio::test]
async fn a_handler_that_fails_gives_is_error_and_an_unknown_tool_is_not_found() {
    let registry = hello();
    let fails = || async { Err::<(), _>("the disk is full") };
    registry.register_tool(ProvidedTool::new("fails", "Fails"), fails, &[]).unwrap();
    let mut client = Client::introduced(&registry).await;
    let failed = client.ask("tools/call", json!({"name": "fails"})).await;
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(failed["result"]["content"][0]["text"], "Error: the disk is full");
    let missing = client.ask("tools/call", json!({"name": "nothing"})).await;
    assert!(missing.to_string().contains("Tool not found: nothing"), "{missing}");
    let called = client.ask("tools/call", json!({"name": "hello"})).await;
    assert_eq!(called["result"]["content"][0]["text"], "hello");
}

#[tokio::test]
async fn a_handler_reports_progress_and_asks_the_user() {
    async fn paints(_: Nothing, call: CallContext) -> Result<String, NoAnswer> {
        call.progress(Progress { progress: 1.0, total: None, message: None });
        let form = json!({"message": "Which colour?", "requestedSchema": {
            "type": "object", "properties": {"colour": {"type": "string"}},
        }});
        let form = form.as_object().cloned().unwrap_or_default();
        let answer = call.ask("colour", Question::Elicit(form)).await?;
        Ok(answer["content"]["colour"].to_string())
    }
    let registry = Registry::new();
    registry.register_tool(ProvidedTool::new("paint", "Paints"), paints, &[]).unwrap();
    let mut client = Client::introduced(&registry).await;
    let wanted = json!({"name": "paint", "_meta": {"progressToken": 7}});
    client.begin("tools/call", wanted).await;
    let progress = client.hear().await;
    assert_eq!(progress["params"], json!({"progressToken": 7, "progress": 1}));
    let asked = client.hear().await;
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"colour": "red"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
    assert_eq!(client.hear().await["result"]["content"][0]["text"], r#""red""#);
}

#[tokio::test]
async fn a_handler_sees_that_its_call_is_cancelled() {
    let registry = Registry::new();
    let (say, mut heard) = mpsc::channel(1);
    let waits = move |_: Nothing, call: CallContext| {
        let (say, watched) = (say.clone(), call);
        tokio::spawn(async move {
            say.send("begun").await.unwrap();
            watched.over().await;
            say.send("over").await.unwrap();
        });
        std::future::pending::<()>()
    };
    registry.register_tool(ProvidedTool::new("wait", "Waits"), waits, &[]).unwrap();
    let mut client = Client::introduced(&registry).await;
    client.begin("tools/call", json!({"name": "wait"})).await;
    assert_eq!(heard.recv().await, Some("begun"));
    client.tell("notifications/cancelled", json!({"requestId": 1})).await;
    let over = tokio::time::timeout(Duration::from_secs(20), heard.recv()).await;
    assert_eq!(over.unwrap(), Some("over"));
}
