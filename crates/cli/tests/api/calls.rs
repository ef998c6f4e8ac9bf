//! Calls over REST: their outcomes, and requests that are rejected before anything is sent upstream (A3, E3).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::metrics::scrape;
use super::server::{Answer, Ask, Server};
use crate::support::{Folder, ok};
use crate::upstream::{Upstream, answer};

/// Server with one source; all of its tools except `delete_pet` are granted to the role `staff`.
pub(super) struct Shop {
    pub(super) server: Server,
    pub(super) upstream: Upstream,
    /// API key of an agent with the role `staff`.
    pub(super) key: String,
}

/// OpenAPI document with the operations `get_pet`, `add_pet`, `break_pet` and `delete_pet`.
fn specification(url: &str) -> Value {
    let done = json!({"200": {"description": "ok"}});
    let id = json!({"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}});
    let body = json!({"required": true, "content": {"application/json": {"schema": {
        "type": "object", "properties": {"name": {"type": "string"}, "weight": {"type": "number"}}, "required": ["name"],
    }}}});
    json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": url}],
        "paths": {
            "/pets/{id}": {
                "parameters": [id],
                "get": {"operationId": "get_pet", "summary": "One pet", "responses": done},
                "delete": {"operationId": "delete_pet", "responses": done},
            },
            "/pets": {"post": {"operationId": "add_pet", "requestBody": body, "responses": done}},
            "/broken": {"get": {"operationId": "break_pet", "responses": done}},
        },
    })
}

impl Shop {
    pub(super) fn open() -> Self {
        Self::at(Server::start())
    }

    /// Sets the shop up on a server that has no sources yet.
    pub(super) fn at(server: Server) -> Self {
        let upstream = Upstream::replying(|request| match request {
            broken if broken.starts_with("GET /broken") => answer("500 No", "", b"out of pets"),
            slow if slow.starts_with("GET /pets/99 ") => {
                std::thread::sleep(Duration::from_secs(4));
                ok("application/json", "{}")
            }
            _ => ok("application/json", r#"{"name":"Rex"}"#),
        });
        let text = specification(&upstream.url("")).to_string();
        let settings = json!({"kind": "openapi", "specification": {"text": text}});
        let source = json!({"name": "pets", "settings": settings, "allow": ["127.0.0.1"]});
        server.post("/api/sources", &source).ok();
        server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
        let group = json!({"name": "all", "selectors": [{"source": "pets"}], "excluded": [{"tool": "pets:delete_pet"}]});
        server.post("/api/groups", &group).ok();
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        let policy = json!({"name": "staff", "matchers": matchers, "groups": ["all"]});
        server.post("/api/policies", &policy).ok();
        let key = key_of_staff(&server, "bot");
        Self { server, upstream, key }
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.server.send(&Ask::new("POST", path).bearer(&self.key).json(body))
    }

    pub(super) fn call(&self, body: Value) -> Answer {
        self.post("/api/agents/tools/call", &body)
    }

    /// Calls a tool as a new agent of this name.
    pub(super) fn call_by(&self, name: &str, body: &Value) -> Answer {
        let key = key_of_staff(&self.server, name);
        self.server.send(&Ask::new("POST", "/api/agents/tools/call").bearer(&key).json(body))
    }
}

fn key_of_staff(server: &Server, name: &str) -> String {
    let key = json!({"name": name, "claims": {"role": "staff"}});
    server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned()
}

#[test]
fn a_tool_is_called_by_its_name_and_by_its_id() {
    let shop = Shop::open();
    let mut outcome = shop.call(json!({"name": "get_pet", "arguments": {"id": 7}})).ok();
    assert!(outcome["execution_time_ms"].take().is_u64());
    insta::assert_json_snapshot!(outcome, @r#"
    {
      "tool_id": "pets:get_pet",
      "status": "completed",
      "result": {
        "name": "Rex"
      },
      "error": null,
      "execution_time_ms": null,
      "upstream_status": 200
    }
    "#);
    let arguments = json!({"arguments": {"id": 8}});
    for answer in [
        shop.call(json!({"name": "pets__get_pet", "arguments": {"id": 8}})),
        shop.call(json!({"tool_id": "pets:get_pet", "arguments": {"id": 8}})),
        shop.post("/api/tools/pets:get_pet/execute", &arguments),
        shop.post("/api/tools/pets%3Aget_pet/execute", &arguments),
    ] {
        assert_eq!(answer.ok()["status"], "completed");
    }
    let asked = shop.upstream.requests();
    assert_eq!(asked.len(), 5);
    assert!(asked[1..].iter().all(|request| request.starts_with("GET /pets/8 ")), "{asked:?}");
    assert!(asked.iter().all(|request| !request.to_lowercase().contains("authorization")));
    // A call without arguments needs no body.
    let ask = Ask::new("POST", "/api/tools/pets:break_pet/execute").bearer(&shop.key);
    assert_eq!(shop.server.send(&ask).status, 200);
}

#[test]
fn an_upstream_failure_is_a_failed_outcome_with_status_200() {
    let shop = Shop::open();
    let answer = shop.call(json!({"name": "break_pet"}));
    let outcome = answer.ok();
    assert_eq!((answer.status, &outcome["status"]), (200, &json!("failed")));
    assert_eq!(outcome["upstream_status"], 500);
    let error = json!({"code": "upstream_error", "message": "the upstream answered with status 500: out of pets", "retryable": false});
    assert_eq!(outcome["error"], error);
}

#[test]
fn the_circuit_opens_after_repeated_failures_until_an_admin_resets_it() {
    let shop = Shop::open();
    for _ in 0..5 {
        assert_eq!(shop.call(json!({"name": "break_pet"})).status, 200);
    }
    let before = shop.upstream.requests().len();
    let refused = shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    assert!(refused.problem().starts_with("503 circuit_open"), "{refused:?}");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=31).contains(&seconds), "{seconds}");
    assert_eq!(shop.upstream.requests().len(), before);
    let calls = || shop.server.get("/api/sources/pets").ok()["calls"].take();
    let open = calls();
    assert_eq!((&open["breaker"], &open["agents_left_out"]), (&json!("open"), &json!(1)));
    assert!((1..=31).contains(&open["seconds_left"].as_u64().unwrap()), "{open}");
    // Other agents can still call; after failures of more than one of them, the circuit opens for all agents.
    assert_eq!(shop.call_by("another bot", &json!({"name": "break_pet"})).status, 200);
    assert_eq!(calls()["breaker"], "closed");
    assert_eq!(shop.call_by("a third bot", &json!({"name": "break_pet"})).status, 200);
    assert_eq!(calls()["breaker"], "open");
    let reset = shop.server.post("/api/sources/pets/reset", &json!(null)).ok();
    let reset = &reset["calls"];
    assert_eq!((&reset["breaker"], &reset["agents_left_out"]), (&json!("closed"), &json!(0)));
    assert_eq!(reset.get("seconds_left"), None);
    let called = shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    assert_eq!(called.ok()["status"], "completed");
}

