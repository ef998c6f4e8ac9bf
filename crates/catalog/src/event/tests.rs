//! Pins the stored JSON of every event. A change here changes how older and newer nodes read each other's events.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::journal::{Position, StreamVersion};
use crate::sample_events::{
    group_events, key_events, label_events, parsed, policy_events, source_events, time, tool_events,
};

/// One line for each event: its type, and its data exactly as stored.
fn stored(events: &[impl Serialize]) -> String {
    let line = |event| {
        let NewEvent { kind, data } = encode_event(event);
        format!("{kind} {data}\n")
    };
    events.iter().map(line).collect()
}

/// The event as a journal returns it.
fn recorded(stream: &StreamName, kind: &str, data: &str) -> RecordedEvent {
    RecordedEvent {
        position: Position(7),
        stream: stream.clone(),
        version: StreamVersion(3),
        kind: kind.into(),
        time: time(1),
        actor: "system".into(),
        correlation_id: None,
        causation_id: None,
        data: data.into(),
    }
}

fn read(stream: &StreamName, kind: &str, data: &str) -> Result<Event, UnreadableEvent> {
    Event::from_recorded(&recorded(stream, kind, data))
}

fn round_trip(stream: &StreamName, event: &impl Serialize) -> Event {
    let NewEvent { kind, data } = encode_event(event);
    read(stream, &kind, &data).unwrap()
}

fn source_stream() -> StreamName {
    StreamName::new("upstream_source-pets")
}
fn tool_stream() -> StreamName {
    StreamName::new("source_tool-pets:get_pet")
}
fn group_stream() -> StreamName {
    StreamName::new("tool_group-readers")
}
fn policy_stream() -> StreamName {
    StreamName::new("access_policy-staff")
}
fn key_stream() -> StreamName {
    StreamName::new("api_key-ci")
}
fn label_stream() -> StreamName {
    StreamName::new("label-pii")
}

#[test]
fn source_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&source_events()), @r##"
    SourceRegistered {"profile":{"name":"Pets","settings":{"kind":"openapi"},"auth":{"kind":"none"},"trust":"auto","visibility":"listed","shrink_limit":50}}
    SourceUpdated {"profile":{"name":"Pets by MCP","description":"All our pets","url":"https://pets.example/mcp","settings":{"kind":"mcp","command":{"program":"pets-mcp","arguments":["--read-only"],"environment":{"TOKEN":"env:PETS_TOKEN"},"directory":"/srv/pets"},"lifecycle":"transient"},"auth":{"kind":"token_exchange","token_url":"https://id.example/token","client_id":"toolcrib","client_secret":"sealed:pets","scopes":["pets.read"],"audience":"pets"},"forward_headers":["x-request-id"],"trust":"review","visibility":"searchable","refresh_every":3600,"shrink_limit":20}}
    SourceDisabled {}
    SourceEnabled {}
    SourceSyncStarted {}
    SourceSyncFailed {"error":{"code":"spec_fetch_failed","message":"no answer in 30 s"}}
    SourceHealthChanged {"health":"degraded"}
    InventoryIngested {"inventory":{"inventory_hash":"9bc52d1677a576a9","fingerprint":"b11a85b296a90afc460430434a504e7acb04b064575b7277724688af0e59d189","count":2}}
    InventoryIngested {"inventory":{"inventory_hash":"9bc52d1677a576a9","fingerprint":"b11a85b296a90afc460430434a504e7acb04b064575b7277724688af0e59d189","count":2,"source_version":"1.2","warnings":[{"code":"unsupported_method","at":"/paths/~1pets/trace","message":"no TRACE"}]}}
    SourceRemoved {}
    "##);
}

