//! `toolcrib call`: dry runs, sent requests, printed results, and rejected calls.

use serde_json::Value;

use crate::support::{Folder, Run, answering, ok};
use crate::upstream::{Upstream, answer};

const ORDERS: &str = r#"
openapi: 3.0.3
info: {title: Orders, version: "1"}
servers: [{url: /v1}]
paths:
  /orders/{id}/lines:
    post:
      operationId: add_line
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [sku, count]
              properties: {sku: {type: string}, count: {type: integer, minimum: 1}}
      responses: {}
  /orders:
    get: {operationId: list_orders, responses: {}}
  /picture:
    put:
      operationId: put_picture
      requestBody: {required: true, content: {image/png: {schema: {type: string, format: binary}}}}
      responses: {}
  /basic: {get: {operationId: with_basic, security: [{login: []}], responses: {}}}
  /query: {get: {operationId: with_key, security: [{key: []}], responses: {}}}
  /bearer: {get: {operationId: with_token, security: [{token: []}], responses: {}}}
components:
  securitySchemes:
    login: {type: http, scheme: basic}
    key: {type: apiKey, in: query, name: api_key}
    token: {type: http, scheme: bearer}
"#;

const LINE: &str = r#"add_line id=a/b tag=["x","y"] X-Trace=7 sku=9 count=2"#;

fn folder() -> Folder {
    let folder = Folder::empty();
    folder.write("orders.yaml", ORDERS);
    folder
}

/// Dry run with a base URL where no server is.
fn dry_run(arguments: &str) -> Run {
    let environment = [("SECRET", "me:hunter2")];
    let arguments =
        format!("call orders.yaml {arguments} --base-url https://orders.example --dry-run");
    folder().run_with(&arguments, "", &environment)
}

/// Calls a tool of an API that gives this answer.
fn call_tool(answer: impl Into<Vec<u8>>, arguments: &str) -> (Run, Upstream) {
    let server = answering(answer);
    let arguments = format!("call orders.yaml {arguments} --allow-private --base-url");
    let arguments = format!("{arguments} {}", server.url(""));
    let mut run = folder().run_with(&arguments, "", &[("SECRET", "me:hunter2")]);
    run.stderr = run.stderr.replace(&server.url(""), "SERVER");
    run.stderr = run.stderr.lines().skip(1).map(|line| format!("{line}\n")).collect();
    (run, server)
}

fn call_output(answer: impl Into<Vec<u8>>, arguments: &str) -> String {
    call_tool(answer, arguments).0.seen()
}

