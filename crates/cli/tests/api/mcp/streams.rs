//! Notification streams: each listener gets the changes that affect it and no others; and how streams end.

use serde_json::{Value, json};

use super::Era::{Legacy, Modern};
use super::{Client, error_of_answer, grant, key, request, with_mirrored_headers};
use crate::api::calls::Shop;
use crate::api::server::{Events, Server};

const CHANGED: &str = "notifications/tools/list_changed";
const TAG: &str = "/params/_meta/io.modelcontextprotocol~1subscriptionId";

/// Opens a legacy stream.
fn open_legacy_stream(client: &Client<'_>) -> Events {
    client
        .server
        .open_events(&client.request_without_body("GET").header("Accept", "text/event-stream"))
}

/// Opens a legacy stream that resumes after this event.
fn resume_legacy_stream(client: &Client<'_>, id: &str) -> Events {
    let ask = client.request_without_body("GET").header("Accept", "text/event-stream");
    client.server.open_events(&ask.header("Last-Event-ID", id))
}

/// Opens a modern subscription; the stream starts after the acknowledgement.
fn open_subscription(client: &Client<'_>, id: Value, filter: Value) -> Events {
    let params = json!({"notifications": filter});
    let ask = client.request_without_body("POST").header("Accept", super::ACCEPT);
    let ask = with_mirrored_headers(ask, "subscriptions/listen", &params);
    let message = request(Modern, id.clone(), "subscriptions/listen", params);
    let mut events = client.server.open_events(&ask.json(&message));
    let first = events.next().unwrap().body;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], filter);
    assert_eq!(first.pointer(TAG), Some(&id));
    events
}

fn tool_changes() -> Value {
    json!({"toolsListChanged": true})
}

/// Journal position in an event id.
fn position(id: &str) -> u64 {
    id.strip_prefix("at-").unwrap().parse().unwrap()
}

/// Shop with a second role, `guest`, that is granted one tool.
fn two_roles() -> (Shop, String) {
    let shop = Shop::open();
    shop.server.post("/api/groups", &json!({"name": "one", "tools": ["pets:get_pet"]})).ok();
    grant(&shop.server, "guest", "one");
    let guest = key(&shop.server, "guest", &json!({"role": "guest"}));
    (shop, guest)
}

#[test]
fn listeners_are_notified_of_changes_to_their_own_tools_only() {
    let (shop, guest) = two_roles();
    let server = &shop.server;
    let staff = Client::new(server, &shop.key).initialized();
    let guest = Client::new(server, &guest).initialized();
    let (mut of_staff, mut of_guest) = (open_legacy_stream(&staff), open_legacy_stream(&guest));
    // A change that affects neither of them.
    server.post("/api/labels", &json!({"name": "l"})).ok();
    server.post_empty("/api/tools/pets:break_pet/disable").ok();
    let told = of_staff.next().unwrap();
    assert_eq!(told.body, json!({"jsonrpc": "2.0", "method": CHANGED, "params": {}}));
    server.post_empty("/api/groups/one/deactivate").ok();
    let later = of_guest.next().unwrap();
    assert_eq!(later.body["method"], CHANGED);
    assert!(position(&told.id) < position(&later.id), "{told:?} {later:?}");
    // A client that missed a change is notified immediately on reconnect; one that missed nothing is not.
    let missed = resume_legacy_stream(&staff, "at-1").next().unwrap();
    assert_eq!(missed.body["method"], CHANGED);
    let mut nothing = resume_legacy_stream(&staff, &missed.id);
    server.post_empty("/api/tools/pets:break_pet/enable").ok();
    assert!(position(&missed.id) < position(&nothing.next().unwrap().id));
}

#[test]
fn a_subscription_is_acknowledged_and_everything_in_it_is_tagged() {
    let (shop, guest) = two_roles();
    let server = &shop.server;
    let staff = Client::new(server, &shop.key);
    let mut by_number = open_subscription(&staff, json!(7), tool_changes());
    let mut by_text = open_subscription(&staff, json!("7"), tool_changes());
    let mut of_group = open_subscription(
        &Client::new(server, &shop.key).at_path("/mcp/all"),
        json!(1),
        tool_changes(),
    );
    let mut of_guest = open_subscription(&Client::new(server, &guest), json!(7), tool_changes());
    server.post_empty("/api/tools/pets:break_pet/disable").ok();
    for (events, id) in
        [(&mut by_number, json!(7)), (&mut by_text, json!("7")), (&mut of_group, json!(1))]
    {
        let told = events.next().unwrap().body;
        assert_eq!((&told["method"], told.pointer(TAG)), (&json!(CHANGED), Some(&id)));
        assert!(told.get("id").is_none());
    }
    // The guest got no notification for a change that did not affect it: its next message is the end.
    server.post_empty("/api/keys/guest/revoke").ok();
    assert_ends(&mut of_guest, &json!(7));
}

