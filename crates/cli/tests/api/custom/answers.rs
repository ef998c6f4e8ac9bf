//! Fixed answers, prompts and resources, and notifications when their settings change.

use serde_json::{Value, json};

use super::super::mcp::Era::{Legacy, Modern};
use super::super::server::Server;
use super::{CustomSource, as_custom_source};

fn settings() -> Value {
    json!({
        "tools": [
            {"name": "motto", "title": "Motto", "description": "What we live by", "tags": ["words"],
                "answer": {"text": "Less, but {{better}} {% x %}"}},
            {"name": "limits", "answer": {"json": {"max": 3, "of": [1.5, null]}}},
            {"name": "picture", "answer": {"content": [
                {"type": "text", "text": "here"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                {"type": "resource_link", "uri": "docs://a", "name": "a"}]}},
        ],
        "prompts": [
            {"name": "review", "title": "Review", "description": "Reviews code",
                "arguments": [{"name": "code", "description": "The code", "required": true}, {"name": "tone"}],
                "template": "Review{{tone}}: {{code}} {{ code }} {{other}} {% raw %}"},
            {"name": "talk", "messages": [
                {"role": "user", "text": "Hello"},
                {"role": "assistant", "content": {"type": "text", "text": "{{as it is}}"}}]},
        ],
        "resources": [
            {"uri": "docs://handbook", "name": "handbook", "mime_type": "text/markdown", "text": "# Hi {{x}}"},
            {"uri": "docs://bytes", "name": "bytes", "blob": "AAEC"},
        ],
        "resource_templates": [
            {"uri_template": "hello://{name}", "name": "hello", "mime_type": "text/plain", "text": "Hello {{name}}! {{no}}"},
        ],
    })
}

#[test]
fn a_fixed_answer_is_the_same_at_every_endpoint_and_recorded() {
    let own = CustomSource::new(settings());
    assert_eq!(own.client().tools(Modern), "limits motto picture");
    assert_eq!(own.text("motto", json!({})), "Less, but {{better}} {% x %}");
    let limits = own.call("limits", json!({}));
    assert_eq!(limits["structuredContent"], json!({"max": 3, "of": [1.5, null]}));
    let picture = own.call("picture", json!({}));
    assert_eq!(picture["content"][1]["mimeType"], "image/png");
    assert_eq!(
        picture["content"][2],
        json!({"type": "resource_link", "uri": "docs://a", "name": "a"})
    );
    let rest = own.rest("limits", &json!({})).ok();
    assert_eq!((&rest["tool_id"], &rest["result"]["max"]), (&json!("own:limits"), &json!(3)));
    assert!(own.failure("motto", json!({"word": 1})).contains("word"));
    let record = own.server.get("/api/executions?tool=own:limits").ok();
    assert_eq!(record["data"].as_array().unwrap().len(), 2, "{record}");
    let tool = own.server.get("/api/tools/own:motto").ok();
    assert_eq!(tool["execution"]["mode"], "custom", "{tool}");
}

#[test]
fn custom_tools_of_a_reviewed_source_wait_for_approval() {
    let settings = json!({"tools": [{"name": "motto", "answer": {"text": "Less"}}]});
    let own = CustomSource::with_source(
        Server::start(),
        json!({"settings": settings, "trust": "review"}),
    );
    assert_eq!(own.client().tools(Modern), "");
    let diff = own.server.get("/api/tools/own:motto/diff").ok();
    let approval = json!({"fingerprint": diff["fingerprint"]});
    own.server.post("/api/tools/own:motto/approve", &approval).ok();
    assert_eq!(own.client().tools(Modern), "motto");
    let mut changed = as_custom_source(json!({"settings": settings, "trust": "review"}));
    changed["settings"]["tools"][0]["answer"]["text"] = json!("More");
    own.server.send(&own.server.ask("PUT", "/api/sources/own").json(&changed)).ok();
    own.server.wait_for("/api/tools/own:motto", |tool| tool["review"] == "waiting");
    assert_eq!(own.text("motto", json!({})), "Less");
}

#[test]
fn prompt_arguments_are_inserted_verbatim() {
    let own = CustomSource::new(settings());
    let listed = own.list("prompts");
    let review = &listed["prompts"][0];
    assert_eq!((&review["name"], &review["title"]), (&json!("review"), &json!("Review")));
    assert_eq!(
        review["arguments"][0],
        json!({"name": "code", "description": "The code", "required": true})
    );
    let odd = "{{tone}} {% for x in y %} {{ 7 * 7 }} <b>\"";
    let got = own.prompt("review", json!({"code": odd}));
    let text = format!("Review: {odd} {{{{ code }}}} {{{{other}}}} {{% raw %}}");
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    assert_eq!(
        (&got["messages"], &got["description"]),
        (&json!([message]), &json!("Reviews code"))
    );
    let talk = own.prompt("talk", json!({}));
    assert_eq!(talk["messages"][1]["role"], "assistant");
    assert_eq!(talk["messages"][1]["content"]["text"], "{{as it is}}");

    let refused = |arguments: Value| {
        let params = json!({"name": "review", "arguments": arguments});
        own.client().error_of(Modern, "prompts/get", params)
    };
    let (_, code, why) = refused(json!({"tone": "x"}));
    assert_eq!((code, why.as_str()), (-32602, "the prompt `review` needs the argument `code`"));
    let (_, code, _) = refused(json!({"code": 7}));
    assert_eq!(code, -32602);
}

#[test]
fn completion_suggests_the_values_of_an_admin() {
    let own = CustomSource::new(json!({
        "prompts": [{"name": "review", "template": "{{tone}} {{code}}", "arguments": [
            {"name": "tone", "values": ["friendly", "formal", "Frank"]}, {"name": "code"}]}],
        "resource_templates": [{"uri_template": "pages://{page}", "name": "pages", "text": "{{page}}",
            "values": {"page": ["menu", "rules"]}}],
    }));
    let proposed = |of: Value, name: &str, typed: &str| {
        let params = json!({"ref": of, "argument": {"name": name, "value": typed}});
        own.client().result(Modern, "completion/complete", params)["completion"]["values"].take()
    };
    let prompt = || json!({"type": "ref/prompt", "name": "review"});
    assert_eq!(proposed(prompt(), "tone", "FR"), json!(["friendly", "Frank"]));
    assert_eq!(proposed(prompt(), "tone", ""), json!(["friendly", "formal", "Frank"]));
    assert_eq!(proposed(prompt(), "code", "f"), json!([]));
    let pages = json!({"type": "ref/resource", "uri": "pages://{page}"});
    assert_eq!(proposed(pages, "page", "m"), json!(["menu"]));
    // Suggested values serve completion only and are not part of the list.
    assert_eq!(own.list("prompts")["prompts"][0]["arguments"][0], json!({"name": "tone"}));
    // Other values are accepted too.
    let told = own.prompt("review", json!({"tone": "angry", "code": "x"}));
    assert_eq!(told["messages"][0]["content"]["text"], "angry x");
}

#[test]
fn subscribers_are_notified_when_a_custom_resource_changes() {
    let resources = |handbook: &str, bytes: &str| {
        let all = json!([
            {"uri": "docs://handbook", "name": "handbook", "text": handbook},
            {"uri": "docs://bytes", "name": "bytes", "blob": bytes},
            {"uri": "docs://web", "name": "web", "url": "https://example.com/x"},
        ]);
        json!({"resources": all})
    };
    let own = CustomSource::new(resources("one", "AAEC"));
    let client = own.client().initialized();
    let mut events = client
        .server
        .open_events(&client.request_without_body("GET").header("Accept", "text/event-stream"));
    for uri in ["docs://handbook", "docs://bytes"] {
        client.result(Legacy, "resources/subscribe", json!({"uri": uri}));
    }
    let web = client.error_of(Legacy, "resources/subscribe", json!({"uri": "docs://web"}));
    assert_eq!(web.1, -32602, "nobody tells of what is on the web: {web:?}");
    for (settings, uri) in
        [(resources("two", "AAEC"), "docs://handbook"), (resources("two", "AAED"), "docs://bytes")]
    {
        own.server.put("/api/sources/own", &as_custom_source(json!({"settings": settings}))).ok();
        // The lists are unchanged, so the only notification is about the resource.
        let heard = events.next().unwrap().body;
        assert_eq!(heard["method"], "notifications/resources/updated");
        assert_eq!(heard["params"]["uri"], uri);
    }
}

#[test]
fn an_expanded_prompt_has_a_size_limit() {
    let prompt =
        json!({"name": "again", "arguments": [{"name": "x"}], "template": "{{x}} ".repeat(200)});
    let own = CustomSource::new(json!({"prompts": [prompt]}));
    assert!(own.prompt("again", json!({"x": "a".repeat(1_000)}))["messages"].is_array());
    let params = json!({"name": "again", "arguments": {"x": "a".repeat(100_000)}});
    let (_, code, why) = own.client().error_of(Modern, "prompts/get", params);
    assert_eq!(code, -32602);
    assert!(why.contains("over 4194304"), "{why}");
}

#[test]
fn an_expanded_resource_template_has_a_size_limit() {
    let template =
        json!({"uri_template": "again://{x}", "name": "again", "text": "{{x}} ".repeat(10_000)});
    let own = CustomSource::new(json!({"resource_templates": [template]}));
    let fine = own.read(&format!("again://{}", "a".repeat(10)));
    assert_eq!(fine["text"].as_str().unwrap().len(), 110_000);
    let (_, code, why) = own.not_read(&format!("again://{}", "a".repeat(1_000)));
    assert_eq!(code, -32602, "{why}");
    assert!(why.contains("over 4194304"), "{why}");
}

#[test]
fn text_and_binary_resources_and_templates_can_be_read() {
    let own = CustomSource::new(settings());
    let handbook =
        json!({"uri": "docs://handbook", "mimeType": "text/markdown", "text": "# Hi {{x}}"});
    assert_eq!(own.read("docs://handbook"), handbook);
    assert_eq!(own.read("docs://bytes"), json!({"uri": "docs://bytes", "blob": "AAEC"}));
    let hello = own.read("hello://%7B%7Bname%7D%7D%20%3Cb%3E");
    assert_eq!(hello["text"], "Hello {{name}} <b>! {{no}}");
    assert_eq!(own.list("resources")["resources"].as_array().unwrap().len(), 2);
    let templates = own.list("resources/templates");
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "hello://{name}");
    for uri in ["docs://other", "hello://", "hello://a/b", "hello://a?b"] {
        let (_, code, _) = own.not_read(uri);
        assert!([-32002, -32602].contains(&code), "{uri}: {code}");
    }
}