#[test]
fn a_dry_run_shows_the_request() {
    insta::assert_snapshot!(dry_run(LINE).seen(), @r#"
    POST https://orders.example/orders/a%2Fb/lines?tag=x&tag=y
    X-Trace: 7
    Content-Type: application/json

    {"sku":"9","count":2}
    "#);
    insta::assert_snapshot!(dry_run(&format!("{LINE} --json")).seen(), @r#"
    {
      "method": "POST",
      "url": "https://orders.example/orders/a%2Fb/lines?tag=x&tag=y",
      "headers": {
        "X-Trace": "7",
        "Content-Type": "application/json"
      },
      "content_type": "application/json",
      "body": "{\"sku\":\"9\",\"count\":2}"
    }
    "#);
    insta::assert_snapshot!(dry_run("list_orders --json").seen(), @r#"
    {
      "method": "GET",
      "url": "https://orders.example/orders",
      "headers": {},
      "content_type": null,
      "body": null
    }
    "#);
}

#[test]
fn a_body_that_is_not_text_is_shown_in_base64() {
    let picture = "put_picture body=data:image/png;base64,iVBORw==";
    insta::assert_snapshot!(dry_run(picture).seen(), @"
    PUT https://orders.example/picture
    Content-Type: image/png

    (not text; in Base64:)
    iVBORw==
    ");
    insta::assert_snapshot!(dry_run(&format!("{picture} --json")).seen(), @r#"
    {
      "method": "PUT",
      "url": "https://orders.example/picture",
      "headers": {
        "Content-Type": "image/png"
      },
      "content_type": "image/png",
      "body": null,
      "body_base64": "iVBORw=="
    }
    "#);
}

#[test]
fn arguments_can_be_json_and_pairs_override_it() {
    let expected = dry_run(LINE).output();
    let folder = folder();
    let args = r#"{"id":"a/b","tag":["x","y"],"X-Trace":"7","sku":"9","count":1}"#;
    folder.write("args.json", args);
    let run = |how: &str, stdin: &str| {
        let base = "--base-url https://orders.example --dry-run";
        folder.run_with(&format!("call orders.yaml add_line {base} {how}"), stdin, &[])
    };
    assert_eq!(run(&format!("count=2 --args {args}"), "").output(), expected);
    assert_eq!(run("count=2 --args @args.json", "").output(), expected);
    assert_eq!(run("count=2 --args -", args).output(), expected);
    insta::assert_snapshot!(run("--args []", "").seen(), @"
    stderr: error: --args is not a JSON object: invalid type: sequence, expected a map at line 1 column 0
    exit code: 1
    ");
    insta::assert_snapshot!(
        folder.run_with("call - add_line --args -", ORDERS, &[]).seen(), @"
    stderr: error: standard input can be read once: give the target or --args in another way
    exit code: 1
    ");
}

#[test]
fn all_invalid_arguments_are_reported_one_per_line() {
    insta::assert_snapshot!(dry_run("add_line id=1 count=many tag=x more more=1 more=2").seen(), @"
    stderr: error: the arguments of `add_line` are wrong
    stderr:   `count` takes JSON of type integer
    stderr:   `tag` takes JSON of type array, as in tag='[…]'
    stderr:   `more` is not KEY=VALUE
    stderr:   `more` is given twice
    stderr:   `more` is given twice
    exit code: 1
    ");
    insta::assert_snapshot!(dry_run("add_line count=0 tag=[1]").seen(), @r#"
    stderr: error: the arguments of `add_line` are wrong
    stderr:   "id" is a required property
    stderr:   "sku" is a required property
    stderr:   /count: it is less than the minimum of 1
    stderr:   /tag/0: it is not of type "string"
    exit code: 1
    "#);
    insta::assert_snapshot!(dry_run("list_orders limit=3").seen(), @"
    stderr: error: the arguments of `list_orders` are wrong
    stderr:   there is no argument `limit`
    exit code: 1
    ");
}

#[test]
fn an_unknown_tool_is_rejected_with_suggestions() {
    insta::assert_snapshot!(dry_run("listOrders").seen(), @"
    stderr: error: there is no tool `listOrders`: did you mean `list_orders`?
    exit code: 1
    ");
    insta::assert_snapshot!(dry_run("with").seen(), @"
    stderr: error: there is no tool `with`: did you mean `with_key`, `with_basic`, `with_token`?
    exit code: 1
    ");
    insta::assert_snapshot!(dry_run("delete_everything").seen(), @"
    stderr: error: there is no tool `delete_everything`: `toolcrib discover` lists them
    exit code: 1
    ");
}

#[test]
fn a_dry_run_hides_secrets_unless_show_secrets_is_given() {
    let tools = [("with_basic", "login"), ("with_key", "key"), ("with_token", "token")];
    let mut hidden = String::new();
    for (tool, scheme) in tools {
        for json in ["", " --json"] {
            let run = dry_run(&format!("{tool} --credential {scheme}=env:SECRET{json}"));
            assert!(!run.seen().contains("hunter2") && !run.seen().contains("bWU6"));
            hidden += &run.seen();
        }
    }
    insta::assert_snapshot!(hidden, @r#"
    GET https://orders.example/basic
    Authorization: Basic ***
    stderr: secrets are shown as ***; --show-secrets shows them
    {
      "method": "GET",
      "url": "https://orders.example/basic",
      "headers": {
        "Authorization": "Basic ***"
      },
      "content_type": null,
      "body": null
    }
    stderr: secrets are shown as ***; --show-secrets shows them
    GET https://orders.example/query?api_key=***
    stderr: secrets are shown as ***; --show-secrets shows them
    {
      "method": "GET",
      "url": "https://orders.example/query?api_key=***",
      "headers": {},
      "content_type": null,
      "body": null
    }
    stderr: secrets are shown as ***; --show-secrets shows them
    GET https://orders.example/bearer
    Authorization: Bearer ***
    stderr: secrets are shown as ***; --show-secrets shows them
    {
      "method": "GET",
      "url": "https://orders.example/bearer",
      "headers": {
        "Authorization": "Bearer ***"
      },
      "content_type": null,
      "body": null
    }
    stderr: secrets are shown as ***; --show-secrets shows them
    "#);
    let shown = dry_run("with_token --credential token=env:SECRET --show-secrets");
    assert!(shown.output().contains("Authorization: Bearer me:hunter2\n"));
}

#[test]
fn secrets_are_sent() {
    let sent = |tool: &str, scheme: &str| {
        let arguments = format!("{tool} --credential {scheme}=env:SECRET");
        let (run, server) = call_tool(ok("application/json", "1"), &arguments);
        run.output();
        server.requests().concat()
    };
    assert!(sent("with_basic", "login").contains("authorization: Basic bWU6aHVudGVyMg==\r\n"));
    assert!(sent("with_key", "key").starts_with("GET /query?api_key=me%3Ahunter2 HTTP/1.1\r\n"));
    assert!(sent("with_token", "token").contains("authorization: Bearer me:hunter2\r\n"));
}

#[test]
fn a_secret_echoed_by_the_upstream_is_redacted_in_the_error() {
    let echo = "me:hunter2 me%3Ahunter2 bWU6aHVudGVyMg==";
    let refusal = answer("401 Unauthorized", "Content-Type: text/plain\r\n", echo.as_bytes());
    for format in ["", "--json"] {
        let arguments = format!("with_basic --credential login=env:SECRET {format}");
        let (run, _) = call_tool(refusal.clone(), &arguments);
        assert!(run.seen().contains("status 401: *** *** ***"), "{}", run.seen());
        assert_eq!(run.code, Some(1));
    }
}

#[test]
fn a_credential_must_be_a_reference_and_is_never_printed() {
    for credential in ["token=hunter2", "hunter2", "token=sealed:hunter2"] {
        let run = dry_run(&format!("with_token --credential {credential}"));
        insta::allow_duplicates! { insta::assert_snapshot!(run.seen(), @"
        stderr: error: a credential is given as SCHEME=env:NAME or SCHEME=file:PATH, never as it is
        exit code: 1
        "); }
    }
    insta::assert_snapshot!(dry_run("with_token --credential token=env:MISSING").seen(), @"
    stderr: error: the environment variable `MISSING` is not set
    exit code: 1
    ");
    insta::assert_snapshot!(dry_run("with_token").seen(), @"
    GET https://orders.example/bearer
    stderr: note: the tool asks for a credential that is not given (token): see --credential
    ");
}

#[test]
fn a_json_answer_is_printed() {
    let json = ok("application/json", r#"{"id":7,"lines":[]}"#);
    let (run, server) = call_tool(json.clone(), LINE);
    insta::assert_snapshot!(run.seen(), @r#"
    {
      "id": 7,
      "lines": []
    }
    "#);
    let request = server.requests().concat();
    assert!(request.starts_with("POST /orders/a%2Fb/lines?tag=x&tag=y HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\n{\"sku\":\"9\",\"count\":2}"), "{request}");
    let (run, _) = call_tool(json, "list_orders --json");
    let mut outcome: Value = serde_json::from_str(&run.output()).unwrap();
    outcome["execution_time_ms"] = 0.into();
    insta::assert_snapshot!(outcome, @r#"{"tool_id":"orders:list_orders","status":"completed","result":{"id":7,"lines":[]},"error":null,"execution_time_ms":0,"upstream_status":200}"#);
}

#[test]
fn other_answers_are_printed_by_their_type() {
    insta::assert_snapshot!(call_output(ok("text/plain", "two\nlines \u{1b}[2J"), "list_orders"), @r"
    two
    lines \u{1b}[2J
    ");
    insta::assert_snapshot!(call_output(ok("image/png", "\u{89}PNG"), "list_orders"), @"(5 bytes of image/png; --json has them in Base64)");
    insta::assert_snapshot!(call_output(answer("204 No Content", "", b""), "list_orders"), @"done (status 204, nothing to say)");
}

#[test]
fn a_failed_call_sets_the_exit_code() {
    let text = "Content-Type: text/plain\r\n";
    insta::assert_snapshot!(call_output(answer("404 Not Found", text, b"no such order"), "list_orders"), @"
    stderr: error: the upstream answered with status 404: no such order
    exit code: 1
    ");
    let long = format!("broken\n{}", "x".repeat(100_000));
    let (run, _) =
        call_tool(answer("500 Internal Server Error", text, long.as_bytes()), "list_orders");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.starts_with("error: the upstream answered with status 500: broken\n  xxx"));
    assert!(run.stderr.len() < 3_000);
    let (run, _) =
        call_tool(answer("429 Too Many Requests", text, b"slow down"), "list_orders --json");
    let outcome: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &outcome["status"]), (Some(1), &"failed".into()));
    insta::assert_snapshot!(outcome["error"], @r#"{"code":"upstream_error","message":"the upstream answered with status 429: slow down","retryable":true}"#);
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = answering(ok("text/plain", "elsewhere"));
    let redirect = format!("Location: {}\r\n", elsewhere.url("/there?key=hunter2"));
    let seen = call_output(answer("302 Found", &redirect, b""), "list_orders");
    insta::assert_snapshot!(seen.replace(&elsewhere.url(""), "ELSEWHERE"), @"
    stderr: error: the upstream answered with status 302: it points to ELSEWHERE/there, which was not followed
    exit code: 1
    ");
    assert_eq!(elsewhere.requests(), [""; 0]);
}

#[test]
fn an_answer_that_is_too_large_is_rejected() {
    let large = answer("200 OK", "", &vec![b'x'; 10 * 1024 * 1024 + 1]);
    insta::assert_snapshot!(call_output(large, "list_orders"), @"
    stderr: error: the answer is too large: at most 10485760 bytes are read, and 10485761 were announced
    exit code: 1
    ");
}

#[test]
fn a_call_with_a_lost_answer_has_an_unknown_outcome_and_is_not_retried() {
    let (run, server) = call_tool("", LINE);
    insta::assert_snapshot!(run.seen(), @"
    stderr: error: the answer of `SERVER` was lost, so the outcome is unknown: check there before you repeat the request (connection closed before message completed)
    exit code: 1
    ");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn invisible_characters_are_escaped() {
    let result = ok("application/json", "[\"\u{202e}gnp.exe\u{200b}\u{e0041}\"]");
    let escaped = r#""\u202egnp.exe\u200b\udb40\udc41""#;
    for arguments in ["list_orders", "list_orders --json"] {
        let shown = call_output(result.clone(), arguments);
        assert!(shown.contains(escaped), "{shown}");
    }
    let text = call_output(ok("text/plain", "\u{202e}gnp.exe"), "list_orders");
    assert_eq!(text, "\\u{202e}gnp.exe\n");
    let failed = answer("400 Bad Request", "Content-Type: text/plain\r\n", "\u{202e}a".as_bytes());
    assert!(call_output(failed, "list_orders").contains("status 400: \\u{202e}a\n"));
}

#[test]
fn a_private_address_in_a_specification_is_not_connected_to() {
    let (folder, server) = (folder(), answering(ok("text/plain", "inside")));
    folder.write("inside.yaml", ORDERS.replace("/v1", &server.url("/v1")));
    insta::assert_snapshot!(folder.run("call inside.yaml list_orders").seen(), @"
    stderr: error: `127.0.0.1` is, or leads to, an address that is not public: name it under `allow`, or use `--allow-private` where there is no source
    exit code: 1
    ");
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn an_api_without_a_server_url_needs_a_base_url() {
    insta::assert_snapshot!(folder().run("call orders.yaml list_orders --dry-run").seen(), @"
    stderr: error: the target does not say where its API is: give --base-url URL
    exit code: 1
    ");
}

#[test]
fn a_credential_is_sent_only_to_the_specification_origin_or_the_base_url() {
    let elsewhere = answering(ok("text/plain", "done"));
    let specification = ORDERS.replace("/v1", &elsewhere.url("/v1"));
    let server = answering(ok("application/yaml", &specification));
    let call = |more: &str| {
        let target = format!("call {} with_token --allow-private", server.url("/orders.yaml"));
        let run = folder().run_with(&format!("{target} {more}"), "", &[("SECRET", "hunter2")]);
        let seen = run.seen().replace(&elsewhere.url(""), "ELSEWHERE");
        seen.replace(&server.url(""), "SERVER")
    };
    let credential = "--credential token=env:SECRET";
    let refused = call(credential);
    insta::assert_snapshot!(refused, @"
    stderr: warning: --allow-private is on: private and loopback addresses are reached too
    stderr: error: calls go to `ELSEWHERE`, not to `SERVER` where the specification is from: give --base-url ELSEWHERE to send the credential there
    exit code: 1
    ");
    assert_eq!(call(&format!("{credential} --dry-run")), refused);
    assert_eq!(elsewhere.requests(), [""; 0]);
    assert!(call("").starts_with("done\n"));
    let chosen = format!("{credential} --base-url {}", elsewhere.url(""));
    assert!(call(&chosen).starts_with("done\n"));
    let requests = elsewhere.requests();
    let with_it = requests.iter().map(|request| request.contains("Bearer hunter2"));
    assert_eq!(with_it.collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_tool_of_an_http_manifest_is_called_below_its_url() {
    let manifest = r#"{"tools": [
        {"name": "get_weather", "method": "GET", "endpoint": "/weather?unit=c", "inputSchema": {"properties": {"city": {"type": "string"}}}},
        {"name": "say", "endpoint": "/say"},
        {"name": "find", "method": "GET", "inputSchema": {"properties": {"a": {}}, "additionalProperties": true}}]}"#;
    let folder = Folder::empty();
    folder.write("tools.json", manifest);
    let dry = |arguments: &str| {
        let base = "--base-url https://travel.example/api/ --dry-run";
        folder.run(&format!("call tools.json {arguments} {base}")).output()
    };
    insta::assert_snapshot!(dry("get_weather city=São"), @"GET https://travel.example/api/weather?unit=c&city=S%C3%A3o");
    insta::assert_snapshot!(dry("find b=x a=1 c=y"), @"GET https://travel.example/api/find?a=1&b=x&c=y");
    insta::assert_snapshot!(dry("find"), @"GET https://travel.example/api/find");
    insta::assert_snapshot!(dry("say word=hi"), @r#"
    POST https://travel.example/api/say
    Content-Type: application/json

    {"word":"hi"}
    "#);
}

#[test]
fn the_example_of_the_readme_can_be_called() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pizzeria.yaml");
    let server = answering(ok("application/json", r#"{"id":7,"status":"baking"}"#));
    let base = format!("--allow-private --base-url {}", server.url(""));
    let environment = [("PIZZERIA_TOKEN", "secret")];
    let credential = "--credential token=env:PIZZERIA_TOKEN";
    let arguments = format!("call {example} get_order order_id=7 {credential} {base}");
    let run = Folder::empty().run_with(&arguments, "", &environment);
    assert_eq!(run.output(), "{\n  \"id\": 7,\n  \"status\": \"baking\"\n}\n");
    assert!(server.requests().concat().starts_with("GET /orders/7 HTTP/1.1\r\n"));
}

#[test]
fn a_long_running_job_is_polled_with_the_same_credential() {
    let server = Upstream::replying(|request| match request {
        first if first.starts_with("POST") => ok("application/json", r#"{"id": 7}"#),
        _ => ok("application/json", r#"{"state": "done", "result": {"loaves": 2}}"#),
    });
    let folder = Folder::empty();
    folder.write(
        "bakery.yaml",
        r#"
openapi: 3.0.3
info: {title: Bakery, version: "1"}
paths:
  /bake:
    post:
      operationId: bake
      security: [{token: []}]
      responses: {}
      x-toolcrib-polling:
        {status_url: "/jobs/{answer.id}", status_path: state, completed: [done], result_path: result, interval_ms: 100}
components: {securitySchemes: {token: {type: http, scheme: bearer}}}
"#,
    );
    let options = "--credential token=env:SECRET --allow-private --base-url";
    let arguments = format!("call bakery.yaml bake {options} {}", server.url(""));
    let run = folder.run_with(&arguments, "", &[("SECRET", "hunter2")]);
    assert!(run.stdout.contains("loaves"), "{} {}", run.stdout, run.stderr);
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[1].starts_with("GET /jobs/7 "), "{requests:?}");
    assert!(requests.iter().all(|request| request.contains("authorization: Bearer hunter2")));
}
