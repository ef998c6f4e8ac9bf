//! `toolcrib serve TARGET`: one command serves the tools of an API.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::running::{Running, run_in_shell};
use crate::support::{Folder, ok};
use crate::upstream::{Upstream, answer};

/// Beginning of the last line of the startup message.
const LAST_LINE: &str = "Nothing is kept";

const PETS: &str = r#"
openapi: 3.1.0
info: {title: Pets, version: 2.0.1}
servers: [{url: SERVER}]
paths:
  /pets/{id}:
    get:
      operationId: get_pet
      summary: A pet, by the number on its collar
      parameters: [{name: id, in: path, required: true, schema: {type: integer, example: 7}}]
      responses: {"200": {description: It}}
    delete:
      operationId: delete_pet
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {}
"#;

/// API that serves its own specification.
fn pets() -> Upstream {
    Upstream::replying(|request| match request.split(' ').nth(1).unwrap() {
        "/openapi.yaml" => ok("application/yaml", &PETS.replace("SERVER", "/")),
        "/pets/7" => ok("application/json", r#"{"name":"Rex"}"#),
        _ => answer("404 Not Found", "", b""),
    })
}

#[test]
fn two_commands_are_enough_for_the_first_call() {
    let (folder, pets) = (Folder::empty(), pets());
    let running = Running::start(&folder, &pets.url("/openapi.yaml"), LAST_LINE);
    insta::assert_snapshot!(running.startup_message().replace(&pets.url(""), "PETS"), @r#"
    toolcrib serves on URL
      MCP       URL/mcp
      API       URL/api
      API docs  URL/api/docs
      Console   URL/console

    2 tools, for whoever comes without a credential
      SOURCE     TOOLS  FROM
      127-0-0-1      2  PETS/openapi.yaml

    Call one:
      toolcrib call URL/mcp get_pet id=7

    Tell a client (`toolcrib client` knows more):
      Cursor          {"mcpServers":{"toolcrib":{"url":"URL/mcp"}}}
      Claude Desktop  {"mcpServers":{"toolcrib":{"command":"toolcrib","args":["stdio","URL/mcp"]}}}

    A key for an admin, shown only now:
      tcrib_first-admin_…

    The console, signed in:
      URL/console#key=tcrib_first-admin_…

    Nothing is kept when the server stops: give --journal FILE for that.
    "#);
    let call = running.lines_below("Call one:")[0].to_owned();
    let (code, said) = run_in_shell(&folder, &call);
    assert_eq!((code, said.contains(r#""name": "Rex""#)), (Some(0), true), "{said}");
    assert_eq!(folder.files(), [""; 0], "it keeps nothing");
}

#[test]
fn a_server_url_in_a_specification_must_be_public_or_allowed() {
    let (folder, pets) = (Folder::empty(), pets());
    folder.write("pets.yaml", PETS.replace("SERVER", &pets.url("")));
    let running = Running::start(&folder, "pets.yaml", LAST_LINE);
    assert_eq!(running.lines_below("Call one:"), [""; 0], "no call is offered that fails");
    let url = running.url();
    let called = folder.run(&format!("call {url}/mcp get_pet id=7"));
    assert!(called.stderr.contains("an address that is not public"), "{}", called.stderr);
    assert_eq!(pets.requests(), [""; 0]);
    let host = pets.url("").replace("http://", "");
    let hint = format!("calls of pets.yaml are shut, as {host} is not public: give --allow {host}");
    assert_eq!(running.lines_below("2 tools")[2], hint);
    let running = Running::start(&folder, &format!("pets.yaml --allow {host}"), LAST_LINE);
    let (code, said) = run_in_shell(&folder, running.lines_below("Call one:")[0]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(pets.requests().len(), 1);
}

#[test]
fn a_redirect_to_a_private_address_is_not_followed() {
    let elsewhere = Upstream::replying(|_| ok("application/yaml", PETS));
    let moved = format!("Location: {}\r\n", elsewhere.url("/openapi.yaml"));
    let typed = Upstream::replying(move |_| answer("302 Found", &moved, b""));
    for verb in ["discover", "serve --listen 127.0.0.1:0"] {
        let run = Folder::empty().run(&format!("{verb} {}", typed.url("/openapi.yaml")));
        assert_eq!(run.code, Some(1), "{}", run.stdout);
        assert!(run.stderr.contains("an address that is not public"), "{}", run.stderr);
    }
    assert_eq!(elsewhere.requests(), [""; 0]);
}

/// MCP server that repeats its arguments.
const ECHO: &str = r#"import json, sys
TOOL = {"name": "echo", "inputSchema": {"type": "object", "required": ["word"], "properties": {"word": {"type": "string", "default": "hello"}}}}
for line in sys.stdin:
    asked = json.loads(line)
    results = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "heard " + str(asked["params"].get("arguments"))}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results.get(asked["method"], {})}), flush=True)
"#;

#[test]
fn only_a_program_named_on_the_command_line_can_be_started() {
    let folder = Folder::empty();
    folder.write("echo.py", ECHO);
    let running = Running::start(&folder, "--allow-anonymous -- python3 echo.py", LAST_LINE);
    assert_eq!(running.lines_below("1 tool")[1], "echo        1  -- python3 echo.py");
    let (code, said) = run_in_shell(&folder, running.lines_below("Call one:")[0]);
    assert_eq!((code, said.as_str()), (Some(0), "heard {'word': 'hello'}\n"));
    let (key, url) = (running.lines_below("A key for an admin")[0], running.url());
    let body = r#"{"name":"x","settings":{"kind":"mcp","command":{"program":"python3","arguments":["echo.py"]}}}"#;
    let asked = crate::api::server::Ask::new("POST", "/api/sources").bearer(key);
    let answer = asked.text("application/json", body).send_to(url);
    assert_eq!(answer.json()["code"], "stdio_not_allowed");
}

#[test]
fn a_second_start_with_a_journal_changes_nothing() {
    let (folder, pets) = (Folder::empty(), pets());
    folder.write("pets.yaml", PETS.replace("SERVER", "https://pets.example"));
    let arguments = format!("--journal crib.db {} pets.yaml", pets.url("/openapi.yaml"));
    let known = || {
        let shown = folder.run("--journal crib.db journal show --json").output();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        ["sources", "tools", "groups", "policies", "keys"].map(|kind| shown[kind].clone())
    };
    let running = Running::start(&folder, &arguments, "  tcrib_");
    assert_eq!(running.lines_below("4 tools").len(), 3);
    drop(running);
    let before = known();
    assert_eq!(before[1], 4);
    let running = Running::start(&folder, &arguments, "  Claude Desktop");
    assert_eq!(running.lines_below("4 tools").len(), 3);
    drop(running);
    assert_eq!(known(), before);
}

#[test]
fn an_unreadable_target_is_reported_and_the_others_are_served() {
    let (folder, pets) = (Folder::empty(), pets());
    folder.write("pets.yaml", PETS);
    folder.write("notes.txt", "milk");
    std::fs::create_dir(folder.path("more")).unwrap();
    folder.write("more/pets.yaml", PETS);
    let targets = format!("notes.txt pets.yaml more/pets.yaml {}", pets.url("/nothing"));
    let running = Running::start(&folder, &targets, LAST_LINE);
    let rows = running.lines_below("4 tools").join("\n").replace(&pets.url(""), "PETS");
    insta::assert_snapshot!(rows, @"
    SOURCE  TOOLS  FROM
    –           0  notes.txt
    pets        2  pets.yaml
    pets-2      2  more/pets.yaml
    –           0  PETS/nothing
    notes.txt is left out: this is neither an OpenAPI specification (no `openapi`, `swagger` or `paths`) nor an http manifest (no `tools`)
    PETS/nothing is left out: `PETS/nothing` cannot be fetched: the answer has status 404, and only 200 has the whole document
    ");
}

#[test]
fn a_start_without_any_readable_target_leaves_nothing_behind() {
    let folder = Folder::empty();
    folder.write("notes.txt", "milk");
    let run = folder.run("serve --listen 127.0.0.1:0 --journal crib.db notes.txt missing.yaml");
    insta::assert_snapshot!(run.seen(), @"
    stderr: error: no TARGET could be read
    stderr:   notes.txt: this is neither an OpenAPI specification (no `openapi`, `swagger` or `paths`) nor an http manifest (no `tools`)
    stderr:   missing.yaml: `missing.yaml` cannot be read: No such file or directory (os error 2)
    exit code: 1
    ");
    assert_eq!(folder.files(), ["notes.txt"]);
    let run = folder.run("serve --listen 127.0.0.1:0 --journal crib.db -- no-such-program");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    let why = "-- no-such-program: `no-such-program` cannot be started: check the command";
    assert!(run.stderr.contains(why), "{}", run.stderr);
    let left = folder.run("--journal crib.db journal show --json").output();
    let left: Value = serde_json::from_str(&left).unwrap();
    assert_eq!((&left["sources"], &left["keys"]), (&json!([]), &json!([])));
}

#[test]
fn the_stderr_of_a_program_that_exits_at_once_is_shown() {
    let folder = Folder::empty();
    folder.write("server.py", "import sys\nsys.exit('no token: set \\x1b[31mTOKEN')\n");
    let run = folder.run("serve --listen 127.0.0.1:0 -- /usr/bin/python3 server.py");
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("| no token: set \u{fffd}[31mTOKEN\n"), "{}", run.stderr);
}

#[test]
fn configuration_snippets_for_clients_are_printed() {
    let said = Folder::empty().run("client --url https://crib.example/mcp").output();
    let program = env!("CARGO_BIN_EXE_toolcrib");
    insta::assert_snapshot!(said.replace(program, "toolcrib"), @r#"
    Claude Code (a command)
      claude mcp add --transport http toolcrib https://crib.example/mcp

    Claude Desktop (claude_desktop_config.json)
      {"mcpServers":{"toolcrib":{"command":"toolcrib","args":["stdio","https://crib.example/mcp"]}}}

    Cursor (~/.cursor/mcp.json)
      {"mcpServers":{"toolcrib":{"url":"https://crib.example/mcp"}}}

    LangChain (Python, langchain-mcp-adapters)
      MultiServerMCPClient({"toolcrib": {"transport": "streamable_http", "url": "https://crib.example/mcp"}})

    OpenAI Agents (Python, openai-agents)
      MCPServerStreamableHttp(name="toolcrib", params={"url": "https://crib.example/mcp"})

    VS Code (.vscode/mcp.json)
      {"servers":{"toolcrib":{"type":"http","url":"https://crib.example/mcp"}}}
    "#);
    let one = Folder::empty().run("client vscode").output();
    let expected = r#"{"servers":{"toolcrib":{"type":"http","url":"http://127.0.0.1:8080/mcp"}}}"#;
    assert_eq!(one.trim(), expected);
}
