//! The web console in a real browser, used by keyboard only.

mod browser;

use serde_json::{Value, json};

use self::browser::{Browser, ENTER, ESCAPE};
use crate::api::server::Server;

/// Browser that has signed in with the link in the startup message.
fn signed_in(server: &Server) -> Browser {
    let browser = Browser::open();
    browser.go(&server.url(&format!("/console#key={}", server.key)));
    browser.wait("document.querySelector('#title')?.innerText === 'Overview'");
    browser.wait("document.querySelector('p.live')?.innerText === 'Live'");
    browser
}

/// Opens a screen by its URL.
fn open_screen(browser: &Browser, server: &Server, screen: &str, title: &str) {
    browser.go(&server.url(&format!("/console#/{screen}")));
    browser.wait(&format!("document.querySelector('#title')?.innerText === {}", json!(title)));
    browser.wait("!document.querySelector('[aria-busy]')");
}

#[test]
fn only_an_admin_key_opens_the_console() {
    let server = Server::start();
    let agent = server.post("/api/keys", &json!({"name": "agent"})).ok();
    let browser = Browser::open();
    browser.go(&server.url("/console"));
    browser.wait("document.activeElement.id === 'key'");
    browser.keys(&format!("tcrib_first-admin_wrong{ENTER}"));
    browser.wait_for("This key is not known");
    browser.wait("document.activeElement.id === 'key'");
    browser.evaluate("document.activeElement.select()");
    browser.keys(&format!("{}{ENTER}", agent["key"].as_str().unwrap()));
    browser.wait_for("This key is not an admin’s");
    assert_eq!(browser.evaluate("sessionStorage.length"), json!(0));
    browser.evaluate("document.activeElement.select()");
    browser.keys(&format!("{}{ENTER}", server.key));
    browser.wait_for("Wants attention");
    // The key is kept in this tab only, and in no URL.
    browser.reload();
    browser.wait_for("Wants attention");
    assert_eq!(browser.evaluate("localStorage.length + document.cookie.length"), json!(0));
    browser.press("Sign out");
    browser.wait("document.activeElement.id === 'key'");
    assert_eq!(browser.evaluate("sessionStorage.length"), json!(0));
    browser.go(&server.url(&format!("/console#key={}", server.key)));
    browser.wait_for("Wants attention");
    assert_eq!(browser.evaluate("location.href"), json!(server.url("/console")));
    // The key is revoked while it is in use.
    server.post_empty("/api/keys/first-admin/revoke").ok();
    browser.wait_for("Admin key");
}

#[test]
fn every_screen_shows_the_demo_and_loads_nothing_from_elsewhere() {
    let server = Server::demo();
    let browser = signed_in(&server);
    assert_eq!(browser.text("[data-tile=tools] strong"), "5");
    let screens: [(&str, &str, &[&str]); 15] = [
        ("sources", "Sources", &["Pizzeria", "openapi", "healthy", "5 served"]),
        ("sources/pizzeria", "Pizzeria", &["5 served of 5", "Last refresh", "Calls on this node"]),
        ("tools", "Tools", &["place_order", "pizzeria:list_pizzas", "served"]),
        ("tools/pizzeria%3Aplace_order", "place_order", &["POST /orders", "Arguments", "guests"]),
        ("groups", "Groups", &["menu", "kitchen", "guests"]),
        ("groups/guests", "guests", &["place_order", "What a waiter needs"]),
        ("policies", "Policies", &["What a cook needs", "role equals \"waiter\""]),
        ("policies/cooks", "What a cook needs", &["kitchen", "Priority"]),
        ("labels", "Labels", &["There is no label yet"]),
        ("keys", "Keys", &["cook", "waiter", "{\"role\":\"cook\"}"]),
        ("keys/cook", "cook", &["never", "\"role\": \"cook\""]),
        ("activity", "Live activity", &["key created", "system:demo"]),
        ("executions", "Calls", &["No call is recorded yet"]),
        ("explain", "Explain", &["Claims"]),
        ("server", "Server", &["ready", "key:first-admin"]),
    ];
    for (screen, title, texts) in screens {
        open_screen(&browser, &server, screen, title);
        for text in texts {
            browser.wait_for(text);
        }
    }
    // Search, opened with `/`.
    open_screen(&browser, &server, "tools", "Tools");
    browser.keys("/bake");
    browser.wait_without("place_order");
    browser.wait_for("bake_order");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let requests = browser.requests();
    assert!(requests.iter().any(|url| url.ends_with("/console/main.js")), "{requests:?}");
    let is_ours = |url: &String| url.starts_with(&server.url("/")) || url.starts_with("data:");
    assert_eq!(
        requests.iter().filter(|url| !is_ours(url)).collect::<Vec<_>>(),
        Vec::<&String>::new()
    );
    assert!(requests.iter().all(|url| !url.contains("tcrib_")), "{requests:?}");
}

