//! Tool lists: the same tools in both generations; pagination, group endpoints and search mode.

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, ERAS, grant, key, names, tampered};
use crate::api::calls::Shop;
use crate::api::server::Server;
use crate::api::sources::specification;

/// Server with this many tools, granted to the role `staff`.
fn with_tools(count: usize) -> (Server, String) {
    let server = Server::start();
    let names: Vec<String> = (0..count).map(|number| format!("tool{number:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let settings = json!({"kind": "openapi", "specification": {"text": specification(&names)}});
    server.post("/api/sources", &json!({"name": "many", "settings": settings})).ok();
    server.wait_for("/api/sources/many", |source| !source["inventory"].is_null());
    let group = json!({"name": "many", "selectors": [{"source": "many"}]});
    server.post("/api/groups", &group).ok();
    grant(&server, "staff", "many");
    let key = key(&server, "bot", &json!({"role": "staff"}));
    (server, key)
}

#[test]
fn both_generations_list_the_tools_of_the_agent() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let modern = client.result(Modern, "tools/list", json!({}));
    let legacy = client.result(Legacy, "tools/list", json!({}));
    assert_eq!(names(&modern), "add_pet break_pet get_pet");
    assert_eq!(modern["tools"], legacy["tools"]);
    let tool = &modern["tools"][2];
    assert_eq!(tool["description"], "One pet");
    assert_eq!(tool["inputSchema"]["required"], json!(["id"]));
    // The legacy generation has no fields beside the list.
    assert_eq!(legacy.as_object().unwrap().len(), 1);
    assert_eq!((&modern["resultType"], &modern["ttlMs"]), (&json!("complete"), &json!(0)));
    assert_eq!(modern["cacheScope"], "private");
    let server = &modern["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(server["name"], "toolcrib");
    for (era, method) in [Modern, Legacy].into_iter().zip(["tools/list"; 2]) {
        let answer = client.send(era, method, json!({}));
        assert_eq!(answer.header("cache-control"), "private, no-store");
        assert_eq!(answer.header("vary"), "Authorization");
    }
}

#[test]
fn an_agent_without_grants_has_an_empty_list() {
    let shop = Shop::open();
    let guest = key(&shop.server, "guest", &json!({"role": "guest"}));
    for (era, credential) in ERAS.into_iter().zip([&guest, &shop.server.key]) {
        let client = Client::new(&shop.server, credential);
        assert_eq!(client.result(era, "tools/list", json!({}))["tools"], json!([]));
        // The server does not announce these primitives either.
        for method in ["prompts", "resources", "resources/templates"] {
            let (_, code, _) = client.error_of(era, &format!("{method}/list"), json!({}));
            assert_eq!(code, -32601, "{method}");
        }
    }
}

#[test]
fn a_long_list_is_paginated_without_gaps() {
    let (server, key) = with_tools(2_500);
    let client = Client::new(&server, &key);
    for era in ERAS {
        let (mut seen, mut lengths, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let page = client.result(era, "tools/list", params);
            let listed = page["tools"].as_array().unwrap();
            lengths.push(listed.len());
            seen.extend(listed.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            if era == Modern {
                assert_eq!((&page["cacheScope"], &page["ttlMs"]), (&json!("private"), &json!(0)));
            }
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => break,
            }
        }
        assert_eq!(lengths, [1_000, 1_000, 500]);
        let expected: Vec<String> = (0..2_500).map(|number| format!("tool{number:05}")).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn a_cursor_is_valid_for_one_list_of_one_agent() {
    let (server, staff) = with_tools(1_001);
    let other = key(&server, "other", &json!({"role": "staff"}));
    let client = Client::new(&server, &staff);
    let first = client.result(Modern, "tools/list", json!({}));
    let cursor = first["nextCursor"].as_str().unwrap();
    // The agent may reuse its cursor, in either generation.
    for era in [Modern, Legacy, Modern] {
        let page = client.result(era, "tools/list", json!({"cursor": cursor}));
        assert_eq!(names(&page), "tool01000");
    }
    let changed = tampered(cursor);
    let mut cut = cursor.to_owned();
    cut.pop();
    let twice = format!("{cursor}{cursor}");
    let strange = [
        json!(""),
        json!("1000"),
        json!("tool00999"),
        json!("eyJvZmZzZXQiOjEwMDB9"),
        json!(changed),
        json!(cut),
        json!(twice),
        json!("ü"),
        json!("A".repeat(10_000)),
        json!(7),
        json!({}),
        json!([cursor]),
    ];
    let expected = (200, -32602, "the cursor is none of ours: begin without one".to_owned());
    for era in ERAS {
        for strange in &strange {
            let found = client.error_of(era, "tools/list", json!({"cursor": strange}));
            assert_eq!(found, expected, "{strange}");
        }
        let foreign = Client::new(&server, &other);
        let found = foreign.error_of(era, "tools/list", json!({"cursor": cursor}));
        assert_eq!(found, expected);
    }
    // A cursor of null means the beginning.
    let page = client.result(Legacy, "tools/list", json!({"cursor": null}));
    assert_eq!(page["tools"].as_array().unwrap().len(), 1_000);
}

#[test]
fn search_mode_lists_the_search_tools_instead() {
    let shop = Shop::open();
    let at = |path: &'static str| Client::new(&shop.server, &shop.key).at_path(path);
    for era in ERAS {
        assert_eq!(at("/mcp?mode=list").tools(era), "add_pet break_pet get_pet");
        assert_eq!(at("/mcp?mode=auto").tools(era), "add_pet break_pet get_pet");
        assert_eq!(at("/mcp?mode=search").tools(era), "tool_search execute_tool");
        assert_eq!(at("/mcp/all?mode=search").tools(era), "tool_search execute_tool");
        let found = at("/mcp?mode=search").call(era, "tool_search", json!({"query": "one pet"}));
        let hit = &found["structuredContent"]["tools"][0];
        assert_eq!((&hit["name"], &found["isError"]), (&json!("get_pet"), &json!(false)));
        // Without search mode there is no search tool.
        let missing = at("/mcp").error_of(era, "tools/call", json!({"name": "tool_search"}));
        assert_eq!(missing, (200, -32602, "Tool not found: tool_search".to_owned()));
        for query in ["mode=all", "mode=", "Mode=search", "mode=list&mode=search"] {
            let path = format!("/mcp?{query}");
            let client = Client::new(&shop.server, &shop.key).at_path(&path);
            let problem = client.send(era, "tools/list", json!({})).problem();
            assert!(problem.starts_with("422 validation_error"), "{query}: {problem}");
        }
    }
    let (server, key) = with_tools(1_001);
    let client = Client::new(&server, &key).at_path("/mcp?mode=auto");
    for era in ERAS {
        assert_eq!(client.tools(era), "tool_search execute_tool");
    }
}

#[test]
fn a_group_has_its_own_endpoint() {
    let shop = Shop::open();
    let one = json!({"name": "one", "tools": ["pets:get_pet"]});
    shop.server.post("/api/groups", &one).ok();
    grant(&shop.server, "staff", "one");
    for era in ERAS {
        let client = Client::new(&shop.server, &shop.key).at_path("/mcp/one");
        assert_eq!(client.tools(era), "get_pet");
        assert_eq!(client.call(era, "get_pet", json!({"id": 7}))["isError"], false);
        // The agent has this tool, but not at this endpoint.
        let elsewhere = client.error_of(era, "tools/call", json!({"name": "break_pet"}));
        assert_eq!(elsewhere, (200, -32602, "Tool not found: break_pet".to_owned()));
        assert_eq!(
            Client::new(&shop.server, &shop.key).at_path("/mcp/all").tools(era),
            "add_pet break_pet get_pet"
        );
    }
}

#[test]
fn an_ungranted_group_is_not_found() {
    let shop = Shop::open();
    shop.server.post("/api/groups", &json!({"name": "other", "tools": ["pets:get_pet"]})).ok();
    shop.server.post("/api/groups", &json!({"name": "idle", "tools": ["pets:get_pet"]})).ok();
    grant(&shop.server, "staff", "idle");
    shop.server.post_empty("/api/groups/idle/deactivate").ok();
    let is_missing = |credential: &str, path: &str| {
        let client = Client::new(&shop.server, credential).at_path(path);
        for era in ERAS {
            for method in ["tools/list", "initialize", "server/discover", "subscriptions/listen"] {
                let answer = client.send(era, method, initialize_params_and_filter());
                assert!(answer.problem().starts_with("404 not_found: "), "{path}: {answer:?}");
                assert!(answer.header("mcp-session-id").is_empty());
            }
        }
        for method in ["GET", "DELETE"] {
            let ask = client.request_without_body(method).header("Accept", "text/event-stream");
            let answer = shop.server.send(&ask);
            assert!(answer.problem().starts_with("404 not_found: "), "{path}: {answer:?}");
        }
    };
    for path in [
        "/mcp/other",
        "/mcp/idle",
        "/mcp/nothing",
        "/mcp/Not%20An%20Id",
        "/mcp/%FF",
        "/mcp/",
        "/mcp//",
        "/mcp/all/",
        "/mcp/all/more",
        "/mcp/ALL",
        "/mcp/all%2F",
        "/mcp/%2e%2e",
        "/mcp/all%00",
    ] {
        is_missing(&shop.key, path);
    }
    is_missing(&shop.server.key, "/mcp/all");
    let words = |group: &str| {
        let path = format!("/mcp/{group}");
        let client = Client::new(&shop.server, &shop.key).at_path(&path);
        client.send(Modern, "tools/list", json!({})).problem().replace(group, "GROUP")
    };
    assert_eq!(words("other"), words("nothing"));
    assert_eq!(words("other"), words("idle"));
}

fn initialize_params_and_filter() -> Value {
    let mut params = super::initialize_params();
    params["notifications"] = json!({"toolsListChanged": true});
    params
}