#[test]
fn tool_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&tool_events()), @r##"
    ToolRegistered {"source":"pets","manifest":{"name":"ping","description":"","method":"POST","path":"/mcp/ping","input_schema":{"inline":{"type":"object"}},"execution":{"mode":"mcp_call"}},"fingerprint":"50f75a501a0796f4f74fe919c3e46ac3edd4fa0cac70827b6cb8bcbf29d7f9b6"}
    ToolRegistered {"source":"pets","manifest":{"name":"get_pet","title":"Get a pet","description":"One pet by its number","method":"GET","path":"/pets/{id}","tags":["pets","read"],"input_schema":{"inline":{"type":"object","required":["id"]}},"output_schema":{"stored":{"root":"4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2","definitions":{"Pet":"8f0d1b30eba5742686a57f8305a2b0455e7148c428fc4b36743a23b97982e6e0"}}},"execution":{"mode":"sync_http","url_template":"https://pets.example/pets/{{ id }}","headers_template":{"accept":"application/json"},"body_template":"{{ body }}","body_encoding":"json"},"deprecated":true,"security":[{"key":[]}],"extra":{"annotations":{"readOnlyHint":true}}},"fingerprint":"6663d14c7f446f65aaaac953cc2df2d8d9562fe7b735f465b353dcf8f5dd258c","awaits_review":true,"findings":[{"check":"text.control","severity":"critical","at":"/title","offset":3,"what":"has control characters"}]}
    ToolApproved {"fingerprint":"6663d14c7f446f65aaaac953cc2df2d8d9562fe7b735f465b353dcf8f5dd258c"}
    ToolInspected {"findings":[{"check":"text.control","severity":"critical","at":"/title","offset":3,"what":"has control characters"}]}
    ToolApproved {"fingerprint":"6663d14c7f446f65aaaac953cc2df2d8d9562fe7b735f465b353dcf8f5dd258c","despite_findings":true}
    ToolUpdated {"manifest":{"name":"start_report","title":"Start a report","description":"Counts all pets","method":"POST","path":"/reports","tags":["reports"],"input_schema":{"stored":{"root":"9ebf7435cb5813fbc008ea3b8c25b0c5130c06dc4d9cc6db3f7c18f95a71780c"}},"output_schema":{"inline":{"type":"object"}},"execution":{"mode":"async_poll","request":{"url_template":"https://pets.example/reports","body_encoding":"form"},"polling":{"status_url_template":"https://pets.example/reports/{{ answer.id }}","status_path":"status","completed":["done"],"failed":["failed"],"result_path":"result"}},"security":[],"extra":{"icons":[]}},"fingerprint":"6a56508bdeb3ee0b8340fa4679b89d22bfb7e4ec4c3724b08e2d38c69d79af46","changed":["name","input_schema"],"awaits_review":true,"findings":[{"check":"text.control","severity":"critical","at":"/title","offset":3,"what":"has control characters"}]}
    ToolRejected {"fingerprint":"6a56508bdeb3ee0b8340fa4679b89d22bfb7e4ec4c3724b08e2d38c69d79af46","reason":"too curious"}
    ToolUpdated {"manifest":{"name":"start_report","title":"Start a report","description":"Counts all pets","method":"POST","path":"/reports","tags":["reports"],"input_schema":{"stored":{"root":"9ebf7435cb5813fbc008ea3b8c25b0c5130c06dc4d9cc6db3f7c18f95a71780c"}},"output_schema":{"inline":{"type":"object"}},"execution":{"mode":"async_poll","request":{"url_template":"https://pets.example/reports","body_encoding":"form"},"polling":{"status_url_template":"https://pets.example/reports/{{ answer.id }}","status_path":"status","completed":["done"],"failed":["failed"],"result_path":"result"}},"security":[],"extra":{"icons":[]}},"fingerprint":"6a56508bdeb3ee0b8340fa4679b89d22bfb7e4ec4c3724b08e2d38c69d79af46","changed":[]}
    ToolDisabled {}
    ToolEnabled {}
    ToolOverridden {"override":{"name":"pet","description":"A pet","visibility":"hidden","audience":"pets","projection":"{a: b}","max_result_bytes":5000,"limit":{"per_minute":5}}}
    ToolOverridden {"override":{}}
    ToolLabelled {"labels":["beta","pii"]}
    ToolDeprecated {}
    ToolRestored {}
    ToolRemoved {}
    "##);
}

