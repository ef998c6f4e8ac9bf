//! Tools: overrides by admins, and versions that wait for review.

use serde_json::json;

use super::server::Server;
use super::sources::{changeable_upstream, source_body, specification};
use crate::support::Folder;

#[test]
fn tools_can_be_filtered() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let ids = |query: &str| {
        let page = server.get(&format!("/api/tools{query}")).ok();
        let id = |tool: &serde_json::Value| tool["id"].as_str().unwrap().replace("petstore:", "");
        page["data"].as_array().unwrap().iter().map(id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(""), "deletePet getOwner listPets");
    assert_eq!(ids("?enabled=false"), "deletePet");
    assert_eq!(ids("?label=pii"), "getOwner");
    assert_eq!(ids("?tag=pets&q=LIST"), "listPets");
    assert_eq!(ids("?tag=none"), "");
    assert_eq!(ids("?source=tickets"), "");
    assert_eq!(ids("?status=active&review=approved&source=petstore&limit=2"), "deletePet getOwner");
    assert!(
        server
            .get("/api/tools?status=gone")
            .problem()
            .starts_with("422 validation_error: `status`")
    );
}

#[test]
fn a_tool_can_be_overridden_labelled_and_disabled() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let path = "/api/tools/petstore:getOwner";
    let patch = |body| server.send(&server.ask("PATCH", path).json(&body));
    let seen = server.get(path).ok();
    assert_eq!(
        (&seen["name"], &seen["labels"], &seen["is_served"]),
        (&json!("getOwner"), &json!(["pii"]), &json!(true))
    );
    assert!(seen["input_schema"]["properties"]["id"].is_object());
    let patched = patch(json!({"name": "owner_of", "description": "Whose pet it is"})).ok();
    assert!(seen["version"].as_u64().unwrap() < patched["version"].as_u64().unwrap());
    assert_eq!(
        (&patched["name"], &patched["description"]),
        (&json!("owner_of"), &json!("Whose pet it is"))
    );
    let patched = patch(json!({"name": null, "visibility": "searchable"})).ok();
    assert_eq!(patched["name"], "getOwner");
    assert_eq!(
        patched["overridden"],
        json!({"description": "Whose pet it is", "visibility": "searchable"})
    );
    let patched = patch(json!({"visibility": null})).ok();
    assert_eq!(patched["overridden"], json!({"description": "Whose pet it is"}));
    for name in [json!("two words"), json!(""), json!("a".repeat(65)), json!(7)] {
        assert_eq!(patch(json!({"name": name})).json()["errors"][0]["field"], "name");
    }
    assert_eq!(patch(json!({"labels": []})).json()["errors"][0]["field"], "labels");
    assert_eq!(
        server.put(&format!("{path}/labels"), &json!({"labels": []})).ok()["labels"],
        json!([])
    );
    let none = server.put(&format!("{path}/labels"), &json!({"labels": ["none"]}));
    assert_eq!(none.problem(), "422 validation_error: `labels`: there is no label `none`");
    let off = server.send(&server.ask("POST", &format!("{path}/disable"))).ok();
    assert_eq!((&off["is_enabled"], &off["is_served"]), (&json!(false), &json!(false)));
    assert_eq!(server.send(&server.ask("POST", &format!("{path}/enable"))).ok()["is_served"], true);
}

#[test]
fn a_patch_with_a_stale_entity_tag_is_rejected() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let path = "/api/tools/petstore:getOwner";
    let tag = server.get(path).header("etag").to_owned();
    let patch = |name: &str| {
        server
            .send(&server.ask("PATCH", path).header("If-Match", &tag).json(&json!({"name": name})))
    };
    assert_eq!(patch("one").status, 200);
    assert!(patch("two").problem().starts_with("412 precondition_failed"));
    assert_eq!(server.get(path).ok()["name"], "one");
}

#[test]
fn a_repeated_patch_succeeds_and_undoes_no_later_change() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let path = "/api/tools/petstore:listPets";
    let patch = |key: &str, body: serde_json::Value| {
        server.send(&server.ask("PATCH", path).header("Idempotency-Key", key).json(&body))
    };
    patch("one", json!({"name": "all_pets"})).ok();
    patch("two", json!({"description": "Every pet"})).ok();
    let again = patch("one", json!({"name": "all_pets"})).ok();
    assert_eq!((&again["name"], &again["description"]), (&json!("all_pets"), &json!("Every pet")));
    assert_eq!(patch("one", json!({"name": "no_pets"})).status, 422);
}

