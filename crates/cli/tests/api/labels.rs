//! Labels: create, read, change, delete.

use serde_json::json;

use super::server::Server;

#[test]
fn a_label_can_be_created_read_changed_and_deleted() {
    let server = Server::start();
    let made = server.post("/api/labels", &json!({"name": "Personal data", "colour": "#FF0000"}));
    assert_eq!((made.status, made.header("location")), (201, "/api/labels/personal-data"));
    let seen = server.get("/api/labels/personal-data");
    assert_eq!((&seen.ok(), seen.header("etag")), (&made.ok(), made.header("etag")));
    assert_eq!(seen.ok()["colour"], "#ff0000");
    let body = json!({"name": "PII", "description": "about people"});
    let changed = server.put("/api/labels/personal-data", &body).ok();
    assert_eq!((&changed["name"], &changed["colour"]), (&json!("PII"), &json!("#808080")));
    assert_eq!(server.get("/api/labels").ok()["data"], json!([changed]));
    let gone = server.delete("/api/labels/personal-data").ok();
    assert_eq!(gone, json!({"id": "personal-data", "unlabelled_tools": 0}));
    let problem = "404 not_found: there is no label `personal-data`";
    assert_eq!(server.get("/api/labels/personal-data").problem(), problem);
    assert_eq!(server.delete("/api/labels/personal-data").problem(), problem);
}

#[test]
fn an_id_is_given_or_derived_from_the_name_and_unique() {
    let server = Server::start();
    let create = |body| server.post("/api/labels", &body);
    assert_eq!(create(json!({"id": "a", "name": "A"})).ok()["id"], "a");
    let taken = "409 already_exists: there is a label `a` already";
    assert_eq!(create(json!({"name": "A!"})).problem(), taken);
    let none = create(json!({"name": "日本"})).json();
    assert_eq!(none["errors"][0]["field"], "id");
    let bad = create(json!({"id": "Not An Id", "name": "A"})).json();
    assert_eq!(bad["errors"][0]["field"], "id");
}
