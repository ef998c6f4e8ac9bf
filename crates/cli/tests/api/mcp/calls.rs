//! Calls and all other methods: their results, and the code and status of each error.

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, ERAS, Era, error_of_answer, key, meta, request, with_mirrored_headers};
use crate::api::calls::Shop;
use crate::api::server::{Ask, Server};
use crate::api::shaping;

fn missing(name: &str) -> (u16, i64, String) {
    (200, -32602, format!("Tool not found: {name}"))
}

#[test]
fn both_generations_call_a_tool() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    for (number, era) in ERAS.into_iter().enumerate() {
        let result = client.call(era, "get_pet", json!({"id": number}));
        assert_eq!(result["structuredContent"], json!({"name": "Rex"}));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({"name": "Rex"}));
        assert_eq!(result.get("resultType").is_some(), era == Modern);
        let failed = client.call(era, "break_pet", json!({}));
        assert_eq!(failed["isError"], true);
        assert!(failed["content"][0]["text"].as_str().unwrap().contains("out of pets"));
        assert_eq!(failed["_meta"]["toolcrib/code"], "upstream_error");
        assert_eq!(result["_meta"].get("toolcrib/code"), None);
    }
    let asked = shop.upstream.requests();
    let targets: Vec<&str> = asked.iter().map(|request| request.lines().next().unwrap()).collect();
    assert_eq!(
        targets,
        [
            "GET /pets/0 HTTP/1.1",
            "GET /broken HTTP/1.1",
            "GET /pets/1 HTTP/1.1",
            "GET /broken HTTP/1.1"
        ]
    );
    // Nothing about the caller or its protocol is sent upstream.
    assert!(asked.iter().all(|request| {
        let request = request.to_lowercase();
        !request.contains("authorization") && !request.contains("mcp-")
    }));
}

#[test]
fn an_open_circuit_has_the_same_code_and_retry_time_as_over_rest() {
    let shop = Shop::open();
    for _ in 0..5 {
        shop.call(json!({"name": "break_pet"})).ok();
    }
    let rest = shop.call(json!({"name": "get_pet", "arguments": {"id": 7}}));
    assert!(rest.problem().starts_with("503 circuit_open"), "{rest:?}");
    let client = Client::new(&shop.server, &shop.key);
    for era in ERAS {
        let refused = client.call(era, "get_pet", json!({"id": 7}));
        let meta = &refused["_meta"];
        assert_eq!(
            (&refused["isError"], &meta["toolcrib/code"]),
            (&json!(true), &json!("circuit_open"))
        );
        assert!((1..=31).contains(&meta["toolcrib/retry_after"].as_u64().unwrap()), "{meta}");
    }
}

#[test]
fn invalid_arguments_are_a_tool_error_and_not_sent() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    for era in ERAS {
        for arguments in [
            json!({}),
            json!({"id": "7"}),
            json!({"id": 7.5}),
            json!({"id": null}),
            json!({"id": 7, "__proto__": {"admin": true}}),
            json!({"id": 7, "constructor": 1}),
            json!({"id": [7]}),
        ] {
            let result = client.call(era, "get_pet", arguments.clone());
            assert_eq!(result["isError"], true, "{arguments}: {result}");
            assert_eq!(result["_meta"]["toolcrib/code"], "validation_error");
        }
        for arguments in [json!(7), json!("{}"), json!([]), json!(true)] {
            let params = json!({"name": "get_pet", "arguments": arguments});
            let found = client.error_of(era, "tools/call", params);
            assert_eq!(found, (200, -32602, "`arguments` must be an object".to_owned()));
        }
    }
    assert!(shop.upstream.requests().is_empty());
}