#[test]
fn group_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&group_events()), @r##"
    GroupCreated {"profile":{"name":"Pets","selector_mode":"all"}}
    GroupCreated {"profile":{"name":"Pets","selector_mode":"all"},"selectors":[{"kind":"tool"}],"tools":["pets:get_pet"],"excluded":[{"tool":"pets:drop_pet","reason":"cruel"}]}
    GroupUpdated {"profile":{"name":"Pets to read","description":"Nothing is changed","selector_mode":"any","visibility":"listed"}}
    GroupSelectorsReplaced {"selectors":[{"kind":"tool","source":"pets","name":"get_*","path":"/pets/*","method":"regex:GET|HEAD","required_tags":["read"],"excluded_tags":["internal"],"required_labels":["beta"]},{"kind":"prompt"}]}
    GroupToolsAdded {"tools":["pets:get_pet","pets:put_pet"]}
    GroupToolsRemoved {"tools":["pets:put_pet"]}
    GroupToolsExcluded {"excluded":[{"tool":"pets:get_pet","reason":"slow"},{"tool":"pets:drop_pet"}]}
    GroupToolsIncluded {"tools":["pets:get_pet"]}
    GroupDeactivated {}
    GroupActivated {}
    GroupDeleted {}
    "##);
}

#[test]
fn policy_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&policy_events()), @r##"
    PolicyDefined {"rules":{"name":"Staff","priority":0,"matchers":[{"claim":"role","operator":"equals","value":"staff"}],"groups":["pets"]}}
    PolicyUpdated {"rules":{"name":"Staff and partners","description":"All who care for pets","priority":7,"matchers":[{"claim":"realm_access.roles","operator":"contains","value":"keeper"},{"claim":"level","operator":"in","value":[1,2.5,"x"]},{"claim":"org","operator":"not_equals","value":"zoo","missing":true},{"claim":"email","operator":"matches","value":".*@pets\\.example"},{"claim":"\"https://pets.example/id\"","operator":"exists"}],"groups":["pets","reports"]}}
    PolicyDeactivated {}
    PolicyActivated {}
    PolicyDeleted {}
    "##);
}

#[test]
fn label_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&label_events()), @r##"
    LabelCreated {"profile":{"name":"PII","colour":"#808080"}}
    LabelUpdated {"profile":{"name":"Personal","description":"Sees personal data","colour":"#ff0000"}}
    LabelDeleted {}
    "##);
}

