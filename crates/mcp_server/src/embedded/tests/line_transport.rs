//! Tests of MCP over standard input and output, or any pair of streams.

mod list_changes;
mod running_calls;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex,
    split,
};
use tokio::task::JoinHandle;
use toolcrib::{CallContext, ProvidedTool, Registry, ToolCallFuture, ToolProvider, Toolcrib};

use super::{hello, modern, names};
use crate::embedded::serve_lines;

/// The two generations of MCP.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Era {
    Legacy,
    Modern,
}

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// A client with its connection.
struct Client {
    era: Era,
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Client {
    /// A client that declares its capabilities in every message.
    async fn of(registry: &Registry) -> Self {
        let crib = Toolcrib::from_registry(registry.clone()).await.unwrap();
        let (ours, theirs) = duplex(1 << 16);
        let (input, output) = split(theirs);
        let server = tokio::spawn(serve_lines(crib, input, output));
        let (output, input) = split(ours);
        Self { era: Era::Modern, input, output: BufReader::new(output), server }
    }

    async fn in_era(era: Era, registry: &Registry) -> Self {
        match era {
            Era::Legacy => Self::introduced(registry).await,
            Era::Modern => Self::of(registry).await,
        }
    }

    /// A client that has initialized a session, and supports elicitation.
    async fn introduced(registry: &Registry) -> Self {
        let mut client = Self { era: Era::Legacy, ..Self::of(registry).await };
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
        let message = match self.era {
            Era::Legacy => json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            Era::Modern => modern(method, params),
        };
        self.send(&message).await;
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
async fn both_eras_list_and_call_until_the_input_closes() {
    for era in ERAS {
        let mut client = Client::in_era(era, &hello()).await;
        assert_eq!(names(&client.ask("tools/list", json!({})).await), ["hello"]);
        let called = client.ask("tools/call", json!({"name": "hello"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "hello");
        client.end().await;
    }
}

#[tokio::test]
async fn a_failed_handler_sets_is_error_and_an_unknown_tool_is_not_found() {
    let registry = hello();
    let fails = || async { Err::<(), _>("the disk is full") };
    registry.register_tool(ProvidedTool::new("fails", "Fails"), fails, &[]).unwrap();
    for era in ERAS {
        let mut client = Client::in_era(era, &registry).await;
        let failed = client.ask("tools/call", json!({"name": "fails"})).await;
        assert_eq!(failed["result"]["isError"], true);
        assert_eq!(failed["result"]["content"][0]["text"], "Error: the disk is full");
        let missing = client.ask("tools/call", json!({"name": "nothing"})).await;
        assert_eq!(missing["error"]["message"], "Tool not found: nothing", "{missing}");
        let called = client.ask("tools/call", json!({"name": "hello"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "hello");
    }
}

/// Panics in every method.
struct Panics;

impl ToolProvider for Panics {
    fn list_tools(&self) -> Vec<Arc<ProvidedTool>> {
        panic!("it is wrong")
    }

    fn call_tool<'a>(
        &'a self,
        _name: &'a str,
        _arguments: Map<String, Value>,
        _call: &'a CallContext,
    ) -> ToolCallFuture<'a> {
        panic!("it is wrong")
    }
}

#[tokio::test]
async fn a_panicking_provider_has_no_tools_and_does_not_affect_others() {
    let registry = hello();
    registry.add_provider(Arc::new(Panics));
    for era in ERAS {
        let mut client = Client::in_era(era, &registry).await;
        assert_eq!(names(&client.ask("tools/list", json!({})).await), ["hello"]);
        let called = client.ask("tools/call", json!({"name": "hello"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "hello");
    }
}

#[tokio::test]
async fn errors_of_execute_tool_are_results_and_not_protocol_errors() {
    let registry = hello();
    let fails = || async { Err::<(), _>("the disk is full") };
    let tool = ProvidedTool::new("fails", "Fails").searchable();
    registry.register_tool(tool, fails, &[]).unwrap();
    for era in ERAS {
        let mut client = Client::in_era(era, &registry).await;
        for (name, text) in
            [("fails", "Error: the disk is full"), ("nothing", "Tool not found: nothing")]
        {
            let wanted = json!({"name": "execute_tool", "arguments": {"name": name}});
            let failed = client.ask("tools/call", wanted).await;
            assert_eq!(failed["result"]["isError"], true, "{failed}");
            assert_eq!(failed["result"]["content"][0]["text"], text);
        }
        let wanted = json!({"name": "execute_tool", "arguments": {}});
        let wrong = client.ask("tools/call", wanted).await;
        assert_eq!(wrong["result"]["isError"], true, "{wrong}");
    }
}
