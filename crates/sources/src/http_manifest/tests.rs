//! Tests of http manifests: each entry becomes a tool or a warning, and no entry makes the discovery fail.

use proptest::prelude::*;

use super::*;

fn discovered(document: &Value) -> Inventory {
    discover_http_manifest("travel".parse().unwrap(), None, document).unwrap().inventory
}

/// The manifest of the only tool, as events store it.
fn only_tool(entry: Value) -> Value {
    let inventory = discovered(&json!([entry]));
    assert_eq!(inventory.tools.len(), 1, "{:?}", inventory.warnings);
    let tool = inventory.tools.values().next().unwrap();
    serde_json::to_value(&*tool.manifest).unwrap()
}

/// Code, location and message of each warning, one per line.
fn warnings(document: Value) -> String {
    let line = |w: &DiscoveryWarning| format!("{} {} {}", w.code, w.at, w.message);
    discovered(&document).warnings.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The warning of an omitted entry: its code and its field.
fn left_out(entry: Value) -> (String, String) {
    let inventory = discovered(&json!([entry]));
    assert!(inventory.tools.is_empty(), "{:?}", inventory.tools);
    let [warning] = &inventory.warnings[..] else { panic!("{:?}", inventory.warnings) };
    let member = warning.at.strip_prefix("/0").unwrap();
    (warning.code.to_string(), member.to_owned())
}

#[test]
fn a_complete_entry_becomes_a_manifest() {
    let manifest = only_tool(json!({
        "name": "get_weather_forecast",
        "title": "Weather forecast",
        "description": "Get weather forecast",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
        "outputSchema": {"type": "object"},
        "endpoint": "/weather",
        "method": "get",
        "annotations": {"readOnlyHint": true},
        "tags": ["weather"],
    }));
    insta::assert_snapshot!(serde_json::to_string_pretty(&manifest).unwrap(), @r#"
    {
      "name": "get_weather_forecast",
      "title": "Weather forecast",
      "description": "Get weather forecast",
      "method": "GET",
      "path": "/weather",
      "input_schema": {
        "inline": {
          "type": "object",
          "properties": {
            "city": {
              "type": "string"
            }
          }
        }
      },
      "output_schema": {
        "inline": {
          "type": "object"
        }
      },
      "execution": {
        "mode": "sync_http",
        "url_template": "/weather{{ query(form(\"city\", args[\"city\"])) }}",
        "body_encoding": "json"
      },
      "extra": {
        "annotations": {
          "readOnlyHint": true
        },
        "tags": [
          "weather"
        ]
      }
    }
    "#);
}

#[test]
fn a_bare_list_and_an_object_with_tools_are_equivalent() {
    let tools = json!([{"name": "a", "endpoint": "/a"}, {"name": "b", "endpoint": "/b"}]);
    let (bare, wrapped) = (discovered(&tools), discovered(&json!({"tools": tools, "version": 1})));
    assert_eq!(bare.fingerprint, wrapped.fingerprint);
    let ids: Vec<&str> = bare.tools.keys().map(ToolId::as_str).collect();
    assert_eq!(ids, ["travel:a", "travel:b"]);
    assert!(bare.warnings.is_empty());
}

#[test]
fn a_document_of_another_shape_is_an_error_that_names_the_expected_shape() {
    let error = |document: Value| {
        discover_http_manifest("travel".parse().unwrap(), None, &document).unwrap_err().to_string()
    };
    assert_eq!(
        error(json!({"error": "not found"})),
        "this is not an http manifest: expected `{\"tools\": […]}` or a list of tools, found an object without `tools`"
    );
    for document in [json!(null), json!("tools"), json!(1), json!({"tools": {}})] {
        assert!(error(document).contains("expected"));
    }
}

#[test]
fn an_empty_list_is_an_empty_inventory() {
    assert!(discovered(&json!({"tools": []})).tools.is_empty());
}

#[test]
fn a_missing_endpoint_is_assumed_by_convention_with_a_warning() {
    let manifest = only_tool(json!({"name": "get_weather_forecast"}));
    assert_eq!(manifest["path"], "/weather-forecast");
    assert_eq!(manifest["method"], "POST");
    assert_eq!(manifest["execution"]["url_template"], "/weather-forecast");
    assert_eq!(manifest["input_schema"], json!({"inline": {"type": "object"}}));
    assert_eq!(only_tool(json!({"name": "forget_me"}))["path"], "/forget-me");
    assert_eq!(only_tool(json!({"name": "get_a", "method": "GET"}))["method"], "GET");
    assert_eq!(
        warnings(json!({"tools": [{"name": "get_weather_forecast", "endpoint": null}]})),
        "endpoint_assumed /tools/0 the tool `get_weather_forecast` has no endpoint: `POST /weather-forecast` is assumed"
    );
}

#[test]
fn unusable_entries_are_omitted_with_a_warning_that_names_them() {
    let document = json!({"tools": [
        {"name": "good", "endpoint": "/good"},
        {"endpoint": "/nameless"},
        {"name": "good", "endpoint": "/again"},
        {"name": "listed", "endpoint": "/listed", "inputSchema": []},
        {"name": "fetch", "endpoint": "/fetch", "method": "FETCH"},
        {"name": "by_id", "endpoint": "/pets/{id}"},
        7,
    ]});
    assert_eq!(discovered(&document).tools.len(), 1);
    insta::assert_snapshot!(warnings(document), @"
    missing_name /tools/1 the tool at `/tools/1` is left out: it has no name
    duplicate_name /tools/2/name the tool `good` is left out: another tool has this name
    invalid_schema /tools/3/inputSchema the tool `listed` is left out: its `inputSchema` is not an object
    invalid_method /tools/4/method the tool `fetch` is left out: its method `FETCH` is none of DELETE, GET, PATCH, POST, PUT
    template_in_endpoint /tools/5/endpoint the tool `by_id` is left out: its endpoint `/pets/{id}` has one of the template characters `{`, `}` and `%`
    invalid_entry /tools/6 the tool at `/tools/6` is left out: it is not an object
    ");
}

#[test]
fn a_field_of_the_wrong_type_is_reported() {
    let with = |member: &str, value: Value| {
        let mut entry = json!({"name": "a", "endpoint": "/a"});
        entry[member] = value;
        left_out(entry)
    };
    for member in ["name", "title", "description", "endpoint", "method"] {
        assert_eq!(with(member, json!(7)), ("invalid_member".into(), format!("/{member}")));
    }
    for member in ["inputSchema", "outputSchema"] {
        assert_eq!(with(member, json!(true)), ("invalid_schema".into(), format!("/{member}")));
    }
    for name in ["", "a\nb", &"x".repeat(600)] {
        assert_eq!(with("name", json!(name)).0, "invalid_name");
    }
    assert_eq!(with("name", json!(null)).0, "missing_name");
    for method in ["", "HEAD", "GET "] {
        assert_eq!(with("method", json!(method)).0, "invalid_method");
    }
}

#[test]
fn an_endpoint_is_a_path_below_the_source_and_never_template_code() {
    let path = |endpoint: &str| {
        only_tool(json!({"name": "a", "endpoint": endpoint}))["path"].as_str().unwrap().to_owned()
    };
    assert_eq!(path("/a/b.c"), "/a/b.c");
    assert_eq!(path("a"), "/a");
    assert_eq!(path("/"), "/");
    assert_eq!(path("/a?unit=c&to=http://x"), "/a?unit=c&to=http://x");
    let code = |endpoint: &str| left_out(json!({"name": "a", "endpoint": endpoint})).0;
    for endpoint in ["/{{ secret }}", "/{% raw %}", "/{# x #}", "/a}", "/%2e%2e/admin"] {
        assert_eq!(code(endpoint), "template_in_endpoint", "{endpoint}");
    }
    for endpoint in [
        "",
        "?a",
        "ftp://travel.test/a",
        "//evil.example/a",
        "/\\evil.example",
        "/a/../b",
        "..",
        "/./a",
        "/.\t./a",
        "/a b",
        "/a#b",
        "/a\r\nHost: x",
    ] {
        assert_eq!(code(endpoint), "invalid_endpoint", "{endpoint}");
    }
    assert_eq!(left_out(json!({"name": "get_"})).0, "invalid_endpoint");
    assert_eq!(left_out(json!({"name": ".."})).0, "invalid_endpoint");
    assert_eq!(left_out(json!({"name": "{{7*7}}"})).0, "template_in_endpoint");
}

#[test]
fn an_absolute_url_is_accepted_below_the_url_of_the_source() {
    let of = |base: &str, endpoint: &str| {
        let (base, document) =
            (base.parse().unwrap(), json!([{"name": "a", "endpoint": endpoint}]));
        let found =
            discover_http_manifest("travel".parse().unwrap(), Some(&base), &document).unwrap();
        match found.inventory.tools.values().next() {
            Some(tool) => tool.manifest.path.to_string(),
            None => found.inventory.warnings[0].code.to_string(),
        }
    };
    let base = "https://travel.test/api/?key=1";
    assert_eq!(of(base, "https://travel.test/api/a?unit=c"), "/a?unit=c");
    assert_eq!(of(base, "HTTPS://Travel.Test:443/api/a"), "/a");
    assert_eq!(of("https://travel.test", "https://travel.test/"), "/");
    for endpoint in [
        "https://evil.example/api/a",
        "https://travel.test.evil.example/api/a",
        "https://travel.test@evil.example/api/a",
        "https://user:word@travel.test/api/a",
        "https://travel.test:8443/api/a",
        "http://travel.test/api/a",
        "https://travel.test/apis/a",
        "https://travel.test/api",
        "https://travel.test/api/../admin",
        "https://travel.test/api/%2e%2e/admin",
        "https:///",
        "https://[::1",
    ] {
        assert_eq!(of(base, endpoint), "foreign_endpoint", "{endpoint}");
    }
    // The same rules apply to a URL after the parser has normalized it.
    assert_eq!(of(base, "https://travel.test/api/{{ 7 }}"), "template_in_endpoint");
    assert_eq!(of(base, "https://travel.test/api/a#b"), "invalid_endpoint");
    // Without a url of the source, no absolute URL is below it.
    assert_eq!(
        left_out(json!({"name": "a", "endpoint": "https://a.test/a"})).0,
        "foreign_endpoint"
    );
}

#[test]
fn a_schema_that_accepts_no_object_omits_the_tool() {
    let with = |schema: Value| json!({"name": "a", "endpoint": "/a", "inputSchema": schema});
    for schema in
        [json!({"type": "string"}), json!({"type": ["array", "null"]}), json!({"type": 7})]
    {
        assert_eq!(left_out(with(schema)), ("invalid_schema".into(), "/inputSchema".into()));
    }
    for schema in [json!({}), json!({"type": ["object", "null"]}), json!({"properties": {}})] {
        only_tool(with(schema));
    }
}

#[test]
fn the_key_is_the_name_as_written() {
    // A name that models do not accept is adapted where agents see it; the key keeps the source's spelling.
    for name in ["my tool", "wetter·heute", " padded ", "a:b", "tool_search", &"x".repeat(400)] {
        let manifest = only_tool(json!({"name": name, "endpoint": "/a"}));
        assert_eq!(manifest["name"], *name);
    }
    // Names that differ only in case are different tools.
    let inventory =
        discovered(&json!([{"name": "a", "endpoint": "/1"}, {"name": "A", "endpoint": "/2"}]));
    assert_eq!(inventory.tools.len(), 2);
}

#[test]
fn a_hundred_thousand_entries_are_tools_or_warnings() {
    let entry = |number: usize| match number % 4 {
        0 => json!({"name": format!("tool_{number}"), "endpoint": format!("/tools/{number}")}),
        1 => json!({"name": "same", "endpoint": "/same"}),
        2 => json!({"endpoint": "/nameless"}),
        _ => json!(number),
    };
    let inventory = discovered(&Value::Array((0..100_000).map(entry).collect()));
    assert_eq!((inventory.tools.len(), inventory.warnings.len()), (25_001, 74_999));
}

#[test]
fn an_omitted_entry_does_not_reserve_its_name() {
    let document = json!([
        {"name": "a", "endpoint": "/{bad}"}, {"name": "a", "endpoint": "/good"},
    ]);
    let inventory = discovered(&document);
    assert_eq!(&*inventory.tools.values().next().unwrap().manifest.path, "/good");
    assert_eq!(inventory.warnings.len(), 1);
}

#[test]
fn a_warning_contains_a_short_excerpt_without_invisible_characters() {
    let name = format!("\u{1b}[31m\u{202e}{}", "x".repeat(1000));
    let warnings = warnings(json!([{ "name": name }]));
    assert!(warnings.len() < 300, "{warnings}");
    assert!(warnings.contains(r"\u{1b}[31m\u{202e}xxx"), "{warnings}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        prop::sample::select(vec!["a", "b_c", "get_a", "/a", "/{a}", "..", "GET", "post", ""])
            .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let member = prop::sample::select([&KNOWN_FIELDS[..], &["tags", "type"]].concat());
        let object = prop::collection::vec((member, inner.clone()), 0..6)
            .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
        prop_oneof![prop::collection::vec(inner, 0..4).prop_map(Value::Array), object]
    })
}

proptest! {
    #[test]
    fn every_entry_is_a_tool_or_a_warning(entries in prop::collection::vec(any_json(), 0..6)) {
        let inventory = discovered(&json!({ "tools": entries }));
        // These warnings concern entries that still become tools.
        let of_tools = ["endpoint_assumed", "polling_dropped"];
        let left_out = inventory.warnings.iter().filter(|w| !of_tools.contains(&&*w.code)).count();
        prop_assert_eq!(inventory.tools.len() + left_out, entries.len());
    }

    #[test]
    fn no_endpoint_becomes_template_code(endpoint in "[/a{}%#?.\\\\ \\PC]{0,8}") {
        let inventory = discovered(&json!([{"name": "a", "endpoint": endpoint}]));
        for tool in inventory.tools.values() {
            let Execution::SyncHttp(request) = &tool.manifest.execution else { panic!("not http") };
            prop_assert!(request.url_template.starts_with('/'));
            prop_assert!(!request.url_template.starts_with("//"));
            let has_code = request.url_template.contains(['{', '%']);
            prop_assert!(!has_code);
        }
    }
}

#[test]
fn polling_is_read_from_the_entry() {
    let base = "https://travel.test/api".parse().unwrap();
    let found = |polling: Value| {
        let entry = json!({"name": "book", "endpoint": "/book", "polling": polling,
            "outputSchema": {"type": "object"}});
        discover_http_manifest("travel".parse().unwrap(), Some(&base), &json!([entry]))
            .unwrap()
            .inventory
    };
    let good = json!({"status_url": "/trips/{answer.id}", "status_path": "s", "completed": ["ok"]});
    let inventory = found(good);
    assert_eq!(inventory.warnings, []);
    let tool = inventory.tools.values().next().unwrap();
    let Execution::AsyncPoll { polling, .. } = &tool.manifest.execution else { panic!("{tool:?}") };
    let expected = r#"https://travel.test/api/trips/{{ answer["id"] }}"#;
    assert_eq!(&*polling.status_url_template, expected);
    assert!(tool.manifest.output_schema.is_some() && tool.manifest.extra.is_empty());
    let elsewhere =
        json!({"status_url": "https://evil.test/", "status_path": "s", "completed": ["ok"]});
    let inventory = found(elsewhere);
    let [warning] = &inventory.warnings[..] else { panic!("{:?}", inventory.warnings) };
    assert_eq!((&*warning.code, &*warning.at), ("polling_dropped", "/0/polling"));
    let tool = inventory.tools.values().next().unwrap();
    assert!(matches!(tool.manifest.execution, Execution::SyncHttp(_)));
}