/// Checks that the stream ends with the response to the request.
fn assert_ends(events: &mut Events, id: &Value) {
    let last = events.next().unwrap().body;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (id, &json!("complete")), "{last}");
    let tag = &last["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(tag, id);
    assert!(events.next().is_none());
}

#[test]
fn only_requested_notifications_are_sent() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let mut events = open_subscription(&client, json!(1), json!({"promptsListChanged": true}));
    let mut told = open_subscription(&client, json!(2), tool_changes());
    shop.server.post_empty("/api/tools/pets:break_pet/disable").ok();
    assert_eq!(told.next().unwrap().body["method"], CHANGED);
    shop.server.post_empty("/api/keys/bot/revoke").ok();
    assert_ends(&mut events, &json!(1));
    assert_ends(&mut told, &json!(2));
}

#[test]
fn an_invalid_subscription_is_rejected() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    for params in [json!({}), json!({"notifications": []}), json!({"notifications": "all"})] {
        let (status, code, _) = client.error_of(Modern, "subscriptions/listen", params);
        assert_eq!((status, code), (200, -32602));
    }
    // Unknown and invalid filters are ignored; the acknowledgement lists the notifications that will be sent.
    let params = json!({"notifications": {"toolsListChanged": 1, "everything": true}});
    let mut events = client.server.open_events(&client.ask(Modern, "subscriptions/listen", params));
    let first = events.next().unwrap().body;
    assert_eq!(first["params"]["notifications"], json!({}));
    // A client that does not accept `text/event-stream` is rejected.
    let ask = client.request_without_body("POST").header("Accept", "application/json");
    let params = json!({"notifications": tool_changes()});
    let ask = with_mirrored_headers(ask, "subscriptions/listen", &params);
    let ask = ask.json(&request(Modern, json!(1), "subscriptions/listen", params));
    assert!(shop.server.send(&ask).problem().starts_with("406 not_acceptable"));
    let get = client.request_without_body("GET").header("Accept", "application/json");
    assert!(shop.server.send(&get).problem().starts_with("406 not_acceptable"));
    let get = client.request_without_body("GET").header("Accept", "text/event-stream");
    let answer = shop.server.send(&get.header("MCP-Protocol-Version", super::VERSION));
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
}

#[test]
fn streams_cannot_be_cached_or_buffered_by_proxies() {
    let shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let get = client.request_without_body("GET").header("Accept", "text/event-stream");
    let listen =
        client.ask(Modern, "subscriptions/listen", json!({"notifications": tool_changes()}));
    for ask in [get, listen] {
        let answer = shop.server.send(&ask);
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert_eq!(answer.header("cache-control"), "private, no-store");
        assert_eq!(answer.header("vary"), "Authorization");
        assert_eq!(answer.header("x-accel-buffering"), "no");
    }
}

#[test]
fn streams_end_properly_when_the_server_stops() {
    let mut shop = Shop::open();
    let client = Client::new(&shop.server, &shop.key);
    let mut modern = open_subscription(&client, json!("s"), tool_changes());
    let mut legacy = open_legacy_stream(&Client::new(&shop.server, &shop.key).initialized());
    shop.server.request_stop();
    assert_ends(&mut modern, &json!("s"));
    assert!(legacy.next().is_none());
    drop((modern, legacy));
    assert_eq!(shop.server.wait_for_exit(), (Some(0), String::new()));
}

#[test]
fn streams_end_when_the_credential_or_the_group_is_revoked() {
    let server = Server::start();
    server.post("/api/groups", &json!({"name": "one"})).ok();
    grant(&server, "staff", "one");
    let bot = key(&server, "bot", &json!({"role": "staff"}));
    let mut narrow = open_subscription(
        &Client::new(&server, &bot).at_path("/mcp/one"),
        json!(1),
        tool_changes(),
    );
    let mut wide = open_subscription(&Client::new(&server, &bot), json!(2), tool_changes());
    let mut legacy = open_legacy_stream(&Client::new(&server, &bot));
    server.post_empty("/api/groups/one/deactivate").ok();
    assert_ends(&mut narrow, &json!(1));
    server.post_empty("/api/keys/bot/revoke").ok();
    assert_ends(&mut wide, &json!(2));
    assert!(legacy.next().is_none());
    let client = Client::new(&server, &bot);
    let answer = client.send(Legacy, "tools/list", json!({}));
    assert!(answer.problem().starts_with("401 unauthorized"));
    let guest = key(&server, "guest", &json!({}));
    let client = Client::new(&server, &guest);
    assert!(client.send(Modern, "subscriptions/listen", json!({})).json()["error"].is_object());
    assert_eq!(error_of_answer(&client.send(Modern, "subscriptions/listen", json!({}))).1, -32602);
}
