//! `toolcrib stdio`: the tools of one identity over MCP on standard input and output.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::support::Folder;

const STAFF: &str = r#"stdio --claims {"role":"staff"}"#;

/// Running program with its standard input and output.
pub(crate) struct StdioClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl StdioClient {
    pub(crate) fn start(folder: &Folder, arguments: &str) -> Self {
        let mut child = folder.start(arguments, &[]);
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(&message.to_string());
        self.receive()
    }

    /// Closes the input; returns the remaining output and the exit code.
    pub(crate) fn close(mut self) -> (String, Option<i32>) {
        drop(self.input.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.output, &mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

pub(crate) fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn both_generations_share_one_stream_with_nothing_else_on_it() {
    let folder = Folder::with_catalog();
    let mut spoken = StdioClient::start(&folder, STAFF);
    let discovered = spoken.ask(&modern(1, "server/discover", json!({})));
    assert_eq!(discovered["result"]["resultType"], "complete");
    assert_eq!(names(&spoken.ask(&modern(2, "tools/list", json!({})))), ["getOwner", "listPets"]);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let answer =
        spoken.ask(&json!({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": hello}));
    assert_eq!(answer["id"], "a");
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    spoken.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let listed = spoken.ask(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}));
    assert_eq!(names(&listed), ["getOwner", "listPets"]);
    assert_eq!(listed["result"].get("resultType"), None);
    let pong = spoken.ask(&json!({"jsonrpc": "2.0", "id": 4, "method": "ping"}));
    assert_eq!(pong, json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    assert_eq!(spoken.close(), (String::new(), Some(0)));
}

#[test]
fn an_invalid_message_is_an_error_and_the_next_one_is_handled() {
    let folder = Folder::with_catalog();
    let mut spoken = StdioClient::start(&folder, STAFF);
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(5 << 20));
    for (line, code) in [
        ("garbage", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#, -32601),
        (long.as_str(), -32600),
    ] {
        spoken.send("");
        spoken.send(line);
        assert_eq!(spoken.receive()["error"]["code"], code, "{}", line.get(..40).unwrap_or(line));
    }
    let call = json!({"name": "buyPet", "arguments": {}});
    let missing = spoken.ask(&modern(2, "tools/call", call));
    assert_eq!(missing["error"]["message"], "Tool not found: buyPet");
    assert_eq!(spoken.close(), (String::new(), Some(0)));
}

#[test]
fn the_identity_is_given_at_startup() {
    let folder = Folder::with_catalog();
    let mut nobody = StdioClient::start(&folder, "stdio");
    assert!(names(&nobody.ask(&modern(1, "tools/list", json!({})))).is_empty());
    nobody.close();
    let mut narrowed =
        StdioClient::start(&folder, &format!("{STAFF} --group pets-read --mode search"));
    let listed = narrowed.ask(&modern(1, "tools/list", json!({})));
    assert_eq!(names(&listed), ["tool_search", "execute_tool"]);
    let search = json!({"name": "tool_search", "arguments": {"query": "owner"}});
    let found = narrowed.ask(&modern(2, "tools/call", search));
    assert_eq!(found["result"]["structuredContent"]["tools"][0]["name"], "getOwner");
    narrowed.close();
    let refused = folder.run(&format!("{STAFF} --group pets-all"));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("has no group `pets-all`"), "{}", refused.stderr);
    let wrong = folder.run_with("stdio", "", &[("TOOLCRIB_KEY", "tcrib_a_b")]);
    assert!(wrong.stderr.contains("TOOLCRIB_KEY is not taken"), "{}", wrong.stderr);
    assert_eq!(wrong.stdout, "");
}

#[test]
fn the_program_ends_when_its_output_is_closed() {
    let folder = Folder::with_catalog();
    let StdioClient { mut child, input, output } = StdioClient::start(&folder, STAFF);
    let mut input = input.unwrap();
    drop(output);
    // Both answers go to a closed pipe; the input stays open.
    for id in 0..2 {
        writeln!(input, "{}", modern(id, "tools/list", json!({}))).ok();
    }
    let ended = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    });
    assert!(ended, "it still waits for somebody");
}

/// MCP server with a very long result.
const LONG: &str = r#"import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "x" * 300000}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}), flush=True)
"#;

#[test]
fn the_rest_of_a_long_result_is_a_resource_and_not_a_url() {
    let folder = Folder::empty();
    folder.write("long.py", LONG);
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"];
    let python = python.iter().find(|path| std::path::Path::new(path).exists()).unwrap();
    let mut spoken = StdioClient::start(&folder, &format!("stdio -- {python} -S -E long.py"));
    let discovered = spoken.ask(&modern(1, "server/discover", json!({})));
    assert!(discovered["result"]["capabilities"]["resources"].is_object(), "{discovered}");
    let told = spoken.ask(&modern(2, "tools/call", json!({"name": "tell", "arguments": {}})));
    let content = &told["result"]["content"];
    let link = &content[2];
    let (note, uri) = (content[1]["text"].as_str().unwrap(), link["uri"].as_str().unwrap());
    assert_eq!(link["type"], "resource_link");
    assert!(note.ends_with(&format!("read the resource {uri}]")), "{note}");
    let rest = spoken.ask(&modern(3, "resources/read", json!({"uri": uri})));
    let rest = rest["result"]["contents"][0]["text"].as_str().unwrap();
    assert_eq!(content[0]["text"].as_str().unwrap().len() + rest.len(), 300_000);
    spoken.close();
}