#[test]
fn an_ungranted_tool_is_not_found() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let guest = key(&shop.server, "guest", &json!({"role": "guest"}));
    let guest = Client::new(&shop.server, &guest);
    for era in ERAS {
        for name in [
            "delete_pet",
            "no_pet",
            "pets__delete_pet",
            "pets:delete_pet",
            "GET_PET",
            "get_pet ",
            " get_pet",
            "get_pet\n",
            "get_pet\0",
            "get_pet\u{200b}",
            "gеt_pet",
            "get_pet/",
            "../get_pet",
            "execute_tool",
            "",
        ] {
            let params = json!({"name": name, "arguments": {"id": 7}});
            assert_eq!(client.error_of(era, "tools/call", params), missing(name));
        }
        // Without a grant, no tool is found.
        for name in ["get_pet", "pets:get_pet", "tool_search", "no_pet"] {
            assert_eq!(guest.error_of(era, "tools/call", json!({"name": name})), missing(name));
        }
        let name = "x".repeat(20_000);
        assert_eq!(client.error_of(era, "tools/call", json!({"name": name})).1, -32602);
    }
    assert!(shop.upstream.requests().is_empty());
}

#[test]
fn a_searched_tool_is_called_once_and_by_its_own_name() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key).at_path("/mcp?mode=search");
    for era in ERAS {
        let execute = |arguments: Value| client.call(era, "execute_tool", arguments);
        let done = execute(json!({"name": "get_pet", "arguments": {"id": 7}}));
        assert_eq!(done["structuredContent"], json!({"name": "Rex"}));
        for name in ["delete_pet", "no_pet", "pets:delete_pet", "get_pet ", "Get_pet"] {
            let text = execute(json!({"name": name, "arguments": {"id": 7}}));
            assert_eq!(text["isError"], true);
            assert_eq!(text["content"][0]["text"], format!("Tool not found: {name}"));
            assert_eq!(text["_meta"]["toolcrib/code"], "not_granted");
        }
        for name in ["execute_tool", "tool_search"] {
            assert_eq!(execute(json!({"name": name, "arguments": {}}))["isError"], true, "{name}");
        }
        let nested = (0..50).fold(
            json!({"name": "get_pet", "arguments": {"id": 7}}),
            |inner, _| json!({"name": "execute_tool", "arguments": inner}),
        );
        assert_eq!(execute(nested)["isError"], true);
        let hits = client.call(era, "tool_search", json!({"query": "", "max_results": 100}));
        let hits = hits["structuredContent"]["tools"].as_array().unwrap();
        assert!(hits.iter().all(|hit| hit["name"] != "delete_pet"), "{hits:?}");
    }
    assert_eq!(shop.upstream.requests().len(), 2);
}

#[test]
fn a_server_announces_exactly_its_capabilities() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let discovered = client.result(Modern, "server/discover", json!({}));
    // `resources` is announced because the rest of a truncated result is a resource.
    let resources = json!({"listChanged": true});
    let capabilities =
        json!({"tools": {"listChanged": true}, "logging": {}, "resources": resources});
    assert_eq!(discovered["capabilities"], capabilities);
    assert_eq!(discovered["supportedVersions"][0], "2026-07-28");
    assert_eq!((&discovered["cacheScope"], &discovered["ttlMs"]), (&json!("private"), &json!(0)));
    let introduced = client.result(Legacy, "initialize", super::initialize_params());
    assert_eq!(introduced["capabilities"], capabilities);
    assert_eq!(introduced["serverInfo"]["name"], "toolcrib");
    assert_eq!(client.result(Modern, "resources/list", json!({}))["resources"], json!([]));
    // A caller without tools has no results that could be truncated.
    let nobody = Client::new(&shop.server, &shop.server.key);
    let discovered = nobody.result(Modern, "server/discover", json!({}));
    let capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
    assert_eq!(discovered["capabilities"], capabilities);
}

