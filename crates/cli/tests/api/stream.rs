//! The stream of changes to an agent's tools, live and after a reconnect (A2).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::issuer::World;
use super::server::{Ask, Event, Events, Server};
use super::sources::specification;
use crate::support::Folder;

fn world() -> World {
    World::on(Folder::with_catalog(), "")
}

fn open(world: &World, query: &str) -> Events {
    let token = world.token(json!({"role": "staff"}));
    world.server.open_events(&Ask::new("GET", &format!("/api/agents/stream{query}")).bearer(&token))
}

/// Resumes a stream after this event.
fn resume(server: &Server, token: &str, id: &str) -> Events {
    let ask = Ask::new("GET", "/api/agents/stream").bearer(token);
    server.open_events(&ask.header("Last-Event-ID", id))
}

/// An event as text, for example `tool_added listPets`.
fn describe_event(event: &Event) -> String {
    let name = event.body["name"].as_str().map(|name| format!(" {name}"));
    format!("{}{}", event.name, name.unwrap_or_default())
}

fn next_event(events: &mut Events) -> (String, String) {
    let event = events.next().unwrap();
    (describe_event(&event), event.id)
}

#[test]
fn a_stream_begins_with_all_tools_and_continues_with_changes() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"role": "staff"}));
    let mut events = open(&world, "");
    let first = events.next().unwrap();
    assert_eq!(first.name, "snapshot");
    assert_eq!(first.body, server.get_as(&token, "/api/agents/tools").ok());
    // Changes that do not affect this agent: an unused label, and a group that it is not granted.
    server.post("/api/labels", &json!({"name": "l"})).ok();
    server.post_empty("/api/groups/pets-all/activate").ok();
    server.post_empty("/api/tools/petstore:getOwner/disable").ok();
    let gone = events.next().unwrap();
    assert_eq!(gone.name, "tool_removed");
    assert_eq!(gone.body, json!({"name": "getOwner", "tool_id": "petstore:getOwner"}));
    assert!(!gone.id.is_empty() && gone.id != first.id);
    server.post_empty("/api/tools/petstore:getOwner/enable").ok();
    let back = events.next().unwrap();
    assert_eq!(
        (back.name.as_str(), &back.body["tool_id"]),
        ("tool_added", &json!("petstore:getOwner"))
    );
    assert_eq!(back.body, server.get_as(&token, "/api/agents/tools").ok()["data"][0]);
    let patch = server.ask("PATCH", "/api/tools/petstore:listPets");
    server.send(&patch.json(&json!({"description": "All pets"}))).ok();
    let changed = events.next().unwrap();
    assert_eq!(
        (changed.name.as_str(), &changed.body["description"]),
        ("tool_updated", &json!("All pets"))
    );
    // The events of one change are sent together, and only the last one has an id.
    server.post_empty("/api/policies/staff-read/deactivate").ok();
    assert_eq!(next_event(&mut events), ("tool_removed getOwner".into(), String::new()));
    let (last, id) = next_event(&mut events);
    assert_eq!(last, "tool_removed listPets");
    assert!(!id.is_empty());
}

#[test]
fn a_stream_uses_the_requested_format() {
    let world = world();
    let mut events = open(&world, "?format=anthropic");
    let first = events.next().unwrap();
    assert_eq!(
        first.body,
        world
            .server
            .get_as(&world.token(json!({"role": "staff"})), "/api/agents/tools?format=anthropic")
            .ok()
    );
    let patch = |body: Value| {
        let ask = world.server.ask("PATCH", "/api/tools/petstore:listPets");
        world.server.send(&ask.json(&body)).ok();
    };
    // This format does not show labels, and a renamed tool counts as removed and added.
    world.server.put("/api/tools/petstore:listPets/labels", &json!({"labels": ["pii"]})).ok();
    patch(json!({"name": "pets"}));
    assert_eq!(next_event(&mut events).0, "tool_removed listPets");
    let added = events.next().unwrap();
    assert_eq!(
        (describe_event(&added), added.body["input_schema"].is_object()),
        ("tool_added pets".into(), true)
    );
    let mut searching = open(&world, "?format=mcp&mode=search");
    assert_eq!(searching.next().unwrap().body["tools"][0]["name"], "tool_search");
    let mut narrow = open(&world, "?group=pets-read");
    assert_eq!(narrow.next().unwrap().body["data"].as_array().unwrap().len(), 2);
    world.server.post_empty("/api/groups/pets-read/deactivate").ok();
    let bye = narrow.next().unwrap();
    assert_eq!((bye.name.as_str(), &bye.body["reason"]), ("bye", &json!("not_found")));
    assert!(narrow.next().is_none());
    let ask = Ask::new("GET", "/api/agents/stream?group=others").bearer(&world.server.key);
    assert_eq!(world.server.send(&ask).status, 404);
}

