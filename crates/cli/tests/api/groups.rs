//! Groups: create, replace, enable, delete; pagination; and validation errors.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::{Ask, Server};
use crate::support::Folder;

#[test]
fn a_group_is_created_replaced_deactivated_and_deleted() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let body = json!({
        "name": "Reading pets", "selectors": [{"source": "petstore", "method": "get"}],
        "tools": ["petstore:deletePet"], "excluded": [{"tool": "petstore:getOwner", "reason": "private"}],
    });
    let made = server.post("/api/groups", &body).ok();
    assert_eq!(made["id"], "reading-pets");
    assert_eq!((&made["tool_count"], &made["served_count"]), (&json!(2), &json!(1)));
    let tools = server.get("/api/groups/reading-pets/tools").ok();
    let rows: Vec<_> = tools["data"].as_array().unwrap().iter().collect();
    assert_eq!(rows[0]["tool_id"], "petstore:deletePet");
    assert_eq!((&rows[0]["is_explicit"], &rows[0]["is_served"]), (&json!(true), &json!(false)));
    assert_eq!(rows[1]["tool_id"], "petstore:listPets");
    assert_eq!((&rows[1]["is_explicit"], &rows[1]["is_served"]), (&json!(false), &json!(true)));
    let served = server.get("/api/groups/reading-pets/tools?served=true").ok();
    assert_eq!(served["data"].as_array().unwrap().len(), 1);

    let path = "/api/groups/reading-pets";
    let off = server.send(&server.ask("POST", &format!("{path}/deactivate"))).ok();
    assert_eq!((&off["is_active"], &off["served_count"]), (&json!(false), &json!(0)));
    let replaced = server.put(path, &json!({"name": "Pets", "selector_mode": "any"})).ok();
    assert_eq!(replaced["excluded"], json!([]));
    assert_eq!((&replaced["selectors"], &replaced["is_active"]), (&json!([]), &json!(false)));
    let selected =
        server.put(&format!("{path}/selectors"), &json!({"selectors": [{"name": "list*"}]}));
    assert_eq!(selected.ok()["tool_count"], 1);
    let explicit = server.put(&format!("{path}/tools"), &json!({"tools": ["petstore:getOwner"]}));
    assert_eq!(explicit.ok()["tool_count"], 2);
    assert_eq!(
        server.send(&server.ask("POST", &format!("{path}/activate"))).ok()["is_active"],
        true
    );
    assert_eq!(server.delete(path).ok(), json!({"id": "reading-pets"}));
}

#[test]
fn a_group_that_a_policy_grants_cannot_be_deleted() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let problem = server.delete("/api/groups/pets-read").problem();
    assert!(
        problem.starts_with("409 group_is_granted: group `pets-read` is granted by `staff-read`"),
        "{problem}"
    );
}