#[test]
fn unknown_methods_get_the_error_of_their_generation() {
    let server = Server::start();
    let client = Client::new(&server, &server.key);
    let refused = |era: Era, method: &str| {
        let (status, code, text) = client.error_of(era, method, json!({}));
        assert!(text.contains(&format!("`{method}`")), "{text}");
        (status, code)
    };
    let of_both = ["unknown/method", "", "tools", "Tools/List", "tools/list ", "rpc.discover"];
    for method in of_both {
        assert_eq!(refused(Modern, method), (404, -32601), "{method}");
        assert_eq!(refused(Legacy, method), (200, -32601), "{method}");
    }
    for method in
        ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
    {
        assert_eq!(refused(Modern, method), (404, -32601), "{method}");
    }
    for method in ["server/discover", "subscriptions/listen", "tasks/get", "tasks/list"] {
        assert_eq!(refused(Legacy, method), (200, -32601), "{method}");
    }
    assert_eq!(client.result(Legacy, "ping", json!({})), json!({}));
}

#[test]
fn invalid_parameters_have_a_code() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    for (method, params, modern, legacy) in [
        ("tools/call", json!({}), (400, -32020), (200, -32602)),
        ("tools/call", json!({"name": 7}), (400, -32020), (200, -32602)),
        ("prompts/get", json!({"name": "none"}), (200, -32602), (200, -32602)),
        ("resources/read", json!({"uri": "file:///etc/passwd"}), (200, -32602), (200, -32002)),
        ("resources/read", json!({"uri": "..%2f..%2fetc"}), (200, -32602), (200, -32002)),
        ("resources/read", json!({"uri": ""}), (200, -32602), (200, -32002)),
        ("completion/complete", json!({}), (200, -32602), (200, -32602)),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
            (200, -32602),
            (200, -32602),
        ),
    ] {
        for (era, expected) in [(Modern, modern), (Legacy, legacy)] {
            let (status, code, text) = client.error_of(era, method, params.clone());
            assert_eq!((status, code), expected, "{era:?} {method} {params}: {text}");
        }
    }
    let long = json!({"uri": "x".repeat(1 << 20)});
    assert_eq!(client.error_of(Legacy, "resources/read", long).1, -32602);
    let task = json!({"taskId": "x"});
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = client.send(Modern, method, task.clone());
        assert_eq!(error_of_answer(&answer).1, -32021);
        let needed = &answer.json()["error"]["data"]["requiredCapabilities"];
        assert_eq!(*needed, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    }
}

#[test]
fn a_request_names_its_version_and_client_capabilities() {
    let server = Server::start();
    let client = Client::new(&server, &server.key);
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for meta in [
        json!({}),
        json!(7),
        json!({version: super::VERSION}),
        json!({capabilities: {}}),
        json!({version: 7, capabilities: {}}),
        json!({version: super::VERSION, capabilities: []}),
        json!({version: super::VERSION, capabilities: {}, "io.modelcontextprotocol/logLevel": "loud"}),
    ] {
        let (status, code, text) =
            client.error_of(Modern, "server/discover", json!({"_meta": meta}));
        assert_eq!((status, code), (400, -32602), "{meta}: {text}");
    }
    let of_version = |version: &str, header: &str| {
        let ask = client.request_without_body("POST").header("MCP-Protocol-Version", header);
        let ask = ask.header("Mcp-Method", "server/discover");
        let params = json!({"_meta": meta(version)});
        server.send(&ask.json(&request(Modern, json!("x"), "server/discover", params)))
    };
    let answer = of_version("2099-01-01", "2099-01-01");
    assert_eq!(error_of_answer(&answer).1, -32022);
    let body = answer.json();
    assert_eq!((answer.status, &body["id"]), (400, &json!("x")));
    assert_eq!(body["error"]["data"]["requested"], "2099-01-01");
    assert_eq!(body["error"]["data"]["supported"][0], super::VERSION);
    // The header and the body are compared before the version is checked.
    assert_eq!(error_of_answer(&of_version("2099-01-01", super::VERSION)).1, -32020);
    assert_eq!(error_of_answer(&of_version(super::VERSION, "2099-01-01")).1, -32020);
}