#[test]
fn key_events_are_stored_like_this() {
    insta::assert_snapshot!(stored(&key_events()), @r##"
    KeyCreated {"profile":{"name":"CI","claims":{}},"hash":"8fa3aab2faa9b79e0a0398da5b5abd0780142442a5be80b9a64608d718cb1fcd"}
    KeyUpdated {"profile":{"name":"Nightly build","description":"For CI","claims":{"team":"build"},"admin":true,"expires_at":"2027-01-01T00:00:00Z"}}
    KeyRevoked {}
    KeyDeleted {}
    "##);
}

/// The names of the variants of an enum, taken from the error message of serde for an unknown variant.
fn words<E: DeserializeOwned + Debug>(nonsense: Value) -> BTreeSet<String> {
    let complaint = serde_json::from_value::<E>(nonsense).unwrap_err().to_string();
    complaint.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

fn types<E: DeserializeOwned + Debug>() -> BTreeSet<String> {
    words::<E>(json!({"Nothing": {}}))
}

fn types_of(events: &[impl Serialize]) -> BTreeSet<String> {
    events.iter().map(|event| encode_event(event).kind.into()).collect()
}

#[test]
fn no_type_of_event_is_missing_above() {
    assert_eq!(types_of(&source_events()), types::<SourceEvent>());
    assert_eq!(types_of(&tool_events()), types::<ToolEvent>());
    assert_eq!(types_of(&group_events()), types::<GroupEvent>());
    assert_eq!(types_of(&policy_events()), types::<PolicyEvent>());
    assert_eq!(types_of(&label_events()), types::<LabelEvent>());
    assert_eq!(types_of(&key_events()), types::<ApiKeyEvent>());
}

#[test]
fn the_variant_names_inside_events_are_permanent_too() {
    let plain = || json!("nothing");
    let all = [
        ("settings", words::<model::SourceSettings>(json!({"kind": "nothing"}))),
        ("lifecycle", words::<model::Lifecycle>(plain())),
        ("isolation", words::<model::Isolation>(plain())),
        ("auth", words::<model::UpstreamAuth>(json!({"kind": "nothing"}))),
        ("location", words::<model::ApiKeyLocation>(plain())),
        ("trust", words::<model::Trust>(plain())),
        ("visibility", words::<model::Visibility>(plain())),
        ("health", words::<model::SourceHealth>(plain())),
        ("execution", words::<model::Execution>(json!({"mode": "nothing"}))),
        ("body_encoding", words::<model::BodyEncoding>(plain())),
        ("schema", words::<model::SchemaRef>(json!({"nothing": {}}))),
        ("selector_mode", words::<model::SelectorMode>(plain())),
        ("kind", words::<model::McpPrimitive>(plain())),
        ("operator", words::<model::MatchOperator>(plain())),
    ];
    let line = |(field, words): (&str, BTreeSet<String>)| {
        format!("{field}: {}\n", words.into_iter().collect::<Vec<_>>().join(" "))
    };
    insta::assert_snapshot!(all.into_iter().map(line).collect::<String>(), @r##"
    settings: builtin custom http_manifest mcp openapi workflow
    lifecycle: persistent transient
    isolation: auto per_agent shared
    auth: api_key basic bearer client_credentials mcp_enterprise mcp_oauth none token_exchange
    location: cookie header query
    trust: auto review
    visibility: hidden listed searchable
    health: degraded healthy unhealthy unknown
    execution: async_poll builtin custom mcp_call mcp_prompt mcp_resource mcp_template sync_http workflow
    body_encoding: bytes form json multipart text
    schema: inline stored
    selector_mode: all any
    kind: prompt resource tool
    operator: contains equals exists in matches not_contains not_equals not_exists not_in
    "##);
}

#[test]
fn every_kind_of_auth_round_trips() {
    let all = [
        r#"{"kind":"none"}"#,
        r#"{"kind":"api_key","location":"header","name":"x-key","value":"env:KEY"}"#,
        r#"{"kind":"basic","username":"me","password":"file:/run/secrets/password"}"#,
        r#"{"kind":"bearer","token":"sealed:pets"}"#,
        r#"{"kind":"client_credentials","token_url":"https://id.example/token","client_id":"me","client_secret":"env:S","scopes":["read"],"audience":"pets"}"#,
        r#"{"kind":"token_exchange","token_url":"https://id.example/token","client_id":"me","client_secret":"env:S","scopes":["read"],"audience":"pets"}"#,
        r#"{"kind":"mcp_oauth","issuer":"https://as.example","client_id":"me","client_secret":"env:S","client_proof":"client_secret_post","scopes":["read"]}"#,
        r#"{"kind":"mcp_enterprise","client_id":"me","client_secret":"env:S","identity_provider":{"issuer":"https://id.example","client_id":"us","client_secret":"env:P"}}"#,
    ];
    for text in all {
        let auth: model::UpstreamAuth = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&auth).unwrap(), text);
    }
}

#[test]
fn the_stream_of_an_aggregate_is_named_after_its_kind_and_id() {
    assert_eq!(StreamName::for_source(&parsed("pets")), source_stream());
    assert_eq!(StreamName::for_tool(&parsed("pets:get_pet")), tool_stream());
    assert_eq!(StreamName::for_group(&parsed("readers")), group_stream());
    assert_eq!(StreamName::for_policy(&parsed("staff")), policy_stream());
    assert_eq!(StreamName::for_label(&parsed("pii")), label_stream());
    assert_eq!(StreamName::for_api_key(&parsed("ci")), key_stream());
}

#[test]
fn events_round_trip() {
    for event in source_events() {
        assert_eq!(round_trip(&source_stream(), &event), Event::Source(parsed("pets"), event));
    }
    for event in tool_events() {
        assert_eq!(round_trip(&tool_stream(), &event), Event::Tool(parsed("pets:get_pet"), event));
    }
    for event in group_events() {
        assert_eq!(round_trip(&group_stream(), &event), Event::Group(parsed("readers"), event));
    }
    for event in policy_events() {
        assert_eq!(round_trip(&policy_stream(), &event), Event::Policy(parsed("staff"), event));
    }
    for event in label_events() {
        assert_eq!(round_trip(&label_stream(), &event), Event::Label(parsed("pii"), event));
    }
    for event in key_events() {
        assert_eq!(round_trip(&key_stream(), &event), Event::Key(parsed("ci"), event));
    }
}

#[test]
fn the_text_of_a_schema_round_trips_unchanged() {
    let data = r#"{"source":"pets","manifest":{"name":"a","description":"","method":"GET","path":"/a","input_schema":{"inline":{"b" : 1.0,  "a":1e2}},"execution":{"mode":"builtin"}},"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000"}"#;
    let Event::Tool(_, event) = read(&tool_stream(), "ToolRegistered", data).unwrap() else {
        panic!("a tool")
    };
    assert_eq!(&*encode_event(&event).data, data);
}

#[test]
fn a_tool_key_may_look_like_another_stream() {
    let stream = StreamName::new("source_tool-pets:label-x upstream_source-y");
    let event = Event::Tool(parsed("pets:label-x upstream_source-y"), ToolEvent::Enabled {});
    assert_eq!(read(&stream, "ToolEnabled", "{}").unwrap(), event);
}

#[test]
fn a_type_from_the_future_is_unknown() {
    let streams = [source_stream(), tool_stream(), group_stream(), policy_stream(), label_stream()];
    for stream in streams {
        for data in ["{}", r#"{"profile":{"name":"Pets"}}"#, "null", "[1]", "not JSON"] {
            let error = read(&stream, "SomethingNewHappened", data).unwrap_err();
            assert!(matches!(error, UnreadableEvent::UnknownType), "{stream} {data}: {error}");
        }
    }
}

#[test]
fn a_stream_from_the_future_is_unknown() {
    for name in ["budget-pets", "pets", "", "upstream_source", "Label-pii"] {
        let error = read(&StreamName::new(name), "SourceEnabled", "{}").unwrap_err();
        assert!(matches!(error, UnreadableEvent::UnknownType), "{name}: {error}");
    }
}

#[test]
fn an_event_of_another_aggregate_is_unknown() {
    let error = read(&label_stream(), "SourceEnabled", "{}").unwrap_err();
    assert!(matches!(error, UnreadableEvent::UnknownType), "{error}");
    let error = read(&source_stream(), "Enabled", "{}").unwrap_err();
    assert!(matches!(error, UnreadableEvent::UnknownType), "{error}");
}

/// The data of an event with an unknown field in every object that is not a map of names.
fn with_a_field_from_the_future(event: &impl Serialize) -> NewEvent {
    let NewEvent { kind, data } = encode_event(event);
    let mut value: Value = serde_json::from_str(&data).unwrap();
    add_field(&mut value);
    NewEvent { kind, data: value.to_string().into() }
}

fn add_field(value: &mut Value) {
    const KEPT: [&str; 6] =
        ["inline", "definitions", "headers_template", "environment", "extra", "security"];
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_field),
        Value::Object(object) => {
            let known = object.iter_mut().filter(|(key, _)| !KEPT.contains(&key.as_str()));
            known.for_each(|(_, value)| add_field(value));
            let is_choice = object.contains_key("inline") || object.contains_key("stored");
            if !is_choice {
                object.insert("from_the_future".into(), json!({"any": ["thing"]}));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn unknown_fields_are_ignored() {
    let read =
        |stream: &StreamName, event: NewEvent| read(stream, &event.kind, &event.data).unwrap();
    for event in source_events() {
        let future = with_a_field_from_the_future(&event);
        assert_eq!(read(&source_stream(), future), Event::Source(parsed("pets"), event));
    }
    for event in tool_events() {
        let future = with_a_field_from_the_future(&event);
        assert_eq!(read(&tool_stream(), future), Event::Tool(parsed("pets:get_pet"), event));
    }
    for event in group_events() {
        let future = with_a_field_from_the_future(&event);
        assert_eq!(read(&group_stream(), future), Event::Group(parsed("readers"), event));
    }
    for event in policy_events() {
        let future = with_a_field_from_the_future(&event);
        assert_eq!(read(&policy_stream(), future), Event::Policy(parsed("staff"), event));
    }
    for event in label_events() {
        let future = with_a_field_from_the_future(&event);
        assert_eq!(read(&label_stream(), future), Event::Label(parsed("pii"), event));
    }
}

/// The error for a known type with these data.
fn complaint(stream: &StreamName, kind: &str, data: &str) -> String {
    match read(stream, kind, data) {
        Err(UnreadableEvent::Data(complaint)) => complaint,
        other => panic!("{kind} {data} is bad data, not {other:?}"),
    }
}

#[test]
fn a_known_type_with_invalid_data_is_rejected() {
    let source = |kind, data| complaint(&source_stream(), kind, data);
    assert!(source("SourceRegistered", "{}").contains("missing field `profile`"));
    assert!(
        source("SourceRegistered", r#"{"profile":{"settings":{"kind":"openapi"}}}"#)
            .contains("`name`")
    );
    assert!(
        source("SourceRegistered", r#"{"profile":{"name":"P","settings":{"kind":"soap"}}}"#)
            .contains("`soap`")
    );
    assert!(source("SourceHealthChanged", r#"{"health":"splendid"}"#).contains("`splendid`"));
    assert!(source("SourceEnabled", "null").contains("null"));
    assert!(source("SourceEnabled", "not JSON").contains("expected"));
    assert!(source("SourceEnabled", "").contains("EOF"));
    let tool = |kind, data| complaint(&tool_stream(), kind, data);
    assert!(tool("ToolApproved", r#"{"fingerprint":"abc"}"#).contains("64 hexadecimal"));
    let group = |kind, data| complaint(&group_stream(), kind, data);
    assert!(group("GroupToolsAdded", r#"{"tools":["no colon"]}"#).contains("`no colon`"));
    assert!(
        group("GroupSelectorsReplaced", r#"{"selectors":[{"name":"regex:("}]}"#)
            .contains("regex:(")
    );
    let policy = |kind, data| complaint(&policy_stream(), kind, data);
    assert!(
        policy("PolicyDefined", r#"{"rules":{"name":"P","groups":["g"]}}"#).contains("everyone")
    );
    let label = |kind, data| complaint(&label_stream(), kind, data);
    assert!(
        label("LabelCreated", r#"{"profile":{"name":"PII","colour":"red"}}"#).contains("#rrggbb")
    );
}

#[test]
fn data_with_trailing_characters_are_rejected() {
    assert!(complaint(&source_stream(), "SourceEnabled", "{}{}").contains("trailing"));
    let data = r#"{"profile":{"name":"PII"}} and more"#;
    assert!(complaint(&label_stream(), "LabelCreated", data).contains("trailing"));
}

#[test]
fn an_invalid_id_is_rejected() {
    for (stream, kind) in
        [("source_tool-pets", "ToolEnabled"), ("upstream_source-Pets", "SourceEnabled")]
    {
        assert!(complaint(&StreamName::new(stream), kind, "{}").contains("is not an id"));
    }
}

/// An older event, encoded as it is stored today.
fn modernised(stream: &StreamName, kind: &str, data: &Value) -> String {
    match read(stream, kind, &data.to_string()).unwrap() {
        Event::Source(_, event) => stored(&[event]),
        Event::Tool(_, event) => stored(&[event]),
        Event::Group(_, event) => stored(&[event]),
        Event::Policy(_, event) => stored(&[event]),
        Event::Label(_, event) => stored(&[event]),
        Event::Key(_, event) => stored(&[event]),
    }
}

#[test]
fn an_older_event_without_the_optional_fields_is_read_with_their_defaults() {
    let digest = "00".repeat(32);
    let manifest = json!({
        "name": "a", "method": "GET", "path": "/a", "input_schema": {"inline": {}},
        "execution": {"mode": "sync_http", "url_template": "https://pets.example/a"},
    });
    let matcher = json!({"claim": "role", "operator": "exists"});
    let older = [
        (
            source_stream(),
            "SourceRegistered",
            json!({"profile": {"name": "P", "settings": {"kind": "mcp"}}}),
        ),
        (
            source_stream(),
            "InventoryIngested",
            json!({"inventory": {"inventory_hash": "a1", "fingerprint": digest, "count": 1}}),
        ),
        (
            tool_stream(),
            "ToolRegistered",
            json!({"source": "pets", "manifest": manifest, "fingerprint": digest}),
        ),
        (
            tool_stream(),
            "ToolUpdated",
            json!({"manifest": manifest, "fingerprint": digest, "changed": ["name"]}),
        ),
        (tool_stream(), "ToolOverridden", json!({"override": {}})),
        (group_stream(), "GroupCreated", json!({"profile": {"name": "G"}})),
        (group_stream(), "GroupSelectorsReplaced", json!({"selectors": [{}]})),
        (group_stream(), "GroupToolsExcluded", json!({"excluded": [{"tool": "pets:a"}]})),
        (
            policy_stream(),
            "PolicyDefined",
            json!({"rules": {"name": "P", "matchers": [matcher], "groups": ["g"]}}),
        ),
        (label_stream(), "LabelCreated", json!({"profile": {"name": "L"}})),
    ];
    let today: String =
        older.iter().map(|(stream, kind, data)| modernised(stream, kind, data)).collect();
    insta::assert_snapshot!(today, @r##"
    SourceRegistered {"profile":{"name":"P","settings":{"kind":"mcp","lifecycle":"persistent"},"auth":{"kind":"none"},"trust":"auto","visibility":"listed","shrink_limit":50}}
    InventoryIngested {"inventory":{"inventory_hash":"a1","fingerprint":"0000000000000000000000000000000000000000000000000000000000000000","count":1}}
    ToolRegistered {"source":"pets","manifest":{"name":"a","description":"","method":"GET","path":"/a","input_schema":{"inline":{}},"execution":{"mode":"sync_http","url_template":"https://pets.example/a","body_encoding":"json"}},"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000"}
    ToolUpdated {"manifest":{"name":"a","description":"","method":"GET","path":"/a","input_schema":{"inline":{}},"execution":{"mode":"sync_http","url_template":"https://pets.example/a","body_encoding":"json"}},"fingerprint":"0000000000000000000000000000000000000000000000000000000000000000","changed":["name"]}
    ToolOverridden {"override":{}}
    GroupCreated {"profile":{"name":"G","selector_mode":"all"}}
    GroupSelectorsReplaced {"selectors":[{"kind":"tool"}]}
    GroupToolsExcluded {"excluded":[{"tool":"pets:a"}]}
    PolicyDefined {"rules":{"name":"P","priority":0,"matchers":[{"claim":"role","operator":"exists"}],"groups":["g"]}}
    LabelCreated {"profile":{"name":"L","colour":"#808080"}}
    "##);
}
