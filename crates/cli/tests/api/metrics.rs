//! The Prometheus metrics of a server.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::collections::{BTreeMap, BTreeSet};

use prometheus_parse::{Sample, Scrape, Value};
use serde_json::json;

use super::calls::Shop;
use super::server::{Ask, Server};

/// Samples of a scrape, parsed by an independent parser that must not lose a line.
fn samples(text: &str) -> Vec<Sample> {
    let read = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let mut lines = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(lines.insert(series), "twice: {line}");
    }
    let simple = |sample: &&Sample| !matches!(sample.value, Value::Histogram(_));
    let in_classes: usize = read
        .samples
        .iter()
        .map(|sample| match &sample.value {
            Value::Histogram(classes) => classes.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(read.samples.iter().filter(simple).count() + in_classes, lines.len(), "{text}");
    read.samples
}

pub(super) fn scrape(server: &Server) -> String {
    let answer = server.get("/metrics");
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!((answer.status, answer.header("cache-control")), (200, "no-store"));
    answer.body
}

/// Lines of one metric, without histogram buckets.
fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let of = |line: &&str| line.starts_with(name) && !line.contains("_bucket{");
    text.lines().filter(of).collect()
}

#[test]
fn the_documented_metrics_are_those_of_the_code() {
    let documentation = include_str!("../../../../docs/telemetry.md");
    let written: Vec<&str> = documentation
        .lines()
        .skip_while(|line| !line.starts_with("| Metric "))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = http_api::all_metrics()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let (kind, labels) = (metric.kind.as_str(), labels.join(", "));
            format!("| `{}` | {kind} | {labels} | {} |", metric.name, metric.help)
        })
        .collect();
    assert_eq!(written, expected, "\n{}\n", expected.join("\n"));
}

#[test]
fn the_operations_guide_names_only_existing_metrics() {
    let documentation = include_str!("../../../../docs/operations.md");
    let names: BTreeSet<&str> = http_api::all_metrics().map(|metric| metric.name).collect();
    let rows = documentation.lines().skip_while(|line| !line.starts_with("| Metric "));
    let watched = rows.skip(2).take_while(|line| line.starts_with('|'));
    let watched: Vec<&str> = watched.filter_map(|row| row.split(['`', '{']).nth(1)).collect();
    assert!(!watched.is_empty());
    let unknown: Vec<&&str> = watched.iter().filter(|name| !names.contains(**name)).collect();
    assert_eq!(unknown, [&""; 0], "docs/operations.md");
}

#[test]
fn a_scrape_has_every_metric_with_its_type_and_labels() {
    let shop = Shop::open();
    shop.post("/api/agents/tools/call", &json!({"name": "get_pet", "arguments": {"id": 7}})).ok();
    let text = scrape(&shop.server);
    let told: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let known: BTreeMap<&str, &str> =
        http_api::all_metrics().map(|metric| (metric.name, metric.kind.as_str())).collect();
    assert_eq!(told, known);
    for metric in http_api::all_metrics() {
        let help = format!("# HELP {} {}", metric.name, metric.help);
        assert!(text.lines().any(|line| line == help), "{help}");
    }
    for sample in samples(&text) {
        let base = ["_sum", "_count"].iter().find_map(|end| sample.metric.strip_suffix(end));
        let is_known = |name: &str| http_api::all_metrics().find(|metric| metric.name == name);
        let metric = is_known(&sample.metric).or_else(|| is_known(base?)).unwrap();
        let labels: BTreeSet<&str> = sample.labels.keys().map(String::as_str).collect();
        assert_eq!(labels, metric.labels.iter().copied().collect(), "{}", sample.metric);
    }
}