#[test]
fn concurrent_patches_of_different_fields_are_all_kept() {
    let server = Server::on_folder(Folder::with_catalog(), "");
    let path = "/api/tools/petstore:getOwner";
    let patch = |member: &str| {
        for round in 0..20 {
            let value =
                if member == "visibility" { json!("hidden") } else { json!(format!("r{round}")) };
            server.send(&server.ask("PATCH", path).json(&json!({member: value}))).ok();
        }
    };
    std::thread::scope(|scope| {
        for member in ["name", "description", "visibility"] {
            scope.spawn(move || patch(member));
        }
    });
    let wanted = json!({"name": "r19", "description": "r19", "visibility": "hidden"});
    assert_eq!(server.get(path).ok()["overridden"], wanted);
}

#[test]
fn an_id_with_a_slash_is_percent_encoded() {
    let server = Server::start();
    let manifest = json!({"tools": [{"name": "pets/list all", "inputSchema": {"type": "object"}, "endpoint": "/x", "method": "POST"}]});
    let upstream =
        crate::support::answering(crate::support::ok("application/json", &manifest.to_string()));
    let source = json!({"name": "m", "url": upstream.url(""), "settings": {"kind": "http_manifest"}, "allow": ["127.0.0.1"]});
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/m", |source| !source["inventory"].is_null());
    let id = server.get("/api/tools").ok()["data"][0]["id"].as_str().unwrap().to_owned();
    let encoded = id.replace('/', "%2F").replace(' ', "%20").replace(':', "%3A");
    assert_eq!(server.get(&format!("/api/tools/{encoded}")).ok()["id"], id);
    assert_eq!(
        server.send(&server.ask("POST", &format!("/api/tools/{encoded}/disable"))).ok()["is_enabled"],
        false
    );
    assert!(id.contains('/'), "{id}");
}

#[test]
fn new_and_changed_tools_wait_for_review() {
    let server = Server::start();
    let (upstream, text) = changeable_upstream(specification(&["cats"]));
    let mut source = source_body(&upstream);
    source["trust"] = json!("review");
    server.post("/api/sources", &source).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    let (path, act) = ("/api/tools/pets:cats", |what: &str, body| {
        server.post(&format!("/api/tools/pets:cats/{what}"), &body)
    });
    let seen = server.get(path).ok();
    assert_eq!((&seen["review"], &seen["is_served"]), (&json!("waiting"), &json!(false)));
    let diff = server.get(&format!("{path}/diff")).ok();
    assert_eq!(diff["served_fingerprint"], json!(null));
    assert!(
        diff["changes"]
            .as_array()
            .unwrap()
            .contains(&json!({"field": "name", "before": null, "after": "cats"}))
    );
    let first = diff["fingerprint"].clone();
    assert_eq!(act("approve", json!({"fingerprint": first})).ok()["is_served"], true);
    assert_eq!(server.get(&format!("{path}/diff")).ok()["changes"], json!([]));
    assert!(
        act("reject", json!({"fingerprint": first})).problem().starts_with("409 nothing_to_review")
    );

    *text.lock().unwrap() = specification(&["cats"]).replace("the cats", "all cats");
    server.send(&server.ask("POST", "/api/sources/pets/refresh")).ok();
    let diff = server.get(&format!("{path}/diff")).ok();
    assert_eq!(
        diff["changes"],
        json!([{"field": "description", "before": "the cats", "after": "all cats"}])
    );
    assert_eq!(diff["served_fingerprint"], first);
    assert_eq!(server.get(path).ok()["description"], "the cats");
    assert!(
        act("approve", json!({"fingerprint": first})).problem().starts_with("409 tool_has_changed")
    );
    let rejected =
        act("reject", json!({"fingerprint": diff["fingerprint"], "reason": "says too much"})).ok();
    assert_eq!((&rejected["review"], &rejected["is_served"]), (&json!("rejected"), &json!(true)));
    assert_eq!(
        act("approve", json!({"fingerprint": "abc"})).json()["errors"][0]["field"],
        "fingerprint"
    );
    assert_eq!(server.get("/api/tools?review=rejected").ok()["data"][0]["id"], "pets:cats");
}

#[test]
fn a_deprecated_tool_cannot_be_enabled() {
    let server = Server::start();
    let (upstream, text) = changeable_upstream(specification(&["cats", "dogs", "fish"]));
    server.post("/api/sources", &source_body(&upstream)).ok();
    server.wait_for("/api/sources/pets", |source| !source["inventory"].is_null());
    *text.lock().unwrap() = specification(&["cats", "dogs"]);
    server.send(&server.ask("POST", "/api/sources/pets/refresh")).ok();
    let problem = server.send(&server.ask("POST", "/api/tools/pets:fish/enable")).problem();
    assert!(problem.starts_with("409 tool_deprecated"), "{problem}");
    assert_eq!(server.get("/api/tools?status=deprecated").ok()["data"][0]["id"], "pets:fish");
}