#[test]
fn custom_tools_and_resources_require_a_grant() {
    let own = CustomSource::new(settings());
    let other = super::key(&own.server, "other", &json!({"role": "guest"}));
    let client = super::Client::new(&own.server, &other);
    assert_eq!(client.tools(Modern), "");
    let params = json!({"uri": "docs://handbook"});
    let missing = client.error_of(Modern, "resources/read", params);
    assert_eq!(missing.1, own.not_read("docs://other").1);
}

#[test]
fn capabilities_follow_the_settings_and_listeners_are_notified() {
    let mut few = settings();
    for member in ["prompts", "resources", "resource_templates"] {
        few.as_object_mut().unwrap().remove(member);
    }
    let own = CustomSource::new(few);
    let can = |own: &CustomSource| {
        let about = own.client().result(Modern, "server/discover", json!({}));
        about["capabilities"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(can(&own), ["tools", "logging", "resources"]);
    let client = own.client().initialized();
    let mut events = client
        .server
        .open_events(&client.request_without_body("GET").header("Accept", "text/event-stream"));
    let changed = as_custom_source(json!({"settings": settings()}));
    own.server.put("/api/sources/own", &changed).ok();
    let mut heard = vec![
        events.next().unwrap().body["method"].clone(),
        events.next().unwrap().body["method"].clone(),
    ];
    heard.sort_by_key(ToString::to_string);
    let expected =
        ["prompts", "resources"].map(|what| json!(format!("notifications/{what}/list_changed")));
    assert_eq!(heard, expected);
    assert_eq!(can(&own), ["tools", "logging", "prompts", "resources", "completions"]);
    assert_eq!(
        client.result(Legacy, "prompts/list", json!({}))["prompts"].as_array().unwrap().len(),
        2
    );

    // Removing most of a source at once is accepted, because an admin did it on purpose.
    let one = json!({"tools": [{"name": "motto", "answer": {"text": "Less"}}]});
    own.server.put("/api/sources/own", &as_custom_source(json!({"settings": one}))).ok();
    own.server.wait_for("/api/sources/own", |source| {
        source["inventory"]["count"] == 1 || source["tools"] == 1
    });
    let list = || own.client().tools(Modern);
    for _ in 0..500 {
        if list() == "motto" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!((list().as_str(), own.text("motto", json!({})).as_str()), ("motto", "Less"));
    assert_eq!(can(&own), ["tools", "logging", "resources"]);
}
