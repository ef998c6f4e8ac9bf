//! Tests of custom settings: the manifests they become, and the problems they cause.

use serde_json::{Value, json};

use super::*;

fn read_at(base: Option<&str>, settings: Value) -> Result<Vec<CustomDeclaration>, Vec<String>> {
    let source = "own".parse().unwrap();
    let base = base.map(|base| base.parse().unwrap());
    let settings = serde_json::from_value(settings).unwrap();
    let said = |problem: CustomProblem| format!("{}: {}", problem.at, problem.why);
    super::read_custom_settings(&source, base.as_ref(), &settings)
        .map_err(|problems| problems.into_iter().map(said).collect())
}

fn read(settings: Value) -> Vec<CustomDeclaration> {
    read_at(Some("https://api.test/v1/?x=y"), settings).unwrap()
}

fn problems(settings: Value) -> Vec<String> {
    read_at(None, settings).unwrap_err()
}

fn request(request: Value) -> Value {
    let declared = read(json!({"tools": [{"name": "t", "request": request}]}));
    serde_json::to_value(&declared[0].manifest.execution).unwrap()
}

#[test]
fn each_value_is_encoded_for_its_position_in_the_template() {
    let written = request(json!({
        "method": "POST", "url": "/orders/{{id}}/x{y?fixed=1",
        "query": {"q": "{{q}}", "w": "a {{b}}", "f": "fixed"},
        "headers": {"X-A": "v={{id}}"},
        "body": {"json": {"whole": "{{n}}", "part": "a{{n}}", "list": [1, null, true, "x"], "{{k}}": "\"}}"}},
    }));
    let b = r#"(join("a ", args["b"]) if args["b"] is defined)"#;
    let query = format!(
        r#"{{{{ query("fixed=1", form("f", "fixed"), form("q", (join(args["q"]) if args["q"] is defined)), form("w", {b})) }}}}"#
    );
    let url = r#"https://api.test/v1/orders/{{ args["id"] }}{{ "/x\u007by" }}"#;
    assert_eq!(written["url_template"], format!("{url}{query}"));
    assert_eq!(written["headers_template"], json!({"X-A": r#"v={{ header(args["id"]) }}"#}));
    let part = r#"(join("a", args["n"]) if args["n"] is defined)"#;
    let list = r#"[1, none, true, "x"]"#;
    let key = r#""\u007b\u007bk\u007d\u007d", "\"\u007d\u007d""#;
    let body = format!(
        r#"{{{{ json(object("whole", args["n"], "part", {part}, "list", {list}, {key})) }}}}"#
    );
    assert_eq!(written["body_template"], body);
}

#[test]
fn bodies_are_json_forms_or_text() {
    let fixed = request(json!({"method": "POST", "url": "/a", "body": {"json": {"a": "{% b %}"}}}));
    assert_eq!(fixed["body_template"], r#"{{ "\u007b\"a\":\"\u007b% b %\u007d\"\u007d" }}"#);
    let form = request(json!({"method": "POST", "url": "/a", "body": {"form": {"a": "{{b}}"}}}));
    assert_eq!(
        form["body_template"],
        r#"{{ pairs(form("a", (join(args["b"]) if args["b"] is defined))) }}"#
    );
    assert_eq!(form["body_encoding"], "form");
    let text =
        request(json!({"method": "PUT", "url": "https://b.test", "body": {"text": "a {{b}}"}}));
    assert_eq!(
        (&text["body_template"], &text["body_encoding"]),
        (&json!(r#"a {{ args["b"] }}"#), &json!("text"))
    );
    assert_eq!(text["url_template"], "https://b.test");
}

#[test]
fn placeholders_become_required_arguments() {
    let declared = read(json!({"tools": [
        {"name": "get", "title": "Get", "description": "d", "tags": ["x"],
            "request": {"url": "/a/{{id}}", "query": {"q": "{{q}}"}}},
        {"name": "run", "command": {"program": "p", "arguments": ["{{a}}", "{{ b }}"]}},
        {"name": "any", "command": {"program": "p", "stdin": true}},
        {"name": "say", "answer": {"text": "{{no}}"}},
        {"name": "typed", "input_schema": {"properties": {"odd name": {}}},
            "request": {"method": "DELETE", "url": "/{{odd name}}"}},
    ]}));
    let schemas: Vec<_> = declared.iter().map(|one| one.manifest.input_schema.to_value()).collect();
    let text = json!({"type": "string"});
    assert_eq!(
        schemas[0],
        json!({"type": "object", "properties": {"id": text, "q": text}, "required": ["id", "q"]})
    );
    assert_eq!(schemas[1], json!({"type": "object", "properties": {"a": text}, "required": ["a"]}));
    assert_eq!(schemas[2], json!({"type": "object"}));
    assert_eq!(schemas[3], json!({"type": "object", "properties": {}, "required": []}));
    assert_eq!(schemas[4]["type"], "object");
    let shown: Vec<_> =
        declared.iter().map(|one| (&*one.manifest.method, &*one.manifest.path)).collect();
    let expected = [
        ("GET", "/a/{id}"),
        ("POST", "/custom/run"),
        ("POST", "/custom/any"),
        ("POST", "/custom/say"),
        ("DELETE", "/{odd name}"),
    ];
    assert_eq!(shown, expected);
    let hints: Vec<_> = declared
        .iter()
        .map(|one| one.manifest.extra.get("annotations").map(RawJson::as_str))
        .collect();
    assert_eq!(hints[0], Some(r#"{"readOnlyHint":true}"#));
    assert_eq!(hints[1], None);
}

#[test]
fn duplicates_are_rejected_with_the_usual_messages() {
    let tool = json!({"name": "a", "answer": {"text": ""}});
    let prompt = json!({"name": "a", "template": ""});
    let resource = json!({"uri": "a:b", "name": "a", "text": ""});
    let template = json!({"uri_template": "a:{b}", "name": "a", "text": ""});
    let twice = json!({
        "tools": [tool, tool], "prompts": [prompt, prompt], "resources": [resource, resource],
        "resource_templates": [template, template],
    });
    let expected = [
        "tools[1].name: Tool with name 'a' already exists",
        "prompts[1].name: Prompt with name 'a' already exists",
        "resources[1].uri: Resource with URI 'a:b' already exists",
        "resource_templates[1].uri_template: Resource with URI 'a:{b}' already exists",
    ];
    assert_eq!(problems(twice), expected);
}

#[test]
fn all_problems_are_reported_at_once_with_their_field_paths() {
    let found = problems(json!({
        "tools": [
            {"name": "a b", "answer": {"text": ""}, "command": {"program": "p"}},
            {"name": "b"},
            {"name": "c", "request": {"method": "get", "url": "/x"}},
            {"name": "d", "request": {"url": "https://a.test/?q={{q}}", "headers": {"Authorization": "x", "Host": "y"}, "body": {"text": ""}}},
            {"name": "k", "request": {"url": "https://a.test/?api_key=0123456789abcdef", "headers": {"X-Api-Key": "0123456789abcdef", "X-Some-Token": "no-check"}, "query": {"access_token": "0123456789abcdef", "page_token": "{{next}}"}, "method": "POST", "body": {"json": {"by": [{"client_secret": "0123456789abcdef"}]}}}, "input_schema": {"properties": {"next": {}}}},
            {"name": "e", "request": {"url": "ftp://a.test"}},
            {"name": "f", "input_schema": {"type": "array", "properties": {"a": {}}}, "request": {"url": "https://a.test/{{b}}"}},
            {"name": "g", "command": {"program": "{{p}}", "directory": "x", "environment": {"LD_PRELOAD": "env:A"}}},
            {"name": "h", "answer": {"content": [{"type": "text"}, {"type": "video"}, {"type": "resource"}]}},
        ],
        "prompts": [
            {"name": "", "arguments": [{"name": "x"}, {"name": "x"}, {"name": "{"}]},
            {"name": "p", "messages": [{"role": "user"}, {"role": "user", "content": {"type": "image", "data": ""}}]},
        ],
        "resources": [
            {"uri": "no", "name": "r", "text": "", "blob": "***"},
            {"uri": "a:1", "name": "r", "file": "/srv/../etc", "mime_type": "text"},
            {"uri": "a:2", "name": "r", "url": "/x"},
            {"uri": "a:3", "name": "r", "blob": "a"},
        ],
        "resource_templates": [
            {"uri_template": "a:{+b}", "name": "t", "text": ""},
            {"uri_template": "a:{c}", "name": "t", "file": "/srv/{{d}}"},
        ],
    }));
    for expected in [
        "tools[0]: is to have one of `request`, `answer`, `command`, and several are given",
        "tools[1]: is to have one of `request`, `answer`, `command`, and none is given",
        "tools[2].request.method: is to be one of GET, POST, PUT, PATCH, DELETE",
        "tools[2].request.url: is a path, and the source has no `url` that it could be below",
        "tools[3].request.body: a GET request has none: say another `method`",
        "tools[3].request.headers.Authorization: is for credentials: give them under `auth` of the source, by reference",
        "tools[3].request.headers.Host: is not set by tools",
        "tools[3].request.url: has a placeholder in its query: put the pair into `query`",
        "tools[4].request.url: `api_key` holds what may be a secret: give it under `auth` of the source, by reference",
        "tools[4].request.headers.X-Api-Key: `X-Api-Key` holds what may be a secret: give it under `auth` of the source, by reference",
        "tools[4].request.body.json.by[0].client_secret: `client_secret` holds what may be a secret: give it under `auth` of the source, by reference",
        "tools[4].request.query.access_token: `access_token` holds what may be a secret: give it under `auth` of the source, by reference",
        "tools[5].request.url: is to begin with `http://`, `https://` or `/`",
        "tools[6].request.url: has `{{b}}`, which is no property of `input_schema`",
        "tools[6].input_schema.type: is to be `object`: arguments and results are objects",
        "tools[7].command.program: has a placeholder: which program is run is not for arguments to say",
        "tools[7].command.directory: is to be an absolute path",
        "tools[8].answer.content[0].text: is to be a text",
        "tools[8].answer.content[1].type: is to be `text`, `image`, `audio`, `resource_link` or `resource`",
        "tools[8].answer.content[2].resource: is to have a `uri`, and a `text` or a `blob`",
        "prompts[0]: is to have one of `template`, `messages`, and none is given",
        "prompts[0].arguments[1].name: another argument is called `x`",
        "prompts[0].arguments[2].name: has a brace, which no placeholder has",
        "prompts[1].messages[0]: is to have one of `text`, `content`, and none is given",
        "prompts[1].messages[1].content.mimeType: is to be a text",
        "resources[0].uri: is to be a whole address, such as `docs://handbook`",
        "resources[0]: is to have one of `text`, `blob`, `file`, `url`, and several are given",
        "resources[1].file: is to be an absolute path without `.` and `..`",
        "resources[1].mime_type: is to be a type, such as `text/markdown`",
        "resources[2].url: is a path, and the source has no `url` that it could be below",
        "resources[3].blob: is to be base64, with its `=` at the end",
        "resource_templates[1].file: has `{{d}}`, which is no part of the address",
    ] {
        assert!(found.iter().any(|said| said == expected), "{expected}\n{found:#?}");
    }
    let template = "resource_templates[0].uri_template: has braces that hold no name";
    assert!(found.iter().any(|said| said.starts_with(template)), "{found:#?}");
}

#[test]
fn prompts_and_resources_are_listed_as_in_mcp() {
    let declared = read(json!({
        "prompts": [{"name": "p", "arguments": [{"name": "x", "required": true}], "template": "{{x}}"}],
        "resources": [{"uri": "a:b", "name": "r", "mime_type": "text/plain", "text": "hi"}],
        "resource_templates": [{"uri_template": "a:{b}", "name": "t", "url": "/{{b}}"}],
    }));
    let keys: Vec<_> = declared.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["prompt/p", "resource/a:b", "template/a:{b}"]);
    assert_eq!(
        declared[0].manifest.extra["arguments"].as_str(),
        r#"[{"name":"x","required":true}]"#
    );
    assert_eq!(declared[1].manifest.extra["mimeType"].as_str(), r#""text/plain""#);
    let stored = serde_json::to_value(&declared[2].manifest.execution).unwrap();
    let request =
        json!({"url_template": "https://api.test/v1/{{ args[\"b\"] }}", "body_encoding": "json"});
    let template = json!({"uri_template": "a:{b}", "holds": {"request": request}});
    assert_eq!(stored, json!({"mode": "custom", "does": {"template": template}}));
    let back: Execution = serde_json::from_value(stored).unwrap();
    assert_eq!(back, declared[2].manifest.execution);
}

#[test]
fn long_running_calls_are_polled_relative_to_the_request() {
    let polling = json!({"status_url": "/jobs/{answer.id}", "status_path": "state",
        "completed": ["done"], "cancel": {"url": "/{args.shop}/jobs/{answer.id}"}});
    let status = |url: &str| {
        let request = request(json!({"method": "POST", "url": url, "polling": polling}));
        assert_eq!(request["mode"], "async_poll", "{request}");
        request["polling"]["status_url_template"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("/{{shop}}/bake"), r#"https://api.test/v1/jobs/{{ answer["id"] }}"#);
    let elsewhere = status("https://b.test/v2/{{shop}}/bake");
    assert_eq!(elsewhere, r#"https://b.test/jobs/{{ answer["id"] }}"#, "below its origin");
}

#[test]
fn polling_problems_are_reported_with_their_field_path() {
    let wrong = |polling: Value, schema: Value| {
        let request = json!({"url": "https://a.test/{{shop}}", "polling": polling});
        let mut tool = json!({"name": "t", "request": request});
        if !schema.is_null() {
            tool["input_schema"] = schema;
        }
        problems(json!({"tools": [tool]})).join("\n")
    };
    let polling = |url: &str| json!({"status_url": url, "status_path": "s", "completed": ["ok"]});
    let misspelt = "tools[0].request.polling: has `{args.ship}`, which is no argument of the tool";
    assert_eq!(wrong(polling("/{args.ship}"), Value::Null), misspelt);
    let schema = json!({"properties": {"shop": {}}});
    assert_eq!(wrong(polling("/{args.ship}"), schema), misspelt);
    let none = json!({"status_path": "s", "completed": []});
    let expected = "tools[0].request.polling: `completed` names no status";
    assert_eq!(wrong(none, Value::Null), expected);
    assert!(wrong(polling("https://evil.test/"), Value::Null).contains("is not a path below"));
}
