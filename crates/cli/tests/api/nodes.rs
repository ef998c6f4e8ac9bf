//! Two nodes on one journal: a revocation on one takes effect on the other within two seconds (AUZ-15), and a stream
//! can be resumed at either node (A2).

use std::time::{Duration, Instant};

use serde_json::json;

use super::issuer::{config_with_inline_key, signed_token};
use super::secrets;
use super::server::{Answer, Ask, Server};
use crate::signer::Signer;
use crate::support::{Folder, KEY, ok, postgres_database};
use crate::upstream::Upstream;

/// Longest delay until a change takes effect on another node.
const WITHIN: Duration = Duration::from_secs(2);

/// Polls until the answer meets the condition; returns how long that took.
fn time_until(what: &str, look: impl Fn() -> Answer, wanted: impl Fn(&Answer) -> bool) -> Duration {
    let start = Instant::now();
    loop {
        let asked = start.elapsed();
        let seen = look();
        if wanted(&seen) {
            return asked;
        }
        assert!(asked < WITHIN, "{what}: {seen:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_secret_replaced_on_one_node_is_used_by_the_other_within_a_second() {
    let database = postgres_database("api_secret_of_two_nodes");
    let folder = Folder::empty();
    folder.write("sealing.key", KEY);
    let path = folder.path("sealing.key").display().to_string();
    let options = format!("--journal {database} --sealing-key-file {path}");
    let one = Server::on_folder(folder, &options);
    let two = Server::second_node(&one, &options);
    let upstream = Upstream::replying(|_| ok("application/json", "{}"));
    secrets::set_secret(&one, "first");
    let agent = secrets::add_pets(&one, &upstream);
    time_until("the tool", || secrets::call(&two, &agent), |answer| answer.status == 200);
    for value in ["second", "third"] {
        secrets::set_secret(&one, value);
        let replaced = Instant::now();
        let shown = format!("Bearer {value}\r\n");
        let call = || {
            secrets::call(&two, &agent);
            upstream.requests().pop().unwrap()
        };
        let mut asked = replaced.elapsed();
        while !call().contains(&shown) {
            assert!(asked <= Duration::from_secs(1), "{value} after {asked:?}");
            std::thread::sleep(Duration::from_millis(5));
            asked = replaced.elapsed();
        }
    }
}

#[test]
fn a_revocation_on_one_node_takes_effect_on_the_other() {
    let database = postgres_database("api_two_nodes");
    let signer = Signer::p256();
    let config = json!({"issuers": [config_with_inline_key(&signer, json!({}))]}).to_string();
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    folder.run_with("journal import -", &export, &[("TOOLCRIB_JOURNAL", &database)]).output();
    folder.write("config.json", &config);
    let path = folder.path("config.json").display().to_string();
    let options = format!("--journal {database} --config {path}");
    let one = Server::on_folder(folder, &options);
    let two = Server::second_node(&one, &options);

    let key = json!({"name": "bot", "claims": {"role": "staff"}});
    let key = one.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    let token = signed_token(&signer, json!({}), json!({"role": "staff", "ops": true}));
    let count = |answer: &Answer| answer.json()["data"].as_array().map_or(0, Vec::len);
    let tools = |credential: &str| two.get_as(credential, "/api/agents/tools");
    time_until("the key", || tools(&key), |answer| answer.status == 200 && count(answer) == 2);
    time_until("the token", || tools(&token), |answer| count(answer) == 2);

    for (off, on) in [
        ("policies/staff-read/deactivate", "policies/staff-read/activate"),
        ("groups/pets-read/deactivate", "groups/pets-read/activate"),
        ("sources/petstore/disable", "sources/petstore/enable"),
    ] {
        one.post_empty(&format!("/api/{off}")).ok();
        assert_eq!(count(&one.get_as(&token, "/api/agents/tools")), 0, "{off}");
        time_until(off, || tools(&token), |answer| count(answer) == 0);
        // In the other direction too.
        two.post_empty(&format!("/api/{on}")).ok();
        assert_eq!(count(&tools(&token)), 2, "{on}");
        time_until(on, || one.get_as(&token, "/api/agents/tools"), |answer| count(answer) == 2);
    }

    let matchers = json!([{"claim": "ops", "operator": "equals", "value": true}]);
    one.post("/api/policies", &json!({"name": "ops", "admin": true, "matchers": matchers})).ok();
    time_until("an admin", || two.get_as(&token, "/api/groups"), |answer| answer.status == 200);
    one.post_empty("/api/policies/ops/deactivate").ok();
    time_until("no admin", || two.get_as(&token, "/api/groups"), |answer| answer.status == 403);

    one.post_empty("/api/keys/bot/revoke").ok();
    assert_eq!(one.get_as(&key, "/api/agents/tools").status, 401);
    time_until("revoked", || tools(&key), |answer| answer.status == 401);
    // Either node may still have to record a refresh.
    let explain = |server: &Server| server.post("/api/access/explain", &json!({"claims": {}}));
    let position = |answer: &Answer| answer.json()["position"].clone();
    time_until("all", || explain(&two), |seen| position(seen) == position(&explain(&one)));
}

#[test]
fn a_stream_can_be_resumed_at_another_node() {
    let database = postgres_database("api_stream_nodes");
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    folder.run_with("journal import -", &export, &[("TOOLCRIB_JOURNAL", &database)]).output();
    let options = format!("--journal {database}");
    let one = Server::on_folder(folder, &options);
    let two = Server::second_node(&one, &options);
    let key = json!({"name": "bot", "claims": {"role": "staff"}});
    let key = one.post("/api/keys", &key).ok()["key"].as_str().unwrap().to_owned();
    let tools = || two.get_as(&key, "/api/agents/tools");
    time_until("the key", tools, |answer| answer.status == 200);
    let open = |server: &Server, id: &str| {
        let ask = Ask::new("GET", "/api/agents/stream").bearer(&key);
        server.open_events(&ask.header("Last-Event-ID", id))
    };
    let first = open(&one, "").next().unwrap();
    assert_eq!(first.name, "snapshot");
    // Changes while the agent listens at the other node, and while it is disconnected.
    let mut events = open(&two, &first.id);
    one.post_empty("/api/tools/petstore:getOwner/disable").ok();
    let gone = events.next().unwrap();
    assert_eq!((gone.name.as_str(), &gone.body["name"]), ("tool_removed", &json!("getOwner")));
    drop(events);
    two.post_empty("/api/tools/petstore:listPets/disable").ok();
    time_until(
        "the list",
        || one.get_as(&key, "/api/agents/tools"),
        |answer| answer.json()["data"] == json!([]),
    );
    let last = open(&one, &gone.id).next().unwrap();
    assert_eq!((last.name.as_str(), &last.body["name"]), ("tool_removed", &json!("listPets")));
    let both = open(&one, &first.id).next().unwrap();
    assert_eq!((both.name.as_str(), &both.body["name"]), ("tool_removed", &json!("getOwner")));
}
