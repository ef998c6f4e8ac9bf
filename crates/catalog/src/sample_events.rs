//! Values for tests: short constructors for ids and times, a complete manifest, and every event at least once.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use model::{BodyEncoding, Digest, Execution, HttpRequest, StatusPolling, ToolId};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api_key::ApiKeyEvent;
use crate::group::GroupEvent;
use crate::journal::StreamVersion;
use crate::label::LabelEvent;
use crate::policy::PolicyEvent;
use crate::source::SourceEvent;
use crate::tool::{StoredManifest, Tool, ToolEvent};

/// Parses an id, a name, a digest, …
pub(crate) fn parsed<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn all_parsed<T: FromStr<Err: Debug>, All: FromIterator<T>>(texts: &[&str]) -> All {
    texts.iter().map(|text| parsed(text)).collect()
}

/// Deserializes a value from JSON, through text as a journal does.
pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// The time at this many seconds after the epoch. Events in tests are one second apart.
pub(crate) fn time(second: u32) -> Timestamp {
    Timestamp::from_second(second.into()).unwrap()
}

/// A manifest with every field filled, so that a new field cannot be forgotten here.
pub(crate) fn full_manifest() -> StoredManifest {
    StoredManifest {
        name: "get_pet".into(),
        title: Some("Get a pet".into()),
        description: "One pet by its number".into(),
        method: "GET".into(),
        path: "/pets/{id}".into(),
        tags: vec!["pets".into(), "read".into()],
        input_schema: from_json(json!({"inline": {"type": "object", "required": ["id"]}})),
        output_schema: Some(from_json(json!({"stored": {
            "root": Digest::of_bytes("root"), "definitions": {"Pet": Digest::of_bytes("Pet")},
        }}))),
        execution: Execution::SyncHttp(HttpRequest {
            url_template: "https://pets.example/pets/{{ id }}".into(),
            headers_template: BTreeMap::from([("accept".into(), "application/json".into())]),
            body_template: Some("{{ body }}".into()),
            body_encoding: BodyEncoding::Json,
        }),
        deprecated: true,
        security: Some(from_json(json!([{"key": []}]))),
        extra: from_json(json!({"annotations": {"readOnlyHint": true}})),
    }
}

/// A manifest that differs from [`full_manifest`] in every field.
pub(crate) fn other_manifest() -> StoredManifest {
    StoredManifest {
        name: "start_report".into(),
        title: Some("Start a report".into()),
        description: "Counts all pets".into(),
        method: "POST".into(),
        path: "/reports".into(),
        tags: vec!["reports".into()],
        input_schema: from_json(json!({"stored": {"root": Digest::of_bytes("other root")}})),
        output_schema: Some(from_json(json!({"inline": {"type": "object"}}))),
        execution: Execution::AsyncPoll {
            request: HttpRequest {
                url_template: "https://pets.example/reports".into(),
                headers_template: BTreeMap::new(),
                body_template: None,
                body_encoding: BodyEncoding::Form,
            },
            polling: StatusPolling {
                status_url_template: "https://pets.example/reports/{{ answer.id }}".into(),
                status_path: Some("status".into()),
                completed: vec!["done".into()],
                failed: vec!["failed".into()],
                result_path: Some("result".into()),
                interval_ms: StatusPolling::INTERVAL_MS,
                max_interval_ms: StatusPolling::MAX_INTERVAL_MS,
                attempts: StatusPolling::DEFAULT_ATTEMPTS,
                cancel: None,
            },
        },
        deprecated: false,
        security: Some(from_json(json!([]))),
        extra: from_json(json!({"icons": []})),
    }
}

pub(crate) fn tool_called(id: &str, name: &str) -> Tool {
    let id: ToolId = parsed(id);
    let manifest = Arc::new(StoredManifest { name: name.into(), ..full_manifest() });
    let source = parsed(id.source_id());
    let (fingerprint, awaits_review) = (Digest::of_bytes(name), false);
    let event =
        ToolEvent::Registered { source, manifest, fingerprint, awaits_review, findings: vec![] };
    let mut tool = None;
    Tool::evolve(&mut tool, &id, event, time(1), StreamVersion(1));
    tool.unwrap()
}