#[test]
fn groups_and_policies_can_be_managed_by_keyboard() {
    let server = Server::demo();
    let browser = signed_in(&server);
    browser.keys("gg");
    browser.wait_for("Curated tools");
    browser.keys("n");
    browser.wait("document.querySelector('dialog form')");
    browser.keys("Night shift");
    browser.tab_to("Add a selector");
    browser.keys(ENTER);
    browser.keys("pizzeria");
    browser.tab_to("Method");
    browser.keys("GET");
    browser.save();
    browser.wait("document.querySelector('#title')?.innerText === 'Night shift'");
    browser.wait_for("3 tools");
    let group = || server.get("/api/groups/night-shift").ok();
    assert_eq!(group()["selectors"][0]["method"], "GET");
    browser.press("Edit");
    browser.wait("document.querySelector('dialog form')");
    browser.tab_to("Description");
    browser.keys("For the night");
    browser.save();
    browser.wait_for("For the night");
    assert_eq!(group()["description"], "For the night");
    browser.press("Deactivate");
    browser.wait_for("inactive");
    assert_eq!(group()["is_active"], false);
    // The focus stays on the button, whose label is now the opposite action.
    browser.wait("document.activeElement.innerText === 'Activate'");
    browser.keys(ENTER);
    browser.wait("document.activeElement.innerText === 'Deactivate'");

    browser.keys("gp");
    browser.wait_for("Nothing is granted unless");
    browser.keys("n");
    browser.wait("document.querySelector('dialog form')");
    browser.keys("Night owls");
    browser.tab_to("Claim");
    browser.keys("role");
    browser.tab_to("Value");
    browser.keys("owl");
    browser.tab_to("night-shift");
    browser.keys(" ");
    browser.tab_to("kitchen");
    browser.press("What would change?");
    browser.wait_for("Nothing, for 2 identities");
    browser.save();
    browser.wait("document.querySelector('#title')?.innerText === 'Night owls'");
    let policy = || server.get("/api/policies/night-owls").ok();
    assert_eq!(policy()["groups"], json!(["night-shift"]));
    assert_eq!(policy()["matchers"][0]["value"], "owl");
    browser.press("Edit");
    browser.wait("document.querySelector('dialog form')");
    browser.tab_to("Priority");
    browser.keys("7");
    browser.tab_to("Value");
    browser.keys("cook");
    // Preview before saving: cooks gain a tool that only waiters had.
    browser.press("What would change?");
    browser.wait_for("gains pizzeria:get_order");
    browser.save();
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(policy()["priority"], 7);
    browser.press("Deactivate");
    browser.wait_for("inactive");
    assert_eq!(policy()["is_active"], false);

    // A group that a policy grants cannot be deleted, and the reason is shown.
    open_screen(&browser, &server, "groups/night-shift", "Night shift");
    browser.press("Delete");
    browser.wait("document.activeElement.innerText === 'Cancel'");
    browser.keys(ESCAPE);
    browser.wait("!document.querySelector('dialog')");
    open_screen(&browser, &server, "policies/night-owls", "Night owls");
    for (screen, title) in [("policies", "Policies"), ("groups", "Groups")] {
        browser.press("Delete");
        browser.wait("document.activeElement.innerText === 'Cancel'");
        browser.press("Delete");
        browser.wait(&format!("document.querySelector('#title')?.innerText === {}", json!(title)));
        browser.wait("!document.querySelector('[aria-busy]')");
        browser.wait_without("Night");
        if screen == "policies" {
            open_screen(&browser, &server, "groups/night-shift", "Night shift");
        }
    }
    assert_eq!(server.get("/api/groups/night-shift").status, 404);
    assert_eq!(server.get("/api/policies/night-owls").status, 404);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn labels_keys_and_tools_can_be_managed_by_keyboard() {
    let server = Server::demo();
    let browser = signed_in(&server);
    browser.keys("gl");
    browser.wait_for("There is no label yet");
    browser.keys("n");
    browser.wait("document.querySelector('dialog form')");
    browser.keys("Hot");
    browser.save();
    browser.wait("document.querySelector('#title')?.innerText === 'Hot'");
    browser.wait_for("No tool has it");
    browser.press("Edit");
    browser.wait("document.querySelector('dialog form')");
    // The same body as JSON.
    browser.press("Edit as JSON");
    browser.wait("document.activeElement.classList.contains('json')");
    browser.evaluate("document.activeElement.select()");
    browser.keys("{\"name\": \"Hot\", \"descripton\": \"from the oven\"}");
    browser.save();
    browser.wait_for("descripton");
    browser.evaluate("document.activeElement.select()");
    browser.keys("{\"name\": \"Hot\", \"description\": \"from the oven\"}");
    browser.save();
    browser.wait("!document.querySelector('dialog')");
    browser.wait_for("from the oven");

    open_screen(&browser, &server, "tools/pizzeria%3Abake_order", "bake_order");
    browser.press("Labels");
    browser.wait("document.querySelector('dialog form')");
    browser.keys(" ");
    browser.save();
    browser.wait("!document.querySelector('dialog')");
    browser.press("Override");
    browser.wait("document.querySelector('dialog form')");
    browser.tab_to("Description");
    browser.keys("Bake it");
    browser.save();
    browser.wait("document.querySelector('#description')?.innerText === 'Bake it'");
    browser.press("Disable");
    browser.wait_for("not served");
    let tool = server.get("/api/tools/pizzeria:bake_order").ok();
    assert_eq!((&tool["labels"], &tool["is_enabled"]), (&json!(["hot"]), &json!(false)));

    browser.keys("gk");
    browser.wait_for("Only their hashes are stored");
    browser.keys("n");
    browser.wait("document.querySelector('dialog form')");
    browser.keys("Guest");
    browser.save();
    browser.wait("document.querySelector('#made-key')");
    let key = browser.text("#made-key");
    assert_eq!(server.get_as(&key, "/api/whoami").ok()["subject"], "key:guest");
    browser.keys(ESCAPE);
    browser.wait("!document.querySelector('dialog')");
    browser.wait("document.querySelector('#title')?.innerText === 'Guest'");
    assert!(!browser.evaluate("document.documentElement.outerHTML").to_string().contains(&key));
    browser.press("Revoke");
    browser.wait("document.activeElement.innerText === 'Cancel'");
    browser.press("Revoke");
    browser.wait_for("revoked");
    assert_eq!(server.get_as(&key, "/api/whoami").status, 401);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_tool_can_be_tried_with_other_claims_and_explained() {
    let server = Server::demo();
    let browser = signed_in(&server);
    open_screen(&browser, &server, "try/pizzeria%3Aplace_order", "Try place_order");
    browser.tab_to("table");
    browser.keys("7");
    browser.tab_to("pizzas");
    browser.keys("Margherita");
    browser.press("Show the request only");
    browser.wait_for("What would be sent");
    assert!(browser.text("#request").contains(r#"{"table":7,"pizzas":["Margherita"]}"#));
    let calls = || server.get("/api/executions").ok()["data"].as_array().unwrap().clone();
    assert_eq!(calls(), Vec::<Value>::new());
    browser.tab_to("table");
    browser.keys(ENTER);
    browser.wait_for("\"state\": \"ordered\"");
    let text = browser.text("#result");
    assert!(
        text.contains("completed") && text.contains("ms") && text.contains("HTTP 201"),
        "{text}"
    );
    // The call is recorded under the name of the admin.
    assert_eq!((&calls()[0]["subject"], calls().len()), (&json!("key:first-admin"), 1));
    // With other claims the tool is not found, and the message links to the explanation.
    browser.tab_to("As");
    browser.keys("the key cook");
    browser.press("Call");
    browser.wait_for("does not have the tool");
    browser.press("Explain why");
    browser.wait("document.querySelector('#title')?.innerText === 'Explain'");
    browser.press("Explain");
    browser.wait_for("not granted");
    let text = browser.text("#explained");
    assert!(text.contains("guests") && text.contains("✗ role equals \"waiter\""), "{text}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn changes_by_others_appear_without_a_reload() {
    let server = Server::demo();
    let browser = signed_in(&server);
    open_screen(&browser, &server, "groups", "Groups");
    server.post("/api/groups", &json!({"name": "Made elsewhere"})).ok();
    browser.wait_for("Made elsewhere");
    open_screen(&browser, &server, "activity", "Live activity");
    browser.wait("document.querySelector('#count-changes').innerText === '1'");
    browser.wait_for("group created");
    let claims = json!({"claims": {"role": "cook"}});
    server.post("/api/tools/pizzeria:list_pizzas/try", &claims).ok();
    browser.wait("document.querySelector('#count-calls').innerText === '1'");
    browser.wait_for("pizzeria:list_pizzas called by key:first-admin");
    open_screen(&browser, &server, "executions", "Calls");
    browser.wait_for("pizzeria:list_pizzas");

    // The focus stays although the screen is redrawn.
    open_screen(&browser, &server, "groups/menu", "menu");
    browser.tab_to("list_pizzas");
    server.post_empty("/api/groups/menu/deactivate").ok();
    browser.wait_for("inactive");
    browser.wait("document.activeElement.innerText === 'list_pizzas'");

    // If two admins edit at once, the second is warned and can load the current version.
    open_screen(&browser, &server, "groups/menu", "menu");
    browser.press("Edit");
    browser.wait("document.querySelector('dialog form')");
    let other = server
        .send(&server.ask("PUT", "/api/groups/menu").json(&json!({"name": "Menu of others"})));
    other.ok();
    browser.keys(" of mine");
    browser.save();
    browser.wait_for("Somebody else has changed this");
    browser.press("Show what is there now, and drop my changes");
    browser.wait("document.querySelector('dialog input').value === 'Menu of others'");
    browser.tab_to("Name");
    browser.keys("A menu");
    browser.save();
    browser.wait("document.querySelector('#title')?.innerText === 'A menu'");
    assert_eq!(server.get("/api/groups/menu").ok()["name"], "A menu");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn foreign_texts_are_escaped_and_their_findings_shown() {
    let server = Server::start();
    let evil =
        "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script> a\u{202e}b\u{200b}c";
    let source = json!({"name": "evil", "trust": "review", "settings": {"kind": "custom", "tools": [
        {"name": "poison", "description": evil, "answer": {"text": evil}},
    ]}});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/tools", |tools| !tools["data"].as_array().unwrap().is_empty());
    server.post("/api/labels", &json!({"name": "bad", "description": evil})).ok();
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "evil"}]})).ok();
    let policy = json!({"name": "everyone", "groups": ["all"], "matchers": [{"claim": "role", "operator": "equals", "value": "x"}]});
    server.post("/api/policies", &policy).ok();
    let browser = signed_in(&server);
    browser.wait_for("1 tool waits");
    let unharmed = || {
        browser.wait_for("<img src=x onerror='window.hacked=1'><script>");
        assert_eq!(
            browser.evaluate("document.querySelectorAll('img, main script').length"),
            json!(0)
        );
        assert_eq!(browser.evaluate("window.hacked ?? 'no'"), json!("no"));
    };
    open_screen(&browser, &server, "labels", "Labels");
    unharmed();
    browser.wait_for("a‹U+202E›b‹U+200B›c");
    open_screen(&browser, &server, "tools", "Tools");
    unharmed();

    open_screen(&browser, &server, "tools/evil%3Apoison", "poison");
    unharmed();
    browser.wait_for("Found in its texts");
    browser.wait_for("Waits for a decision");
    browser.press("Approve");
    browser.wait_for("Something was found in its texts. Say that you have seen it");
    assert_eq!(server.get("/api/tools/evil:poison").ok()["review"], "waiting");
    browser.tab_to("I have seen what was found in its texts, and approve it all the same");
    browser.keys(" ");
    browser.press("Approve");
    browser.wait("!document.querySelector('#do-approve')");
    assert_eq!(server.get("/api/tools/evil:poison").ok()["review"], "approved");

    open_screen(&browser, &server, "try/evil%3Apoison", "Try poison");
    browser.press("Call");
    browser.wait_for("completed");
    unharmed();
    assert!(browser.text("#result").contains("a‹U+202E›b‹U+200B›c"), "{}", browser.text("#result"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_source_can_be_registered_refreshed_and_reset_after_failures() {
    let server = Server::start_with("--allow-stdio");
    let document = include_str!("../../../examples/order.workflow.yaml");
    let workflows =
        json!({"name": "flows", "settings": {"kind": "workflow", "documents": [document]}});
    server.post("/api/sources", &workflows).ok();
    let browser = signed_in(&server);
    browser.keys("gs");
    browser.wait_for("What offers tools");
    browser.keys("n");
    browser.wait("document.querySelector('dialog form')");
    browser.keys("Own tools");
    browser.tab_to("What it is");
    browser.keys("Built-in");
    browser.save();
    browser.wait("document.querySelector('#title')?.innerText === 'Own tools'");
    // The source becomes healthy without an action, as soon as its first refresh is done.
    browser.wait_for("healthy");
    browser.press("Refresh");
    browser.wait_for("Refreshed.");
    browser.press("Disable");
    browser.wait_for("0 served of");
    // The outcome of the refresh stays although the screen was redrawn.
    browser.wait_for("Refreshed.");
    assert_eq!(server.get("/api/sources/own-tools").ok()["is_enabled"], false);

    let tool = server.wait_for("/api/tools?source=flows", |tools| tools["data"][0].is_object());
    let id = tool["data"][0]["id"].as_str().unwrap().to_owned();
    open_screen(
        &browser,
        &server,
        &format!("tools/{}", id.replace(':', "%3A")),
        tool["data"][0]["name"].as_str().unwrap(),
    );
    browser.wait("3 < document.querySelectorAll('svg.picture .node').length");
    browser.wait("3 < document.querySelectorAll('svg.picture .arrow path').length");
    browser.wait_for("As Mermaid");

    let script = "echo the disk is full >&2; exit 1";
    let command = json!({"program": "/bin/sh", "arguments": ["-c", script]});
    let program = json!({"name": "program", "settings": {"kind": "mcp", "command": command}});
    server.post("/api/sources", &program).ok();
    open_screen(&browser, &server, "sources/program", "program");
    browser.wait_for("The last refresh failed");
    browser.wait("document.querySelector('#stderr')?.innerText.includes('the disk is full')");

    // No server listens at this port, so calls fail until the circuit opens.
    let text = r#"{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/a": {"get": {"operationId": "a", "responses": {"200": {"description": "ok"}}}}}}"#;
    let dead = json!({"name": "dead", "allow": ["127.0.0.1"], "settings": {"kind": "openapi", "specification": {"text": text}}});
    server.post("/api/sources", &dead).ok();
    server.wait_for("/api/tools?source=dead", |tools| tools["data"][0].is_object());
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"source": "dead"}]})).ok();
    let policy = json!({"name": "everyone", "groups": ["all"], "matchers": [{"claim": "role", "operator": "equals", "value": "x"}]});
    server.post("/api/policies", &policy).ok();
    let is_open = || server.get("/api/sources/dead").ok()["calls"]["agents_left_out"] == 1;
    for _ in 0..20 {
        server.post("/api/tools/dead:a/try", &json!({"claims": {"role": "x"}}));
        if is_open() {
            break;
        }
    }
    assert!(is_open());
    open_screen(&browser, &server, "sources/dead", "dead");
    browser.wait_for("circuit open for 1 agent");
    browser.press("Call it again now");
    browser.wait_without("circuit open");
    assert!(!is_open());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