#[test]
fn errors_in_a_group_name_the_field() {
    let server = Server::start();
    let wrong = |body: Value| server.post("/api/groups", &body).errors();
    let selector =
        |selector: Value| wrong(json!({"name": "g", "selectors": [{"name": "a"}, selector]}));
    insta::assert_snapshot!(selector(json!({"nmae": "secret*"})), @"selectors[1].nmae: is not known here; did you mean `name`?");
    insta::assert_snapshot!(selector(json!({"name": ""})), @"selectors[1].name: is empty");
    insta::assert_snapshot!(selector(json!({"name": "regex:("})), @"selectors[1].name: `regex:(` is not a pattern: unclosed group; mend the expression");
    insta::assert_snapshot!(selector(json!({"name": "regex:(a{1000}){1000}"})), @"selectors[1].name: `regex:(a{1000}){1000}` is not a pattern: it takes too much memory; make it shorter or repeat less");
    insta::assert_snapshot!(selector(json!({"required_labels": ["Not An Id"]})), @"selectors[1].required_labels[0]: is to be an id: 1 to 64 of the characters a-z, 0-9 and inner `-`");
    insta::assert_snapshot!(wrong(json!({"selectors": {}, "tools": ["no colon"], "is_active": true})), @"
    name: is missing
    selectors: is to be an array, not an object
    tools[0]: is to be the id of a tool, `source:key`
    is_active: is not known here; there is `id`, `name`, `description`, `selector_mode`, `visibility`, `selectors`, `tools`, `excluded`
    ");
    assert_eq!(server.get("/api/groups").ok()["data"], json!([]));
}

#[test]
fn a_change_with_a_stale_entity_tag_is_rejected() {
    let server = Server::start();
    let made = server.post("/api/groups", &json!({"name": "g"}));
    let tag = made.header("etag").to_owned();
    let put = |tag: &str, name: &str| {
        server.send(
            &server
                .ask("PUT", "/api/groups/g")
                .header("If-Match", tag)
                .json(&json!({"name": name})),
        )
    };
    let first = put(&tag, "one");
    assert_eq!(first.status, 200);
    let late = "412 precondition_failed: group `g` has changed since you read it: read it again";
    assert_eq!(put(&tag, "two").problem(), late);
    assert_eq!(put(&format!("\"other\", {}", first.header("etag")), "three").status, 200);
    assert_eq!(put("*", "four").status, 200);
    assert_eq!(put("W/\"four\"", "five").problem(), late);
    assert!(put("five", "five").problem().starts_with("400 invalid_request"));
    let act =
        |method: &str, path: &str| server.send(&server.ask(method, path).header("If-Match", &tag));
    assert_eq!(act("POST", "/api/groups/g/deactivate").problem(), late);
    assert_eq!(act("DELETE", "/api/groups/g").problem(), late);
    assert_eq!(server.get("/api/groups/g").ok()["name"], "four");
}

#[test]
fn a_request_with_an_idempotency_key_is_executed_once() {
    let server = Server::start();
    let ask = |key: &str, body: Value| {
        server.send(&server.ask("POST", "/api/groups").header("Idempotency-Key", key).json(&body))
    };
    let first = ask("k1", json!({"name": "g"}));
    let second = ask("k1", json!({"name": "g"}));
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body, second.body);
    assert!(
        ask("k1", json!({"name": "other"})).problem().starts_with("422 idempotency_key_reused")
    );
    assert!(ask("k2", json!({"name": "g"})).problem().starts_with("409 already_exists"));
    assert!(
        ask(&"k".repeat(256), json!({"name": "h"})).problem().starts_with("400 invalid_request")
    );
    // Idempotency keys of different admins are independent.
    let other = server.post("/api/keys", &json!({"name": "other", "admin": true})).ok();
    let other = Ask::new("POST", "/api/groups").bearer(other["key"].as_str().unwrap());
    let other = server.send(&other.header("Idempotency-Key", "k1").json(&json!({"name": "h"})));
    assert_eq!(other.status, 201);
}

#[test]
fn pages_skip_and_repeat_no_group_while_groups_change() {
    let server = Server::start();
    for number in 0..120 {
        server.post("/api/groups", &json!({"name": format!("g{number:03}")})).ok();
    }
    let mut seen = Vec::new();
    let mut path = "/api/groups?limit=40".to_owned();
    loop {
        let page = server.get(&path).ok();
        seen.extend(
            page["data"]
                .as_array()
                .unwrap()
                .iter()
                .map(|group| group["id"].as_str().unwrap().to_owned()),
        );
        if seen.len() == 40 {
            // Delete the last group of this page and one of the next, and add one behind the cursor.
            server.delete("/api/groups/g039").ok();
            server.delete("/api/groups/g050").ok();
            server.post("/api/groups", &json!({"name": "g000a"})).ok();
        }
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/api/groups?limit=40&cursor={cursor}");
    }
    let expected: BTreeSet<_> = (0..120).filter(|n| *n != 50).map(|n| format!("g{n:03}")).collect();
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(seen.len(), expected.len());
    let found = server.get("/api/groups?q=G11&limit=200").ok();
    assert_eq!(found["data"].as_array().unwrap().len(), 10);
}

#[test]
fn selectors_of_several_kinds_that_must_all_match_are_rejected() {
    let server = Server::start();
    let selectors = json!([{"source": "pets"}, {"kind": "prompt", "source": "pets"}]);
    let all = json!({"name": "pets", "selectors": selectors});
    let why = "selectors: the selectors are of several kinds, and nothing matches all of them: say `\"selector_mode\": \"any\"`, or make a group for each kind";
    assert_eq!(server.post("/api/groups", &all).errors(), why);
    let mut any = all.clone();
    any["selector_mode"] = json!("any");
    assert_eq!(server.post("/api/groups", &any).status, 201);
    assert_eq!(server.put("/api/groups/pets", &all).errors(), why);
}
