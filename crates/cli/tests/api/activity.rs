//! The activity stream for admins: live events, and the missed ones after a reconnect.

use serde_json::json;

use super::server::{Ask, Event, Server};

fn describe_event(event: &Event) -> String {
    let text = |name: &str| event.body[name].as_str().unwrap_or_default().to_owned();
    match event.name.as_str() {
        "change" => {
            format!("{} {} {} by {}", text("type"), text("kind"), text("id"), text("actor"))
        }
        "call" => format!("call {} {} by {}", text("tool_id"), text("status"), text("subject")),
        other => other.to_owned(),
    }
}

#[test]
fn the_activity_stream_sends_past_and_new_changes_and_calls() {
    let server = Server::start();
    server.post("/api/groups", &json!({"name": "before"})).ok();
    let mut events = server.open_events(&server.ask("GET", "/api/activity?last=1"));
    let hello = events.next().unwrap();
    assert_eq!(hello.name, "hello");
    let before = events.next().unwrap();
    assert_eq!(describe_event(&before), "GroupCreated group before by key:first-admin");
    // A replayed event: it lies at the position that `hello` reports.
    assert_eq!(before.body["position"], hello.body["position"]);
    assert!(before.body.get("data").is_none(), "{}", before.body);

    server.post("/api/groups", &json!({"name": "new"})).ok();
    let new = events.next().unwrap();
    assert_eq!(describe_event(&new), "GroupCreated group new by key:first-admin");
    let call = json!({"name": "nothing"});
    assert_eq!(server.post("/api/agents/tools/call", &call).status, 404);
    let called = events.next().unwrap();
    assert_eq!(describe_event(&called), "call  failed by key:first-admin");
    assert_eq!(called.body["id"], 1);

    // A client that reconnects with `Last-Event-ID` gets only the events after that id.
    let back = Ask::new("GET", "/api/activity").bearer(&server.key);
    let mut events = server.open_events(&back.header("Last-Event-ID", &new.id));
    assert_eq!(events.next().unwrap().name, "hello");
    assert_eq!(describe_event(&events.next().unwrap()), "call  failed by key:first-admin");
    server.delete("/api/groups/new").ok();
    assert_eq!(
        describe_event(&events.next().unwrap()),
        "GroupDeleted group new by key:first-admin"
    );
}

#[test]
fn the_activity_stream_ends_when_the_caller_loses_admin_access() {
    let server = Server::start();
    let other = server.post("/api/keys", &json!({"name": "other", "admin": true})).ok();
    let other = other["key"].as_str().unwrap();
    let mut events = server.open_events(&Ask::new("GET", "/api/activity").bearer(other));
    assert_eq!(events.next().unwrap().name, "hello");
    server.put("/api/keys/other", &json!({"name": "other"})).ok();
    let bye = events.next().unwrap();
    assert_eq!((bye.name.as_str(), &bye.body), ("bye", &json!({"reason": "unauthorized"})));
    assert!(events.next().is_none());
    assert_eq!(server.get_as(other, "/api/activity").status, 403);
    assert_eq!(server.send(&Ask::new("GET", "/api/activity")).status, 401);
}