#[test]
fn tool_resolutions_and_call_outcomes_are_counted() {
    let shop = Shop::open();
    let before = scrape(&shop.server);
    assert_eq!(lines(&before, "agent_access_resolutions "), ["agent_access_resolutions 0"]);
    let call = |body| shop.post("/api/agents/tools/call", &body);
    call(json!({"name": "get_pet", "arguments": {"id": 7}})).ok();
    call(json!({"name": "break_pet"})).ok();
    assert_eq!(call(json!({"name": "get_pet", "arguments": {"id": "seven"}})).status, 422);
    assert_eq!(call(json!({"name": "delete_pet", "arguments": {"id": 7}})).status, 404);
    // Anonymous callers are granted nothing.
    shop.server.send(&Ask::new("GET", "/api/agents/tools")).ok();
    let text = scrape(&shop.server);
    for line in [
        "agent_access_resolutions 5",
        "agent_access_denied 1",
        "agent_tools_resolved 12",
        "agent_resolution_time_count 5",
        "toolcrib_calls_active 0",
        r#"toolcrib_call_duration_seconds_count{source="pets"} 3"#,
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    assert_eq!(
        lines(&text, "toolcrib_calls_total{"),
        [
            r#"toolcrib_calls_total{source="none",kind="tool",outcome="not_granted"} 1"#,
            r#"toolcrib_calls_total{source="pets",kind="tool",outcome="completed"} 1"#,
            r#"toolcrib_calls_total{source="pets",kind="tool",outcome="validation_error"} 1"#,
            r#"toolcrib_calls_total{source="pets",kind="tool",outcome="upstream_error"} 1"#,
        ]
    );
}

#[test]
fn breakers_protocols_refreshes_and_connections_are_counted() {
    let shop = Shop::open();
    let call = |body| shop.post("/api/agents/tools/call", &body);
    for _ in 0..5 {
        call(json!({"name": "break_pet"})).ok();
    }
    assert_eq!(call(json!({"name": "break_pet"})).status, 503);
    let state = |state: u8| format!("toolcrib_breaker_state{{source=\"pets\"}} {state}\n");
    // The circuit is open for all agents that called. A new agent is still let through, until its calls fail too.
    assert!(scrape(&shop.server).contains(&state(2)));
    assert_eq!(shop.call_by("another bot", &json!({"name": "break_pet"})).status, 200);
    assert!(scrape(&shop.server).contains(&state(0)));
    assert_eq!(shop.call_by("a third bot", &json!({"name": "break_pet"})).status, 200);
    let mcp = |method: &str, params: serde_json::Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_eq!(shop.post("/mcp", &message).status, 200);
    };
    mcp("made/up", json!({}));
    let client = json!({"name": "t", "version": "1"});
    mcp(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}),
    );
    shop.server.send(&Ask::new("BREW", "/made/up").bearer("wrong"));
    shop.server.send(&Ask::new("GET", "/api/whoami").bearer("tcrib_wrong"));
    shop.server.wait_for("/api/executions", |list| list["data"].as_array().unwrap().len() == 8);
    let text = scrape(&shop.server);
    for line in [
        r#"toolcrib_authentications_total{means="key",outcome="refused"} 1"#,
        r#"toolcrib_refreshes_total{source="pets",outcome="completed"} 1"#,
        "toolcrib_refresh_duration_seconds_count 1",
        r#"toolcrib_gate_refusals_total{source="pets",reason="circuit_open"} 1"#,
        r#"toolcrib_breaker_opened_total{source="pets"} 2"#,
        r#"toolcrib_breaker_state{source="pets"} 2"#,
        r#"toolcrib_gate_calls{source="pets"} 0"#,
        "toolcrib_sources 1",
        r#"toolcrib_gate_waiting{source="pets"} 0"#,
        "toolcrib_calls_waiting 0",
        "toolcrib_calls_refused_total 0",
        "toolcrib_record_waiting 0",
        "toolcrib_tools 4",
        r#"toolcrib_journal_appends_total{outcome="failed"} 0"#,
        r#"toolcrib_record_rows_total{outcome="stored"} 8"#,
        r#"toolcrib_record_rows_total{outcome="lost"} 0"#,
        "toolcrib_record_failing 0",
        r#"toolcrib_http_requests_total{method="POST",route="/api/agents/tools/call",status="2xx"} 7"#,
        r#"toolcrib_http_requests_total{method="POST",route="/api/agents/tools/call",status="5xx"} 1"#,
        r#"toolcrib_http_requests_total{method="POST",route="/mcp",status="2xx"} 2"#,
        r#"toolcrib_http_requests_total{method="other",route="other",status="4xx"} 1"#,
        "toolcrib_http_requests_active 1",
        r#"toolcrib_mcp_requests_total{method="initialize"} 1"#,
        r#"toolcrib_mcp_requests_total{method="other"} 1"#,
        "toolcrib_mcp_sessions_total 1",
        "toolcrib_streams_open 0",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}\n{text}");
    }
    let number = |begins: &str| {
        let said = text.lines().find_map(|line| line.strip_prefix(begins));
        said.unwrap_or_default().parse::<u32>().unwrap_or_else(|_| panic!("{begins}\n{text}"))
    };
    let [stored, conflicts] = ["stored", "conflict"].map(|outcome| {
        number(&format!(r#"toolcrib_journal_appends_total{{outcome="{outcome}"}} "#))
    });
    let measured = number("toolcrib_journal_append_duration_seconds_count ");
    assert_eq!((measured, 0 < stored), (stored + conflicts, true));
}

/// Metrics contain nothing about callers, secrets, or the contents of requests.
#[test]
fn no_metric_identifies_callers_or_arguments() {
    let shop = Shop::open();
    let canary = "canary-5f1e";
    let call = |body| shop.post("/api/agents/tools/call", &body);
    call(json!({"name": "add_pet", "arguments": {"name": canary}})).ok();
    call(json!({"name": canary, "arguments": {"id": 7}}));
    call(json!({"name": "get_pet", "arguments": {canary: canary}}));
    let key = json!({"name": canary, "claims": {"role": "staff", "sub": canary}});
    let key = shop.server.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    let ask = Ask::new("POST", &format!("/mcp?{canary}={canary}")).bearer(&key);
    shop.server.send(&ask.header("User-Agent", canary).header("X-Request-Id", canary));
    for path in [format!("/{canary}"), format!("/api/tools/{canary}/execute")] {
        shop.server.send(&Ask::new("POST", &path).bearer(canary));
    }
    let text = scrape(&shop.server);
    let (_, secret) = key.split_once('_').unwrap();
    for said in [canary, secret, "get_pet", "add_pet", "Rex", "staff", "bot"] {
        assert!(!text.contains(said), "{said}\n{text}");
    }
}

#[test]
fn the_metrics_listener_serves_only_metrics_and_health() {
    let server = Server::start_with("--metrics-listen 127.0.0.1:0");
    let look = |path: &str| server.send_to_metrics_port(&Ask::new("GET", path));
    let aside = look("/metrics").body;
    assert!(!samples(&aside).is_empty());
    assert_eq!(lines(&aside, "# TYPE"), lines(&scrape(&server), "# TYPE"));
    assert_eq!(look("/health/ready").ok(), json!({"status": "ready"}));
    for path in ["/api/sources", "/mcp", "/", "/tools"] {
        assert!(look(path).problem().starts_with("404 not_found"), "{path}");
    }
    let elsewhere = Ask::new("GET", "/metrics").header("Host", "evil.example");
    assert!(
        server.send_to_metrics_port(&elsewhere).problem().starts_with("421 misdirected_request")
    );
    // On the main listener, metrics require admin access.
    assert_eq!(server.send(&Ask::new("GET", "/metrics")).status, 401);
}
