//! Long-running upstream jobs: polled, reported and cancelled at every endpoint; and malicious upstreams (E2).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Answer, Ask, Server};
use crate::support::ok;
use crate::upstream::{Upstream, answer};

/// Credential of the source.
const TOKEN: &str = "hunter2-hunter2";

/// Server with a source whose tool `bake` starts a job, and the key of an agent that is granted it.
struct Bakery {
    server: Server,
    upstream: Upstream,
    key: String,
    /// Number of cancellations that the upstream has answered.
    stopped: Arc<AtomicUsize>,
}

impl Bakery {
    /// `more` overrides fields of `x-toolcrib-polling`. `begun` answers `POST /bake`; `look` answers status requests,
    // numbered from 1.
    fn new(
        more: &Value,
        begun: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
        look: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::with_settings(polling_in_specification, more, begun, look)
    }

    /// Like `new`; `settings` builds the source's settings from the upstream's URL and the polling description.
    fn with_settings(
        settings: impl Fn(&str, &Value) -> Value,
        more: &Value,
        begun: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
        look: impl Fn(usize) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let looks = AtomicUsize::new(0);
        let stopped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stopped);
        let upstream = Upstream::replying(move |request| match request {
            first if first.starts_with("POST") => begun(first),
            gone if gone.starts_with("DELETE") => {
                thread::sleep(Duration::from_millis(300));
                count.fetch_add(1, Ordering::Relaxed);
                answer("204 Gone", "", b"")
            }
            _ => look(looks.fetch_add(1, Ordering::Relaxed) + 1),
        });
        let mut polling = json!({
            "status_url": "/jobs/{answer.id}", "status_path": "state", "completed": ["done"],
            "failed": ["burnt"], "result_path": "result", "interval_ms": 100, "max_interval_ms": 100,
            "attempts": 5, "cancel": {"url": "/jobs/{answer.id}"},
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            polling[name] = value.clone();
        }
        let server = Server::start_with_environment(&[("BAKERY_TOKEN", TOKEN)]);
        let settings = settings(&upstream.url(""), &polling);
        let source = json!({"name": "s", "settings": settings, "allow": ["127.0.0.1"],
            "limits": {"all": {"concurrent": 1}}});
        server.post("/api/sources", &source).ok();
        server.wait_for("/api/sources/s", |source| !source["inventory"].is_null());
        server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "s"}]})).ok();
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        let policy = json!({"name": "p", "matchers": matchers, "groups": ["all"]});
        server.post("/api/policies", &policy).ok();
        let key = key(&server, "bot");
        Self { server, upstream, key, stopped }
    }

    /// The job is `queued`, then `baking`, and done at the fourth status request.
    fn finishing() -> Self {
        Self::finishing_with_settings(polling_in_specification)
    }

    fn finishing_with_settings(settings: impl Fn(&str, &Value) -> Value) -> Self {
        Self::with_settings(
            settings,
            &json!({}),
            |_| state("queued"),
            |look| match look {
                1 => state("queued"),
                2 => answer("503 Later", "Retry-After: NaN\r\n", b"later"),
                3 => state("baking"),
                _ => state("done"),
            },
        )
    }

    /// The job never ends.
    fn endless() -> Self {
        Self::new(&json!({"attempts": 900}), |_| state("queued"), |_| state("baking"))
    }

    fn call(&self, prefer: &str) -> Answer {
        let body = json!({"name": "bake", "arguments": {"loaves": 2}});
        let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&self.key);
        self.server.send(&ask.header("Prefer", prefer).json(&body))
    }

    /// Error code and message of a call that fails.
    fn failure(&self) -> (String, String) {
        let outcome = self.call("wait=60").ok();
        assert_eq!(outcome["status"], "failed", "{outcome}");
        let text = |name: &str| outcome["error"][name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }

    fn get(&self, path: &str) -> Answer {
        self.server.get_as(&self.key, path)
    }

    /// Polls a call until it has ended.
    fn wait_for_end(&self, address: &str) -> Value {
        let start = Instant::now();
        loop {
            let call = self.get(address).ok();
            if call["state"] != "working" {
                return call;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{call}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Number of requests that the upstream got with this prefix.
    fn request_count(&self, beginning: &str) -> usize {
        self.upstream.requests().iter().filter(|request| request.starts_with(beginning)).count()
    }

    /// Waits until the upstream got a request with this prefix.
    fn wait_for_request(&self, beginning: &str) {
        self.wait_for_requests(beginning, 1);
    }

    fn wait_for_requests(&self, beginning: &str, often: usize) {
        let start = Instant::now();
        while self.request_count(beginning) < often {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", self.upstream.requests());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request as an MCP client that supports tasks.
    fn task_request(&self, method: &str, params: Value) -> Value {
        self.send_task_request(method, params).ok()["result"].take()
    }

    fn send_task_request(&self, method: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let ask = Ask::new("POST", "/mcp").bearer(&self.key);
        let ask = ask.header("Accept", "application/json, text/event-stream");
        let ask = ask.header("MCP-Protocol-Version", "2026-07-28").header("Mcp-Method", method);
        self.server.send(&ask.header("Mcp-Name", &name).json(&message))
    }

    fn rows(&self) -> Vec<Value> {
        self.server.get("/api/executions").ok()["data"].as_array().unwrap().clone()
    }
}

/// Specification of the operation `bake`, extended by `more`.
fn specification(url: &str, more: &Value) -> String {
    let body = json!({"content": {"application/json": {"schema": {
        "type": "object", "properties": {"loaves": {"type": "integer"}},
    }}}});
    let mut operation = json!({"operationId": "bake", "requestBody": body,
        "responses": {"202": {"description": "begun"}}});
    operation.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let text = json!({
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "servers": [{"url": url}], "paths": {"/bake": {"post": operation}},
    });
    text.to_string()
}

fn polling_in_specification(url: &str, polling: &Value) -> Value {
    let text = specification(url, &json!({"x-toolcrib-polling": polling}));
    json!({"kind": "openapi", "specification": {"text": text}})
}

/// The specification belongs to a third party, and an admin adds the polling description.
fn polling_by_admin(url: &str, polling: &Value) -> Value {
    let text = specification(url, &json!({}));
    json!({"kind": "openapi", "specification": {"text": text}, "polling": {"bake": polling}})
}

fn polling_of_custom_tool(url: &str, polling: &Value) -> Value {
    let input = json!({"type": "object", "properties": {"loaves": {"type": "integer"}}});
    let request = json!({"method": "POST", "url": format!("{url}/bake"),
        "body": {"json": {"loaves": "{{loaves}}"}}, "polling": polling});
    json!({"kind": "custom", "tools": [{"name": "bake", "input_schema": input, "request": request}]})
}

fn key(server: &Server, name: &str) -> String {
    let made = server.post("/api/keys", &json!({"name": name, "claims": {"role": "staff"}})).ok();
    made["key"].as_str().unwrap().to_owned()
}

fn state(word: &str) -> Vec<u8> {
    let result = json!({"loaves": 2, "for": word});
    ok("application/json", &json!({"id": 7, "state": word, "result": result}).to_string())
}

#[test]
fn a_legacy_mcp_client_waits_and_gets_progress() {
    let bakery = Bakery::finishing();
    let params =
        json!({"name": "bake", "arguments": {"loaves": 2}, "_meta": {"progressToken": "p"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let ask = Ask::new("POST", "/mcp").bearer(&bakery.key).json(&call);
    let mut stream =
        bakery.server.open_events(&ask.header("Accept", "text/event-stream, application/json"));
    let mut messages: Vec<Value> = Vec::new();
    while !messages.last().is_some_and(|last| last["id"] == 1) {
        messages.extend(stream.next().map(|event| event.body).filter(|body| !body.is_null()));
    }
    let result = messages.pop().unwrap()["result"].take();
    assert_eq!(result["structuredContent"], json!({"loaves": 2, "for": "done"}), "{result}");
    let progress: Vec<(&Value, &Value)> = messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/progress");
            (&message["params"]["progress"], &message["params"]["message"])
        })
        .collect();
    // The status request answered with 503 was retried, as any call would be.
    let (queued, baking) = (json!("queued"), json!("baking"));
    assert_eq!(progress, [(&json!(1), &queued), (&json!(2), &baking)]);
    assert_eq!((bakery.request_count("POST /bake "), bakery.request_count("GET /jobs/7 ")), (1, 4));
    assert_eq!(bakery.request_count("DELETE"), 0, "what ended is not cancelled");
    let rows = bakery.rows();
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("completed")), "{rows:?}");
}

#[test]
fn status_requests_do_not_count_against_call_limits() {
    let bakery = Bakery::finishing();
    let mut source = bakery.server.get("/api/sources/s").ok();
    let known = ["name", "settings", "allow"];
    source.as_object_mut().unwrap().retain(|name, _| known.contains(&name.as_str()));
    let two = json!({"per_minute": 2, "burst": 2, "concurrent": 1});
    source["limits"] = json!({"all": two, "per_agent": two, "per_tool": two});
    bakery.server.put("/api/sources/s", &source).ok();
    let outcome = bakery.call("wait=60").ok();
    assert_eq!(outcome["status"], "completed", "{outcome}");
    assert_eq!((bakery.request_count("POST /bake "), bakery.request_count("GET /jobs/7 ")), (1, 4));
    assert_eq!([bakery.call("wait=60"), bakery.call("wait=60")].map(|it| it.status), [200, 429]);
}

#[test]
fn the_status_url_may_come_in_a_header_and_202_means_still_working() {
    let by_status = json!({"status_url": "{header.operation-location}", "status_path": null,
        "completed": [], "failed": [], "result_path": null, "cancel": null});
    for settings in [polling_in_specification, polling_by_admin, polling_of_custom_tool] {
        let bakery = Bakery::with_settings(
            settings,
            &by_status,
            |_| answer("202 Accepted", "Operation-Location: /jobs/7\r\n", b""),
            |look| match look {
                ..3 => answer("202 Accepted", "", b""),
                _ => ok("application/json", r#"{"loaves": 2}"#),
            },
        );
        let outcome = bakery.call("wait=60").ok();
        assert_eq!(outcome["status"], "completed", "{outcome}");
        assert_eq!(outcome["result"], json!({"loaves": 2}), "{outcome}");
        assert_eq!(
            (bakery.request_count("POST /bake "), bakery.request_count("GET /jobs/7 ")),
            (1, 3)
        );
    }
    // The job may be done at once.
    let bakery = Bakery::new(&json!({}), |_| ok("application/json", "[2]"), |_| state("done"));
    assert_eq!(bakery.call("wait=60").ok()["result"], json!([2]));
    assert_eq!(bakery.request_count("GET"), 0);
}

#[test]
fn polling_described_by_an_admin_works_like_polling_in_the_specification() {
    for settings in [polling_by_admin, polling_of_custom_tool] {
        let bakery = Bakery::finishing_with_settings(settings);
        let outcome = bakery.call("wait=60").ok();
        assert_eq!(outcome["status"], "completed", "{outcome}");
        assert_eq!(outcome["result"], json!({"loaves": 2, "for": "done"}), "{outcome}");
        assert_eq!(
            (bakery.request_count("POST /bake "), bakery.request_count("GET /jobs/7 ")),
            (1, 4)
        );
        let odd =
            json!({"status_url": "https://evil.test/", "status_path": "s", "completed": ["x"]});
        let url = "http://127.0.0.1:1";
        let wrong = json!({"name": "w", "url": url, "settings": settings(url, &odd)});
        let refused = bakery.server.post("/api/sources", &wrong);
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains("is not a path below"), "{}", refused.body);
        let hasty = json!({"status_path": "s", "completed": ["x"], "interval_ms": 99});
        let wrong = json!({"name": "w", "settings": settings(url, &hasty)});
        let refused = bakery.server.post("/api/sources", &wrong);
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body.contains("is less than 100"), "{}", refused.body);
    }
}

#[test]
fn an_absolute_status_url_must_match_the_url_of_the_api() {
    let bakery = Bakery::finishing();
    let said = |settings: Value| {
        let polling = json!({"status_url": "https://api.test/status/{answer.id}",
            "status_path": "s", "completed": ["x"]});
        let mut source = json!({"name": "w", "url": "http://127.0.0.1:1/openapi.json",
            "settings": {"kind": "openapi", "polling": {"bake": polling}}});
        source["settings"].as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        bakery.server.post("/api/sources", &source)
    };
    let text = specification("https://api.test", &json!({}));
    let refused = said(json!({"specification": {"text": text}}));
    assert_eq!(refused.status, 422, "{}", refused.body);
    let accepted = said(json!({}));
    assert_eq!(accepted.status, 201, "{}", accepted.body);
}

#[test]
fn a_job_continues_when_the_credential_of_the_same_upstream_changes() {
    let bakery = Bakery::finishing_with_settings(polling_by_admin);
    let settings = bakery.server.get("/api/sources/s").ok()["settings"].take();
    let show = |auth: Value| {
        let source = json!({"name": "s", "url": bakery.upstream.url(""), "settings": settings,
            "allow": ["127.0.0.1"], "auth": auth});
        bakery.server.put("/api/sources/s", &source).ok();
    };
    show(json!({"kind": "none"}));
    let address = bakery.call("respond-async").header("location").to_owned();
    show(json!({"kind": "bearer", "token": "env:BAKERY_TOKEN"}));
    let ended = bakery.wait_for_end(&address);
    assert_eq!(ended["outcome"]["status"], "completed", "{ended}");
}

#[test]
fn a_client_with_task_support_gets_a_task_and_can_cancel_it() {
    let bakery = Bakery::finishing();
    let call = json!({"name": "bake", "arguments": {"loaves": 2}});
    let task = bakery.task_request("tools/call", call.clone());
    assert_eq!(task["resultType"], "task", "{task}");
    let id = json!({"taskId": task["taskId"]});
    let start = Instant::now();
    let ended = loop {
        let task = bakery.task_request("tasks/get", id.clone());
        if task["status"] != "working" {
            break task;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{task}");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["structuredContent"]["for"], "done", "{ended}");

    let endless = Bakery::endless();
    let task = endless.task_request("tools/call", call);
    endless.task_request("tasks/cancel", json!({"taskId": task["taskId"]}));
    endless.wait_for_request("DELETE /jobs/7 ");
    let looks = endless.request_count("GET");
    thread::sleep(Duration::from_millis(400));
    assert_eq!(
        (endless.request_count("GET"), endless.request_count("DELETE")),
        (looks, 1),
        "and nothing more"
    );
    assert_eq!(endless.rows()[0]["status"], "cancelled");
}

#[test]
fn a_rest_caller_polls_for_the_result() {
    let bakery = Bakery::finishing();
    let accepted = bakery.call("");
    assert_eq!((accepted.status, &accepted.json()["state"]), (202, &json!("working")));
    let address = accepted.header("location").to_owned();
    assert!(address.starts_with("/api/agents/calls/"), "{address}");
    // Other callers do not find the call.
    let other = key(&bakery.server, "other");
    assert_eq!(bakery.server.get_as(&other, &address).status, 404);
    let foreign = Ask::new("DELETE", &address).bearer(&other);
    assert_eq!(bakery.server.send(&foreign).status, 404);
    assert_eq!(bakery.get("/api/agents/calls/none").status, 404);
    let ended = bakery.wait_for_end(&address);
    assert_eq!((&ended["state"], &ended["message"]), (&json!("completed"), &json!("baking")));
    assert_eq!(ended["outcome"]["result"], json!({"loaves": 2, "for": "done"}));
    // The result can be read repeatedly until the caller deletes it.
    assert_eq!(bakery.get(&address).ok()["state"], "completed");
    let forget = Ask::new("DELETE", &address).bearer(&bakery.key);
    assert_eq!(bakery.server.send(&forget).ok()["state"], "completed");
    assert_eq!(bakery.get(&address).status, 404);
    assert_eq!((bakery.request_count("DELETE"), bakery.rows().len()), (0, 1));
}

#[test]
fn a_rest_caller_may_wait_or_get_an_address_immediately() {
    let bakery = Bakery::finishing();
    let waited = bakery.call("wait=60");
    assert_eq!((waited.status, &waited.ok()["result"]["for"]), (200, &json!("done")));
    // An invalid request is still rejected immediately.
    let body = json!({"name": "bake", "arguments": {"loaves": "two"}});
    let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&bakery.key);
    assert_eq!(bakery.server.send(&ask.json(&body)).status, 422);
    // `respond-async` and `wait` can be combined: the server waits first.
    assert_eq!(bakery.call("respond-async, wait=60").ok()["status"], "completed");
}

#[test]
fn a_job_without_an_address_is_cancelled_when_the_wait_ends() {
    let bakery = Bakery::endless();
    let post = |path: &str, body: Value| {
        let ask = Ask::new("POST", path).bearer(&bakery.key).header("Prefer", "wait=1");
        bakery.server.send(&ask.json(&body))
    };
    // A call with an address to poll continues after the wait.
    let begun = post("/api/agents/tools/call", json!({"name": "bake", "arguments": {"loaves": 2}}));
    assert_eq!(begun.status, 202, "{begun:?}");
    assert_eq!(bakery.request_count("DELETE"), 0);
    let result = post("/tools/bake", json!({"loaves": 2})).ok();
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("did not end in time"), "{text}");
    bakery.wait_for_request("DELETE /jobs/7 ");
    assert_eq!(bakery.get(begun.header("location")).ok()["state"], "working");
    assert_eq!(bakery.request_count("DELETE"), 1);
}

#[test]
fn cancelling_a_rest_call_cancels_the_job_once() {
    let bakery = Bakery::endless();
    let address = bakery.call("respond-async").header("location").to_owned();
    let cancel = Ask::new("DELETE", &address).bearer(&bakery.key);
    assert_eq!(bakery.server.send(&cancel).ok()["state"], "cancelled");
    assert_eq!(bakery.server.send(&cancel).status, 404);
    bakery.wait_for_request("DELETE /jobs/7 ");
    let looks = bakery.request_count("GET");
    thread::sleep(Duration::from_millis(400));
    assert_eq!((bakery.request_count("GET"), bakery.request_count("DELETE")), (looks, 1));
}

#[test]
fn a_job_is_cancelled_when_its_api_key_is_deleted() {
    let bakery = Bakery::endless();
    assert_eq!(bakery.call("respond-async").status, 202);
    bakery.wait_for_request("GET /jobs/7 ");
    bakery.server.delete("/api/keys/bot");
    bakery.wait_for_request("DELETE /jobs/7 ");
    let has_row = |page: &Value| page["data"] != json!([]);
    let row = bakery.server.wait_for("/api/executions", has_row)["data"][0].take();
    assert_eq!((&row["status"], &row["code"]), (&json!("failed"), &json!("not_granted")));
}

#[test]
fn a_new_credential_is_not_sent_to_the_previous_upstream() {
    let mut bakery = Bakery::endless();
    let address = bakery.call("respond-async").header("location").to_owned();
    bakery.wait_for_request("GET /jobs/7 ");
    let other = Upstream::replying(|_| state("queued"));
    let auth = json!({"kind": "bearer", "token": "env:BAKERY_TOKEN"});
    let settings = polling_in_specification(&other.url(""), &json!({}));
    let moved = json!({"name": "s", "settings": settings, "allow": ["127.0.0.1"], "auth": auth});
    bakery.server.put("/api/sources/s", &moved).ok();
    let failure = bakery.wait_for_end(&address)["outcome"]["error"].take();
    assert_eq!(failure["code"], "poll_failed", "{failure}");
    let message = failure["message"].as_str().unwrap();
    assert!(message.starts_with("the source was changed"), "{message}");
    assert_eq!(bakery.server.stop().0, Some(0));
    let asked = bakery.upstream.requests();
    assert!(asked.iter().all(|request| !request.contains(TOKEN)), "{asked:?}");
    assert_eq!(bakery.request_count("DELETE"), 0, "nor is it told anything");
}

#[test]
fn all_requests_of_a_job_belong_to_the_trace_of_its_call() {
    let bakery = Bakery::endless();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let ask = Ask::new("POST", "/api/agents/tools/call").bearer(&bakery.key);
    let ask = ask.header("traceparent", &format!("00-{trace}-b7ad6b7169203331-01"));
    let body = json!({"name": "bake", "arguments": {"loaves": 2}});
    let begun = bakery.server.send(&ask.header("Prefer", "respond-async").json(&body));
    bakery.wait_for_request("GET /jobs/7 ");
    let cancel = Ask::new("DELETE", begun.header("location")).bearer(&bakery.key);
    bakery.server.send(&cancel).ok();
    bakery.wait_for_request("DELETE /jobs/7 ");
    let asked = bakery.upstream.requests();
    assert!(asked.iter().all(|request| request.contains(trace)), "{asked:?}");
}

#[test]
fn a_result_is_hidden_from_a_caller_that_lost_the_tool() {
    let bakery = Bakery::finishing();
    let address = bakery.call("respond-async").header("location").to_owned();
    let call = json!({"name": "bake", "arguments": {"loaves": 2}});
    let task = bakery.task_request("tools/call", call);
    let task = json!({"taskId": task["taskId"]});
    let start = Instant::now();
    while bakery.get(&address).ok()["state"] != "completed"
        || bakery.task_request("tasks/get", task.clone())["status"] != "completed"
    {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
    bakery.server.delete("/api/policies/p");
    assert_eq!(bakery.get(&address).status, 404);
    let forget = Ask::new("DELETE", &address).bearer(&bakery.key);
    assert_eq!(bakery.server.send(&forget).status, 404);
    let asked = bakery.send_task_request("tasks/get", task).body;
    assert!(asked.contains("there is no such task"), "{asked}");
}

#[test]
fn a_server_that_stops_cancels_its_jobs() {
    let mut bakery = Bakery::endless();
    bakery.call("respond-async");
    bakery.task_request("tools/call", json!({"name": "bake", "arguments": {"loaves": 2}}));
    bakery.wait_for_requests("POST /bake", 2);
    // After four more status requests, both jobs are being polled.
    bakery.wait_for_requests("GET /jobs/", bakery.request_count("GET /jobs/") + 4);
    assert_eq!(bakery.request_count("DELETE /jobs/"), 0);
    let (code, _) = bakery.server.stop();
    let stopped = bakery.stopped.load(Ordering::Relaxed);
    assert_eq!((code, stopped), (Some(0), 2), "the server goes when that was heard");
}

#[test]
fn a_waiting_job_holds_no_call_permit() {
    let waits = json!({"interval_ms": 60_000, "max_interval_ms": 60_000});
    let bakery = Bakery::new(&waits, |_| state("queued"), |_| state("done"));
    for _ in 0..3 {
        assert_eq!(bakery.call("wait=1").status, 202);
    }
    assert_eq!((bakery.request_count("POST"), bakery.request_count("GET")), (3, 0));
}

#[test]
fn jobs_that_never_end_or_fail_are_reported_as_failed() {
    let endless = Bakery::new(&json!({"attempts": 3}), |_| state("queued"), |_| state("baking"));
    let (code, message) = endless.failure();
    assert_eq!(code, "poll_timeout");
    assert!(message.ends_with("after 3 looks: its status is `baking`"), "{message}");
    endless.wait_for_request("DELETE /jobs/7 ");
    assert_eq!(endless.request_count("GET"), 3);
    let lost = Bakery::new(&json!({}), |_| state("queued"), |_| answer("403 No", "", b"no"));
    let (code, message) = lost.failure();
    assert_eq!(code, "poll_failed");
    assert!(message.starts_with("nobody can say how the work goes: "), "{message}");
    lost.wait_for_request("DELETE /jobs/7 ");
    let burnt = Bakery::new(
        &json!({}),
        |_| state("queued"),
        |look| match look {
            1 => state("burnt"),
            // A failed job is not polled again, even if the upstream would change its status.
            _ => state("done"),
        },
    );
    let (code, message) = burnt.failure();
    assert_eq!((code.as_str(), burnt.request_count("GET")), ("poll_failed", 1));
    assert!(message.contains("burnt"), "{message}");
    let broken = Bakery::new(
        &json!({"attempts": 50}),
        |_| state("queued"),
        |_| answer("500 No", "", b"out of order"),
    );
    let (code, message) = broken.failure();
    assert_eq!((code.as_str(), broken.request_count("GET")), ("poll_failed", 5));
    assert!(message.contains("out of order"), "{message}");
}

#[test]
fn a_status_redirect_to_the_result_is_followed_within_its_origin() {
    let see = |location: &str| answer("303 See Other", &format!("Location: {location}\r\n"), b"");
    let bakery = Bakery::new(
        &json!({"status_url": "{location}", "result_path": null}),
        move |_| see("/jobs/7"),
        move |look| match look {
            1 => state("baking"),
            2 => see("/loaves/7"),
            _ => ok("application/json", r#"{"loaves":2}"#),
        },
    );
    let outcome = bakery.call("wait=60").ok();
    assert_eq!(outcome["result"], json!({"loaves": 2}), "{outcome}");
    let asked = ["POST /bake ", "GET /jobs/7 ", "GET /loaves/7 ", "DELETE"]
        .map(|it| bakery.request_count(it));
    assert_eq!(asked, [1, 2, 1, 0]);
}

#[test]
fn an_upstream_cannot_redirect_polling_elsewhere_or_exhaust_memory() {
    let secret =
        Upstream::replying(|_| ok("application/json", r#"{"state":"done","result":"secret"}"#));
    for url in [
        "http://169.254.169.254/latest/meta-data".to_owned(),
        secret.url("/jobs/7"),
        "//127.0.0.2/x".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let told = json!({"id": 7, "url": url}).to_string();
        let more = json!({"status_url": "{answer.url}"});
        let bakery = Bakery::new(&more, move |_| ok("application/json", &told), |_| state("done"));
        let (code, message) = bakery.failure();
        assert_eq!(code, "poll_failed", "{url}");
        assert!(message.starts_with("the work was begun"), "{message}");
        assert_eq!(bakery.upstream.requests().len(), 1);
    }
    assert!(secret.requests().is_empty(), "{:?}", secret.requests());
    let redirecting = Bakery::new(
        &json!({}),
        |_| state("queued"),
        move |_| answer("302 Found", "Location: http://169.254.169.254/\r\n", b""),
    );
    assert_eq!(redirecting.failure().0, "poll_failed");
    assert_eq!(redirecting.request_count("GET"), 1);
    let giant = Bakery::new(
        &json!({}),
        |_| state("queued"),
        |_| {
            ok(
                "application/json",
                &json!({"state": "done", "result": "x".repeat(11 << 20)}).to_string(),
            )
        },
    );
    assert_eq!(giant.failure().0, "poll_failed");
    // An address below the upstream's own origin is accepted, in a header too.
    let own = Bakery::new(
        &json!({"status_url": "{location}"}),
        |_| answer("202 Accepted", "Location: /elsewhere/8\r\nRetry-After: 0\r\n", b""),
        |_| state("done"),
    );
    assert_eq!(own.call("wait=60").ok()["status"], "completed");
    assert_eq!(own.request_count("GET /elsewhere/8 "), 1);
}