#[test]
fn calls_over_the_limit_of_a_source_are_rejected_with_retry_after() {
    let shop = Shop::open();
    let mut source = shop.server.get("/api/sources/pets").ok();
    let limits = json!({"per_agent": {"per_minute": 1, "burst": 2}});
    let profile = json!({"name": "pets", "settings": source["settings"].take(),
        "allow": ["127.0.0.1"], "limits": limits});
    shop.server.put("/api/sources/pets", &profile).ok();
    let call = || shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    assert_eq!((call().status, call().status), (200, 200));
    let refused = call();
    assert!(refused.problem().starts_with("429 rate_limited"), "{refused:?}");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((30..=61).contains(&seconds), "{seconds}");
    assert_eq!(shop.upstream.requests().len(), 2);
    let wrong = json!({"name": "pets", "settings": {"kind": "openapi"}, "limits": {"all": {"per_hour": 1}}});
    assert!(shop.server.put("/api/sources/pets", &wrong).problem().starts_with("422"));
}

#[test]
fn a_tool_can_have_its_own_rate_limit() {
    let shop = Shop::open();
    let say = |limit: Value| {
        let patch = Ask::new("PATCH", "/api/tools/pets:get_pet").bearer(&shop.server.key);
        shop.server.send(&patch.json(&json!({"limit": limit})))
    };
    let limit = json!({"per_minute": 1, "burst": 1});
    assert_eq!(say(limit.clone()).ok()["overridden"]["limit"], limit);
    let get = || shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    assert_eq!(get().status, 200);
    let refused = get();
    assert!(refused.problem().contains("too many of the calls of this tool"), "{refused:?}");
    let add = || shop.call(json!({"name": "add_pet", "arguments": {"name": "Rex"}})).status;
    assert_eq!((add(), add()), (200, 200));
    assert!(say(json!({"per_hour": 1})).problem().starts_with("422"));
    assert_eq!(say(Value::Null).ok()["overridden"], json!({}));
    assert_eq!(get().status, 200);
}