#[test]
fn an_answer_has_an_accepted_media_type() {
    let shop = Shop::open();
    let send = |accept: Option<&str>| {
        let ask = Ask::new("POST", "/mcp").bearer(&shop.key);
        let ask = accept.into_iter().fold(ask, |ask, accept| ask.header("Accept", accept));
        let params = json!({"name": "get_pet", "arguments": {"id": 7}});
        let ask = with_mirrored_headers(ask, "tools/call", &params);
        shop.server.send(&ask.json(&request(Modern, json!(1), "tools/call", params)))
    };
    for accept in [
        None,
        Some("*/*"),
        Some("application/json"),
        Some("text/event-stream, application/json"),
        Some("APPLICATION/*;q=0.5"),
    ] {
        let answer = send(accept);
        assert_eq!(answer.header("content-type"), "application/json", "{accept:?}");
    }
    assert_eq!(send(Some("text/event-stream")).header("content-type"), "text/event-stream");
    for accept in ["text/html", "", "image/*, application/xml"] {
        assert!(send(Some(accept)).problem().starts_with("406 not_acceptable"), "{accept}");
    }
}

#[test]
fn notifications_and_responses_get_no_answer() {
    let server = Server::start();
    let client = Client::new(&server, &server.key);
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "unknown"}),
        json!({"jsonrpc": "2.0", "id": "nobody asked", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}}),
    ] {
        for version in ["2025-11-25", super::VERSION] {
            let ask = client
                .request_without_body("POST")
                .header("MCP-Protocol-Version", version)
                .json(&message);
            let answer = server.send(&ask);
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{message}");
        }
    }
}

#[test]
fn a_valid_credential_is_required() {
    let server = Server::start();
    for era in ERAS {
        let stranger = Client::new(&server, "tcrib_nobody_secret");
        let answer = stranger.send(era, "tools/list", json!({}));
        assert!(answer.problem().starts_with("401 unauthorized"), "{answer:?}");
        assert!(answer.header("www-authenticate").starts_with("Bearer"));
    }
    // A foreign web page is rejected before its request is read.
    for origin in ["https://evil.example", "null", "http://localhost.evil"] {
        let client = Client::new(&server, &server.key);
        let ask = client.ask(Modern, "tools/list", json!({})).header("Origin", origin);
        assert_eq!(server.send(&ask).status, 403, "{origin}");
    }
}

#[test]
fn the_rest_of_a_truncated_result_is_a_resource_of_its_caller() {
    let shop = shaping::Shop::answering(&shaping::many_orders());
    shop.patch(&json!({"max_result_bytes": 1024})).ok();
    let client = Client::new(&shop.server, &shop.key);
    let other = shaping::key(&shop.server, "other");
    let other = Client::new(&shop.server, &other);
    for era in ERAS {
        let cut = client.call(era, "orders", json!({}));
        assert_eq!(cut.get("structuredContent"), None);
        let (id, offset) = shaping::truncation_note(&cut["content"][1]["text"]);
        let mut whole = cut["content"][0]["text"].as_str().unwrap().to_owned();
        let mut uri = format!("toolcrib://results/{id}?offset={offset}");
        let code = if era == Modern { -32602 } else { -32002 };
        assert_eq!(other.error_of(era, "resources/read", json!({"uri": uri})).1, code);
        loop {
            let read = client.result(era, "resources/read", json!({"uri": uri}));
            whole += read["contents"][0]["text"].as_str().unwrap();
            let Some(next) = read["contents"].get(1) else { break };
            assert!(next["text"].as_str().unwrap().contains(next["uri"].as_str().unwrap()));
            uri = next["uri"].as_str().unwrap().to_owned();
        }
        assert_eq!(serde_json::from_str::<Value>(&whole).unwrap(), shaping::many_orders());
    }
}
