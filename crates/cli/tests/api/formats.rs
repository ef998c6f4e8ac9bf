//! Tool lists of an agent in the formats of model APIs, within a token budget, and with entity tags (A1, A6).

use serde_json::{Value, json};

use super::issuer::World;
use super::server::Ask;
use crate::support::Folder;

fn world() -> World {
    World::on(Folder::with_catalog(), "")
}

fn list(world: &World, query: &str) -> Value {
    let token = world.token(json!({"role": "staff"}));
    world.server.get_as(&token, &format!("/api/agents/tools{query}")).ok()
}

fn patch(world: &World, id: &str, body: Value) {
    let ask = world.server.ask("PATCH", &format!("/api/tools/{id}"));
    world.server.send(&ask.json(&body)).ok();
}

#[test]
fn every_format_has_the_shape_of_its_model_api() {
    let world = world();
    let body = json!({"description": "All pets"});
    patch(&world, "petstore:listPets", body);
    insta::assert_snapshot!(list(&world, "?format=mcp")["tools"][1].to_string(), @r#"{"name":"listPets","description":"All pets","inputSchema":{"type":"object"}}"#);
    insta::assert_snapshot!(list(&world, "?format=openai")["tools"][1].to_string(), @r#"{"type":"function","function":{"name":"listPets","description":"All pets","parameters":{"type":"object","properties":{}}}}"#);
    insta::assert_snapshot!(list(&world, "?format=openai_responses")["tools"][1].to_string(), @r#"{"type":"function","name":"listPets","description":"All pets","parameters":{"type":"object","properties":{}},"strict":false}"#);
    insta::assert_snapshot!(list(&world, "?format=anthropic")["tools"][1].to_string(), @r#"{"name":"listPets","description":"All pets","input_schema":{"type":"object","properties":{}}}"#);
    let gemini = list(&world, "?format=gemini");
    assert_eq!(gemini["tools"].as_array().unwrap().len(), 1);
    insta::assert_snapshot!(gemini["tools"][0]["functionDeclarations"][1].to_string(), @r#"{"name":"listPets","description":"All pets","parametersJsonSchema":{"type":"object","properties":{}}}"#);
    let token = world.token(json!({"role": "staff"}));
    for query in ["format=xml", "format=data", "mode=all", "budget=many", "budget=-1"] {
        let answer = world.server.get_as(&token, &format!("/api/agents/tools?{query}"));
        assert!(answer.problem().starts_with("422 validation_error"), "{query}: {answer:?}");
    }
}

#[test]
fn tool_names_are_valid_for_each_model_api() {
    let world = world();
    patch(&world, "petstore:listPets", json!({"name": "2.list-pets"}));
    let plain = list(&world, "?format=mcp");
    assert_eq!(plain["tools"][1]["name"], "2.list-pets");
    for (format, pointer) in [
        ("openai", "/tools/1/function/name"),
        ("openai_responses", "/tools/1/name"),
        ("anthropic", "/tools/1/name"),
        ("gemini", "/tools/0/functionDeclarations/1/name"),
    ] {
        let shown = list(&world, &format!("?format={format}"));
        let name = shown.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        assert_eq!(name, "petstore__2_list-pets_ccb04d80", "{format}");
    }
}

#[test]
fn a_list_over_its_budget_becomes_the_search_tools() {
    let world = world();
    let names = |query: &str| {
        let page = list(&world, query);
        let names = page["tools"].as_array().unwrap().iter();
        names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("?format=mcp"), "getOwner listPets");
    assert_eq!(names("?format=mcp&mode=list"), "getOwner listPets");
    assert_eq!(names("?format=mcp&mode=search"), "tool_search execute_tool");
    assert_eq!(names("?format=mcp&mode=auto"), "getOwner listPets");
    assert_eq!(names("?format=mcp&mode=auto&budget=10"), "tool_search execute_tool");
    let bytes = list(&world, "?format=mcp").to_string().len();
    let around = [(bytes - 1) / 4, bytes.div_ceil(4)];
    assert_eq!(
        around.map(|budget| names(&format!("?format=mcp&mode=auto&budget={budget}"))),
        ["tool_search execute_tool", "getOwner listPets"]
    );
}

#[test]
fn a_list_can_be_limited_to_one_granted_group() {
    let world = world();
    let server = &world.server;
    server.post("/api/groups", &json!({"name": "owners", "tools": ["petstore:getOwner"]})).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    let policy = json!({"name": "more", "matchers": matchers, "groups": ["owners", "pets-all"]});
    server.post("/api/policies", &policy).ok();
    assert_eq!(list(&world, "?group=owners")["data"].as_array().unwrap().len(), 1);
    assert_eq!(list(&world, "?group=pets-read")["data"].as_array().unwrap().len(), 2);
    server.post("/api/groups", &json!({"name": "others", "tools": ["petstore:getOwner"]})).ok();
    let token = world.token(json!({"role": "staff"}));
    // A group that is not granted, one that is disabled, one that does not exist, and an invalid id.
    for group in ["others", "pets-all", "nothing", "No+id"] {
        let answer = server.get_as(&token, &format!("/api/agents/tools?group={group}"));
        let name = group.replace('+', " ");
        let expected = format!("404 not_found: there is no group of yours: `{name}`");
        assert_eq!(answer.problem(), expected);
    }
}

#[test]
fn a_list_with_a_matching_entity_tag_is_not_sent_again() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"role": "staff"}));
    let get = |path: &str, tag: &str| {
        let ask = Ask::new("GET", path).bearer(&token);
        server.send(&if tag.is_empty() { ask } else { ask.header("If-None-Match", tag) })
    };
    for path in ["/api/agents/tools", "/api/agents/tools?format=mcp"] {
        let first = get(path, "");
        assert_eq!(first.status, 200);
        assert_eq!(first.header("content-type"), "application/json");
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"'), "{tag}");
        let again = get(path, &tag);
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        for answer in [&first, &again] {
            assert_eq!(answer.header("etag"), tag);
            assert_eq!(answer.header("cache-control"), "private, no-cache");
            assert_eq!(answer.header("vary"), "Authorization");
        }
        assert_eq!(get(path, &format!("W/{tag}, \"x\"")).status, 304);
        assert_eq!(get(path, "\"x\"").status, 200);
        // The entity tag of one list does not match another list.
        let other = get("/api/agents/tools?format=gemini", &tag);
        assert_eq!(other.status, 200);
        patch(&world, "petstore:listPets", json!({"description": format!("pets of {path}")}));
        let changed = get(path, &tag);
        assert_eq!(changed.status, 200);
        assert_ne!(changed.header("etag"), tag);
        assert!(changed.body.contains("pets of /api"));
    }
}