/// Every event of a source.
pub(crate) fn source_events() -> Vec<SourceEvent> {
    let plain = json!({"name": "Pets", "settings": {"kind": "openapi"}});
    let full = json!({
        "name": "Pets by MCP", "description": "All our pets", "url": "https://pets.example/mcp",
        "settings": {
            "kind": "mcp", "lifecycle": "transient",
            "command": {
                "program": "pets-mcp", "arguments": ["--read-only"],
                "environment": {"TOKEN": "env:PETS_TOKEN"}, "directory": "/srv/pets",
            },
        },
        "auth": {
            "kind": "token_exchange", "token_url": "https://id.example/token", "client_id": "toolcrib",
            "client_secret": "sealed:pets", "audience": "pets", "scopes": ["pets.read"],
        },
        "forward_headers": ["x-request-id"], "trust": "review", "visibility": "searchable",
        "refresh_every": 3600, "shrink_limit": 20,
    });
    let digest = Digest::of_bytes("inventory");
    vec![
        SourceEvent::Registered { profile: from_json(plain) },
        SourceEvent::Updated { profile: from_json(full) },
        SourceEvent::Disabled {},
        SourceEvent::Enabled {},
        SourceEvent::SyncStarted {},
        SourceEvent::SyncFailed {
            error: from_json(json!({"code": "spec_fetch_failed", "message": "no answer in 30 s"})),
        },
        SourceEvent::HealthChanged { health: from_json(json!("degraded")) },
        SourceEvent::InventoryIngested {
            inventory: from_json(
                json!({"inventory_hash": "9bc52d1677a576a9", "fingerprint": digest, "count": 2}),
            ),
        },
        SourceEvent::InventoryIngested {
            inventory: from_json(json!({
                "inventory_hash": "9bc52d1677a576a9", "fingerprint": digest, "count": 2, "source_version": "1.2",
                "warnings": [{"code": "unsupported_method", "at": "/paths/~1pets/trace", "message": "no TRACE"}],
            })),
        },
        SourceEvent::Removed {},
    ]
}

/// Every event of a tool.
pub(crate) fn tool_events() -> Vec<ToolEvent> {
    let (first, second) = (full_manifest(), other_manifest());
    let [first_fingerprint, second_fingerprint] = [first.fingerprint(), second.fingerprint()];
    let plain: StoredManifest = from_json(json!({
        "name": "ping", "method": "POST", "path": "/mcp/ping",
        "input_schema": {"inline": {"type": "object"}}, "execution": {"mode": "mcp_call"},
    }));
    let overridden = json!({"name": "pet", "description": "A pet", "visibility": "hidden", "audience": "pets", "projection": "{a: b}", "max_result_bytes": 5000, "limit": {"per_minute": 5}});
    let findings: Vec<model::Finding> = from_json(json!([{
        "check": "text.control", "severity": "critical", "at": "/title", "offset": 3, "what": "has control characters",
    }]));
    vec![
        ToolEvent::Registered {
            source: parsed("pets"),
            fingerprint: plain.fingerprint(),
            manifest: plain.into(),
            awaits_review: false,
            findings: vec![],
        },
        ToolEvent::Registered {
            source: parsed("pets"),
            manifest: first.into(),
            fingerprint: first_fingerprint,
            awaits_review: true,
            findings: findings.clone(),
        },
        ToolEvent::Approved { fingerprint: first_fingerprint, despite_findings: false },
        ToolEvent::Inspected { findings: findings.clone() },
        ToolEvent::Approved { fingerprint: first_fingerprint, despite_findings: true },
        ToolEvent::Updated {
            manifest: second.clone().into(),
            fingerprint: second_fingerprint,
            changed: vec!["name".into(), "input_schema".into()],
            awaits_review: true,
            findings,
        },
        ToolEvent::Rejected { fingerprint: second_fingerprint, reason: "too curious".into() },
        ToolEvent::Updated {
            manifest: second.into(),
            fingerprint: second_fingerprint,
            changed: vec![],
            awaits_review: false,
            findings: vec![],
        },
        ToolEvent::Disabled {},
        ToolEvent::Enabled {},
        ToolEvent::Overridden { overridden: from_json(overridden) },
        ToolEvent::Overridden { overridden: from_json(json!({})) },
        ToolEvent::Labelled { labels: all_parsed(&["beta", "pii"]) },
        ToolEvent::Deprecated {},
        ToolEvent::Restored {},
        ToolEvent::Removed {},
    ]
}