#[test]
fn a_resumed_stream_sends_the_changes_since() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"role": "staff"}));
    let id = open(&world, "").next().unwrap().id;
    // Nothing changed for this agent, so no event is sent until something does.
    server.post("/api/labels", &json!({"name": "l"})).ok();
    let mut events = resume(server, &token, &id);
    server.post_empty("/api/tools/petstore:getOwner/disable").ok();
    let (gone, later) = next_event(&mut events);
    assert_eq!(gone, "tool_removed getOwner");
    drop(events);
    server.post_empty("/api/tools/petstore:deletePet/enable").ok();
    server.put("/api/groups/pets-read/tools", &json!({"tools": ["petstore:deletePet"]})).ok();
    let mut events = resume(server, &token, &id);
    assert_eq!(next_event(&mut events), ("tool_removed getOwner".into(), String::new()));
    let (added, newest) = next_event(&mut events);
    assert_eq!(added, "tool_added deletePet");
    assert_eq!(next_event(&mut resume(server, &token, &later)), (added, newest.clone()));
    // The id can be a query parameter for clients that cannot set headers.
    server.post_empty("/api/tools/petstore:deletePet/disable").ok();
    assert_eq!(
        next_event(&mut open(&world, &format!("?last_event_id={newest}"))).0,
        "tool_removed deletePet"
    );
    // An id that is foreign, from the future, or from an agent with other claims is ignored.
    let (position, digest) = id.split_once('-').unwrap();
    let strange =
        ["7", "x", "0-0", &format!("999999-{digest}"), &format!("{position}-{}", "0".repeat(64))];
    for id in strange {
        assert_eq!(next_event(&mut resume(server, &token, id)).0, "snapshot", "{id}");
    }
    let guest = world.token(json!({"role": "guest"}));
    assert_eq!(next_event(&mut resume(server, &guest, &id)).0, "snapshot");
}

#[test]
fn a_stream_ends_when_its_credential_is_revoked() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let made = server.post("/api/keys", &json!({"name": "bot", "claims": {"role": "staff"}})).ok();
    let key = made["key"].as_str().unwrap();
    let mut events = server.open_events(&Ask::new("GET", "/api/agents/stream").bearer(key));
    assert_eq!(next_event(&mut events).0, "snapshot");
    // A change of the key's claims takes effect on open streams too.
    server.put("/api/keys/bot", &json!({"name": "bot", "claims": {"role": "guest"}})).ok();
    assert_eq!(next_event(&mut events).0, "tool_removed getOwner");
    assert_eq!(next_event(&mut events).0, "tool_removed listPets");
    server.post_empty("/api/keys/bot/revoke").ok();
    let bye = events.next().unwrap();
    assert_eq!((bye.name.as_str(), &bye.body["reason"]), ("bye", &json!("unauthorized")));
    assert!(events.next().is_none());
}

#[test]
fn many_changes_at_once_cause_a_resync_with_a_snapshot() {
    let server = Server::start();
    let matchers = json!([{"claim": "anonymous", "operator": "equals", "value": true}]);
    server.post("/api/groups", &json!({"name": "all", "selectors": [{"name": "*"}]})).ok();
    server
        .post("/api/policies", &json!({"name": "p", "matchers": matchers, "groups": ["all"]}))
        .ok();
    let mut events =
        server.open_events(&Ask::new("GET", "/api/agents/stream?mode=auto&format=mcp"));
    assert_eq!(events.next().unwrap().body, json!({"tools": []}));
    let names: Vec<String> = (0..300).map(|number| format!("tool{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = specification(&names);
    let source =
        json!({"name": "s", "settings": {"kind": "openapi", "specification": {"text": text}}});
    server.post("/api/sources", &source).ok();
    assert_eq!(next_event(&mut events).0, "resync");
    let all = events.next().unwrap();
    assert_eq!((all.name.as_str(), all.body["tools"].as_array().unwrap().len()), ("snapshot", 300));
    assert!(!all.id.is_empty());
}

#[test]
fn a_stream_is_notified_that_the_server_stops() {
    let mut server = Server::start();
    let ask = Ask::new("GET", "/api/agents/stream");
    let mut streams = [(); 3].map(|()| server.open_events(&ask));
    streams.iter_mut().for_each(|events| assert_eq!(next_event(events).0, "snapshot"));
    let (code, said) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    for events in &mut streams {
        let bye = events.next().unwrap();
        assert_eq!((bye.name.as_str(), &bye.body["reason"]), ("bye", &json!("server_stops")));
        assert!(events.next().is_none());
    }
}
