//! Tools, prompts and resources that a configuration file defines, beside discovered tools.

use serde_json::json;

use super::{CustomSource, Folder, PATH, Server, key};
use crate::support::ok;
use crate::upstream::Upstream;

/// Source with discovered tools, and a custom request, answer, command, prompt and resource.
const FILE: &str = r#"
sources:
  - {id: pizzeria, name: Pizzeria, url: "UPSTREAM/openapi.json", allow: [127.0.0.1], settings: {kind: openapi}}
  - id: own
    name: Own
    url: "UPSTREAM/"
    allow: [127.0.0.1]
    settings:
      kind: custom
      tools:
        - {name: get_dish, request: {url: "/dishes/{{dish}}"}}
        - {name: motto, answer: {text: Less is more}}
        - {name: shout, command: {program: printf, arguments: ["%s!", "{{word}}"]}}
      prompts: [{name: greet, arguments: [{name: who}], template: "Greet {{who}}"}]
      resources: [{uri: "docs://rules", name: rules, mime_type: text/plain, text: No smoking}]
groups:
  - id: all
    name: All
    selector_mode: any
    selectors: [{name: "*"}, {kind: prompt, source: own}, {kind: resource, source: own}]
policies:
  - {id: staff, name: Staff, groups: [all], matchers: [{claim: role, operator: equals, value: staff}]}
"#;

/// Server that follows this file.
fn declared() -> (Upstream, CustomSource) {
    let upstream = Upstream::replying(|request| match request.split(' ').nth(1) {
        Some("/openapi.json") => ok(
            "application/json",
            r#"{"openapi": "3.1.0", "paths": {"/menu": {"get": {"operationId": "list_menu"}}}}"#,
        ),
        Some(path) => ok("text/plain", path),
        None => ok("text/plain", ""),
    });
    let folder = Folder::empty();
    folder.write("crib.yaml", FILE.replace("UPSTREAM", &upstream.url("")));
    let server =
        Server::on_folder_with_environment(folder, "--allow-stdio --config crib.yaml", &[PATH]);
    for source in ["own", "pizzeria"] {
        let path = format!("/api/sources/{source}");
        server.wait_for(&path, |source| !source["inventory"].is_null());
    }
    let key = key(&server, "bot", &json!({"role": "staff"}));
    (upstream, CustomSource { server, key })
}

#[test]
fn custom_tools_of_the_file_send_requests_return_answers_or_run_commands() {
    let (_upstream, own) = declared();
    assert_eq!(own.text("get_dish", json!({"dish": "a b"})), "/dishes/a%20b");
    assert_eq!(own.text("motto", json!({})), "Less is more");
    assert_eq!(own.text("shout", json!({"word": "$HOME"})), "$HOME!");
}

#[test]
fn custom_tools_are_merged_with_discovered_tools() {
    let (_upstream, own) = declared();
    let mut tools: Vec<_> =
        own.client().tools(super::Modern).split(' ').map(str::to_owned).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["get_dish", "list_menu", "motto", "shout"]);
    assert_eq!(own.text("list_menu", json!({})), "/menu");
}

#[test]
fn prompts_and_resources_of_the_file_are_served() {
    let (_upstream, own) = declared();
    let message = &own.prompt("greet", json!({"who": "Ada"}))["messages"][0];
    assert_eq!(message["content"]["text"], "Greet Ada");
    let rules = json!({"uri": "docs://rules", "mimeType": "text/plain", "text": "No smoking"});
    assert_eq!(own.read("docs://rules"), rules);
}
