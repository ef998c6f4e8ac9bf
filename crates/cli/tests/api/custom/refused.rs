//! Errors in a source are reported when it is registered or changed: all at once, each with its field path.

use serde_json::{Value, json};

use super::{Server, as_custom_source};

fn errors(server: &Server, settings: Value) -> String {
    let source = as_custom_source(json!({"settings": settings}));
    let first = server.post("/api/sources", &source).errors();
    let empty = as_custom_source(json!({"settings": {}}));
    server.post("/api/sources", &empty);
    assert_eq!(server.put("/api/sources/own", &source).errors(), first);
    first
}

#[test]
fn duplicates_are_rejected_with_an_already_exists_message() {
    let tool = json!({"name": "motto", "answer": {"text": "a"}});
    let resource = json!({"uri": "docs://a", "name": "a", "text": "a"});
    let prompt = json!({"name": "review", "template": "a"});
    let settings = json!({"tools": [tool, tool], "resources": [resource, resource], "prompts": [prompt, prompt]});
    insta::assert_snapshot!(errors(&Server::start(), settings), @"
    settings.tools[1].name: Tool with name 'motto' already exists
    settings.prompts[1].name: Prompt with name 'review' already exists
    settings.resources[1].uri: Resource with URI 'docs://a' already exists
    ");
}

#[test]
fn unknown_fields_are_rejected_with_suggestions() {
    let settings = json!({
        "tool": [],
        "tools": [
            {"name": "a", "anwser": {"text": ""}, "inputSchema": {}},
            {"name": "b", "request": {"uri": "https://a.test"}},
            {"name": "c", "answer": {"txt": ""}},
        ],
        "resources": [{"uri": "a:b", "name": "n", "mimeType": "text/plain", "text": ""}],
    });
    insta::assert_snapshot!(errors(&Server::start(), settings), @"
    settings.tool: is not known here; did you mean `tools`?
    settings.tools[0].anwser: is not known here; did you mean `answer`?
    settings.tools[0].inputSchema: is not known here; did you mean `input_schema`?
    settings.tools[1].request.url: is missing
    settings.tools[1].request.uri: is not known here; did you mean `url`?
    settings.tools[2].answer: is to have one of the members `text`, `json`, `content`
    settings.resources[0].mimeType: is not known here; did you mean `mime_type`?
    ");
}

#[test]
fn all_invalid_settings_are_reported_at_once() {
    let settings = json!({
        "tools": [
            {"name": "a b", "answer": {"text": ""}},
            {"name": "b"},
            {"name": "c", "request": {"url": "/x"}},
            {"name": "d", "input_schema": {"properties": {"a": {}}}, "request": {"url": "https://a.test/{{b}}"}},
        ],
        "prompts": [{"name": "p", "template": "", "messages": [{"role": "user", "text": ""}]}],
        "resources": [{"uri": "nowhere", "name": "n", "text": ""}],
        "resource_templates": [
            {"uri_template": "a:{+b}", "name": "t", "text": ""},
            {"uri_template": "b:{c}", "name": "u", "text": "", "values": {"c": ["\n"], "d": ["x"]}},
        ],
    });
    insta::assert_snapshot!(errors(&Server::start(), settings), @"
    settings.tools[0].name: is to have 1 to 64 letters, digits, `_`, `-` and `.`
    settings.tools[1]: is to have one of `request`, `answer`, `command`, and none is given
    settings.tools[2].request.url: is a path, and the source has no `url` that it could be below
    settings.tools[3].request.url: has `{{b}}`, which is no property of `input_schema`
    settings.prompts[0]: is to have one of `template`, `messages`, and several are given
    settings.resources[0].uri: is to be a whole address, such as `docs://handbook`
    settings.resource_templates[0].uri_template: has braces that hold no name: only `{name}` is known, with letters, digits, `_` and `.`
    settings.resource_templates[1].values.c[0]: is to have 1 to 128 bytes that can be printed
    settings.resource_templates[1].values.d: is no name in the address
    ");
    let compiled = json!({"tools": [
        {"name": "a", "request": {"url": "https://{{host}}/x"}},
        {"name": "b", "request": {"url": "https://me:pass@a.test/x"}},
        {"name": "c", "request": {"url": "https://a.test/x/../{{y}}"}},
        {"name": "d", "request": {"url": "https://a.test", "headers": {"X-A": "a\r\nb", "a b": "c"}}},
        {"name": "e", "input_schema": {"type": "object", "properties": {"a": {"type": "strng"}}}, "answer": {"text": ""}},
        {"name": "f", "output_schema": {"required": "a"}, "answer": {"text": ""}},
    ]});
    let found = errors(&Server::start(), compiled);
    for expected in [
        "settings.tools[0].request: the address must begin with a fixed",
        "settings.tools[1].request: the address must begin with a fixed",
        "settings.tools[2].request: the address has a segment",
        "settings.tools[3].request: the header",
        "settings.tools[4].input_schema: is no JSON Schema 2020-12: at `/properties/a/type`",
        "settings.tools[5].output_schema: is no JSON Schema 2020-12: at `/required`",
    ] {
        assert!(found.lines().any(|said| said.starts_with(expected)), "{expected}\n{found}");
    }
}

#[test]
fn a_credential_needs_a_source_url() {
    let settings = json!({"tools": [{"name": "a", "request": {"url": "https://a.test"}}]});
    let auth = json!({"kind": "bearer", "token": "env:TOKEN"});
    let source = as_custom_source(json!({"settings": settings, "auth": auth}));
    let errors = Server::start().post("/api/sources", &source).errors();
    assert_eq!(
        errors,
        "url: say where the credential of the source goes: to the origin of this `url`"
    );
}

#[test]
fn programs_can_be_registered_only_with_allow_stdio() {
    let command = json!({"tools": [{"name": "a", "command": {"program": "date"}}]});
    let source = as_custom_source(json!({"settings": command}));
    let server = Server::start();
    assert!(server.post("/api/sources", &source).problem().starts_with("403 stdio_not_allowed"));
    server.post("/api/sources", &as_custom_source(json!({"settings": {}}))).ok();
    assert!(server.put("/api/sources/own", &source).problem().starts_with("403 stdio_not_allowed"));
    let server = server.restart("--listen 127.0.0.1:0 --allow-stdio");
    server.put("/api/sources/own", &source).ok();
    let program = json!({"tools": [{"name": "a", "command": {"program": "{{p}} x", "environment": {"LD_PRELOAD": "env:A"}}}]});
    let source = as_custom_source(json!({"settings": program}));
    insta::assert_snapshot!(server.put("/api/sources/own", &source).errors(), @"
    settings.tools[0].command.program: names one program, and no shell reads it: its arguments go into `arguments`
    settings.tools[0].command.environment.LD_PRELOAD: may not be set: it can make the loader of programs run other code than the command says; if you need it, name a script of your own as the program and set it there
    settings.tools[0].command.program: has a placeholder: which program is run is not for arguments to say
    ");
}

#[test]
fn a_registered_program_does_not_run_without_allow_stdio() {
    let tools = json!([{"name": "date", "command": {"program": "/bin/date"}}]);
    let own = super::CustomSource::on_server(
        Server::start_with("--allow-stdio"),
        json!({"tools": tools}),
    );
    assert!(!own.text("date", json!({})).is_empty());
    let server = own.server.restart("--listen 127.0.0.1:0");
    let own = super::CustomSource { server, key: own.key };
    assert_eq!(own.failure("date", json!({})), "the program of the tool cannot be run here");
}