#[test]
fn calls_over_the_limit_of_an_agent_are_rejected_and_not_recorded() {
    let folder = Folder::empty();
    folder.write("crib.yaml", "limits: {per_agent: {per_minute: 1, burst: 4}}");
    let shop = Shop::at(Server::on_folder(folder, "--config crib.yaml"));
    let get = || shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    let missing = || shop.call(json!({"name": "no_pet"}));
    assert_eq!((get().status, missing().status), (200, 404));
    // A call with invalid arguments counts too.
    assert_eq!(shop.call(json!({"name": "get_pet"})).status, 422);
    assert_eq!(get().status, 200);
    for _ in 0..3 {
        let refused = get();
        assert!(refused.problem().starts_with("429 rate_limited"), "{refused:?}");
        assert!(refused.problem().contains("too many of this agent's calls"), "{refused:?}");
        assert_eq!(missing().status, 404, "it is told the same as ever");
    }
    assert_eq!(shop.call_by("another bot", &json!({"name": "break_pet"})).status, 200);
    let all = |rows: &Value| rows["data"].as_array().is_some_and(|rows| 5 <= rows.len());
    let rows = shop.server.wait_for("/api/executions", all);
    assert_eq!(rows["data"].as_array().unwrap().len(), 5, "{rows}");
    for (method, params) in
        [("prompts/get", json!({"name": "greet"})), ("resources/read", json!({"uri": "a://b"}))]
    {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let refused = shop.post("/mcp", &message).body;
        assert!(refused.contains("too many of this agent's calls"), "{refused}");
    }
    let metrics = scrape(&shop.server);
    for (kind, times) in [("tool", 3), ("prompt", 1), ("resource", 1)] {
        let line = format!(r#"kind="{kind}",outcome="rate_limited"}} {times}"#);
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn the_prefer_header_sets_the_deadline_of_a_call() {
    let shop = Shop::open();
    let call = |wait: &str| {
        let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&shop.key);
        let body = json!({"name": "get_pet", "arguments": {"id": 99}});
        let start = Instant::now();
        let outcome = shop.server.send(&ask.header("prefer", wait).json(&body)).ok();
        (outcome["error"]["code"].clone(), start.elapsed() < Duration::from_secs(3))
    };
    assert_eq!(call("wait=1"), (json!("upstream_timeout"), true));
    assert_eq!(call("wait=10"), (Value::Null, false));
}

#[test]
fn unknown_and_ungranted_tools_get_the_same_error() {
    let shop = Shop::open();
    for name in ["delete_pet", "no_pet", "pets__delete_pet", ""] {
        let answer = shop.call(json!({"name": name, "arguments": {"id": 7}}));
        assert_eq!(answer.problem(), format!("404 not_found: Tool not found: {name}"));
    }
    for id in ["pets:delete_pet", "pets:no_pet", "no:pet", "nothing"] {
        let expected = format!("404 not_found: Tool not found: {id}");
        assert_eq!(shop.call(json!({"tool_id": id})).problem(), expected);
        assert_eq!(shop.post(&format!("/api/tools/{id}/execute"), &json!({})).problem(), expected);
    }
    // Admin access alone grants no tools.
    let asked = shop.server.post("/api/agents/tools/call", &json!({"name": "get_pet"}));
    assert_eq!(asked.problem(), "404 not_found: Tool not found: get_pet");
    assert!(shop.upstream.requests().is_empty());
}

#[test]
fn invalid_requests_are_rejected_and_not_sent_upstream() {
    let shop = Shop::open();
    let wrong = shop.call(json!({"name": "add_pet", "arguments": {"weight": "heavy"}}));
    assert!(wrong.problem().starts_with("422 validation_error"), "{wrong:?}");
    let errors = wrong.errors();
    for part in ["arguments: \"name\" is a required", "arguments.weight: it is not of type"] {
        assert!(errors.contains(part), "{errors}");
    }
    assert_eq!(shop.call(json!({})).errors(), "name: is missing, and so is `tool_id`");
    let both = shop.call(json!({"name": "get_pet", "tool_id": "pets:get_pet"}));
    assert_eq!(both.errors(), "tool_id: stands beside `name`: send one");
    assert!(shop.call(json!({"tool": "get_pet"})).errors().contains("tool: is not known"));
    let send = |arguments: &str| {
        let body = format!(r#"{{"name":"add_pet","arguments":{arguments}}}"#);
        let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&shop.key);
        shop.server.send(&ask.text("application/json", &body)).problem()
    };
    let deep = format!(r#"{{"name":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for (arguments, status) in [
        (r#"{"name":"Rex","weight":18446744073709551616}"#, "422 validation_error"),
        (r#"{"name":"Rex","weight":[[-99999999999999999999]]}"#, "422 validation_error"),
        (r#"{"name":"Rex","weight":1e400}"#, "400 malformed_json"),
        (r#"{"name":"Rex","name":"Rex"}"#, "400 malformed_json"),
        (r#"{"name":{"$serde_json::private::RawValue":"\"Rex\""}}"#, "400 malformed_json"),
        (r#"{"name":"Rex","weight":{"a":[{"b":1,"b":1}]}}"#, "400 malformed_json"),
        (&deep, "400 malformed_json"),
        ("7", "422 validation_error"),
    ] {
        let problem = send(arguments);
        assert!(problem.starts_with(status), "{arguments}: {problem}");
    }
    assert!(shop.upstream.requests().is_empty());
    // An integer that fits into 64 bits arrives unchanged.
    let fits = json!({"name": "Rex", "weight": 18_446_744_073_709_551_615_u64});
    shop.call(json!({"name": "add_pet", "arguments": fits})).ok();
    assert!(shop.upstream.requests()[0].ends_with(r#""weight":18446744073709551615}"#));
}

#[test]
fn a_body_with_too_many_json_values_is_rejected() {
    let shop = Shop::open();
    let send = |path: &str, body: &str| {
        let ask = Ask::new("POST", path).bearer(&shop.key);
        shop.server.send(&ask.text("application/json", body))
    };
    let many = format!(r#"{{"name":"Rex","weight":[{}0]}}"#, r#"{"":0},"#.repeat(25_000));
    for (path, body) in [
        ("/api/agents/tools/call", format!(r#"{{"name":"add_pet","arguments":{many}}}"#)),
        ("/api/tools/pets:add_pet/execute", format!(r#"{{"arguments":{many}}}"#)),
        ("/tools/add_pet", many),
    ] {
        assert_eq!(
            send(path, &body).problem(),
            "413 too_large: there may be 100000 values, where an object counts for four: send less at once, or a long list as a text"
        );
    }
    assert!(shop.upstream.requests().is_empty());
    // A string counts as one value, however long it is.
    let name = "{,".repeat(100_000);
    shop.call(json!({"name": "add_pet", "arguments": {"name": name}})).ok();
    assert!(shop.upstream.requests()[0].contains(&name));
}

#[test]
fn a_specification_with_a_very_long_string_is_accepted() {
    let shop = Shop::open();
    let mut specification = specification(&shop.upstream.url(""));
    specification["info"]["description"] = json!("{,".repeat(1 << 20));
    let text = specification.to_string();
    let settings = json!({"kind": "openapi", "specification": {"text": text}});
    let source = json!({"name": "more pets", "settings": settings, "allow": ["127.0.0.1"]});
    assert_eq!(shop.server.post("/api/sources", &source).status, 201);
}

#[test]
fn tools_can_be_called_by_the_name_shown_in_any_format() {
    let shop = Shop::open();
    let patch = shop.server.ask("PATCH", "/api/tools/pets:get_pet");
    shop.server.send(&patch.json(&json!({"name": "get.pet"}))).ok();
    for (format, pointer) in [
        ("mcp", "/tools/2/name"),
        ("openai", "/tools/2/function/name"),
        ("openai_responses", "/tools/2/name"),
        ("anthropic", "/tools/2/name"),
        ("gemini", "/tools/0/functionDeclarations/2/name"),
    ] {
        let path = format!("/api/agents/tools?format={format}");
        let list = shop.server.get_as(&shop.key, &path).ok();
        let name = list.pointer(pointer).unwrap();
        let outcome = shop.call(json!({"name": name, "arguments": {"id": 7}})).ok();
        assert_eq!(outcome["tool_id"], "pets:get_pet", "{format}");
    }
}

#[test]
fn a_searchable_tool_is_found_by_search_and_called() {
    let shop = Shop::open();
    let patch = shop.server.ask("PATCH", "/api/tools/pets:get_pet");
    shop.server.send(&patch.json(&json!({"visibility": "searchable"}))).ok();
    let found = shop.call(json!({"name": "tool_search", "arguments": {"query": "one pet"}})).ok();
    assert_eq!(found["result"]["tools"][0]["name"], "get_pet");
    let inner = json!({"name": "get_pet", "arguments": {"id": 7}});
    let outcome = shop.call(json!({"name": "execute_tool", "arguments": inner})).ok();
    assert_eq!(
        (&outcome["tool_id"], &outcome["status"]),
        (&json!("pets:get_pet"), &json!("completed"))
    );
    let inner = json!({"name": "delete_pet", "arguments": {"id": 7}});
    let outcome = shop.call(json!({"name": "execute_tool", "arguments": inner})).ok();
    assert_eq!(outcome["error"]["code"], "not_granted");
    assert_eq!(outcome["error"]["message"], "Tool not found: delete_pet");
}