/// Every event of a group.
pub(crate) fn group_events() -> Vec<GroupEvent> {
    let plain = json!({"name": "Pets"});
    let full = json!({
        "name": "Pets to read", "description": "Nothing is changed", "selector_mode": "any", "visibility": "listed",
    });
    let selector = json!({
        "kind": "tool", "source": "pets", "name": "get_*", "path": "/pets/*", "method": "regex:GET|HEAD",
        "required_tags": ["read"], "excluded_tags": ["internal"], "required_labels": ["beta"],
    });
    vec![
        GroupEvent::Created {
            profile: from_json(plain.clone()),
            selectors: vec![],
            tools: all_parsed(&[]),
            excluded: vec![],
        },
        GroupEvent::Created {
            profile: from_json(plain),
            selectors: from_json(json!([{}])),
            tools: all_parsed(&["pets:get_pet"]),
            excluded: from_json(json!([{"tool": "pets:drop_pet", "reason": "cruel"}])),
        },
        GroupEvent::Updated { profile: from_json(full) },
        GroupEvent::SelectorsReplaced {
            selectors: from_json(json!([selector, {"kind": "prompt"}])),
        },
        GroupEvent::ToolsAdded { tools: all_parsed(&["pets:get_pet", "pets:put_pet"]) },
        GroupEvent::ToolsRemoved { tools: all_parsed(&["pets:put_pet"]) },
        GroupEvent::ToolsExcluded {
            excluded: from_json(
                json!([{"tool": "pets:get_pet", "reason": "slow"}, {"tool": "pets:drop_pet"}]),
            ),
        },
        GroupEvent::ToolsIncluded { tools: all_parsed(&["pets:get_pet"]) },
        GroupEvent::Deactivated {},
        GroupEvent::Activated {},
        GroupEvent::Deleted {},
    ]
}

/// Every event of a policy.
pub(crate) fn policy_events() -> Vec<PolicyEvent> {
    let plain = json!({
        "name": "Staff", "groups": ["pets"], "matchers": [{"claim": "role", "operator": "equals", "value": "staff"}],
    });
    let full = json!({
        "name": "Staff and partners", "description": "All who care for pets", "priority": 7,
        "groups": ["pets", "reports"],
        "matchers": [
            {"claim": "realm_access.roles", "operator": "contains", "value": "keeper"},
            {"claim": "level", "operator": "in", "value": [1, 2.5, "x"]},
            {"claim": "org", "operator": "not_equals", "value": "zoo", "missing": true},
            {"claim": "email", "operator": "matches", "value": ".*@pets\\.example"},
            {"claim": "\"https://pets.example/id\"", "operator": "exists"},
        ],
    });
    vec![
        PolicyEvent::Defined { rules: from_json(plain) },
        PolicyEvent::Updated { rules: from_json(full) },
        PolicyEvent::Deactivated {},
        PolicyEvent::Activated {},
        PolicyEvent::Deleted {},
    ]
}

/// Every event of an API key.
pub(crate) fn key_events() -> Vec<ApiKeyEvent> {
    let full = json!({
        "name": "Nightly build", "description": "For CI", "claims": {"team": "build"}, "admin": true,
        "expires_at": "2027-01-01T00:00:00Z",
    });
    vec![
        ApiKeyEvent::Created {
            profile: from_json(json!({"name": "CI"})),
            hash: Digest::of_bytes(b"a key"),
        },
        ApiKeyEvent::Updated { profile: from_json(full) },
        ApiKeyEvent::Revoked {},
        ApiKeyEvent::Deleted {},
    ]
}

/// Every event of a label.
pub(crate) fn label_events() -> Vec<LabelEvent> {
    let full =
        json!({"name": "Personal", "description": "Sees personal data", "colour": "#ff0000"});
    vec![
        LabelEvent::Created { profile: from_json(json!({"name": "PII"})) },
        LabelEvent::Updated { profile: from_json(full) },
        LabelEvent::Deleted {},
    ]
}
