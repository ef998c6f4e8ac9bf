//! Policies: create, change, disable, delete; their order; and validation errors.

use serde_json::{Value, json};

use super::server::Server;

fn matcher() -> Value {
    json!({"claim": "role", "operator": "equals", "value": "staff"})
}

#[test]
fn a_policy_is_created_changed_deactivated_and_deleted() {
    let server = Server::start();
    server.post("/api/groups", &json!({"name": "g"})).ok();
    let body = json!({"name": "Staff", "matchers": [matcher()], "groups": ["g"], "priority": 5});
    let made = server.post("/api/policies", &body);
    assert_eq!((made.status, made.header("location")), (201, "/api/policies/staff"));
    let changed = json!({"name": "Staff", "matchers": [matcher()], "groups": ["g"], "description": "all of them"});
    let changed = server.put("/api/policies/staff", &changed).ok();
    assert_eq!((&changed["priority"], &changed["description"]), (&json!(0), &json!("all of them")));
    let off = server.send(&server.ask("POST", "/api/policies/staff/deactivate")).ok();
    assert_eq!(off["is_active"], false);
    assert_eq!(server.get("/api/policies?active=true").ok()["data"], json!([]));
    assert_eq!(
        server.send(&server.ask("POST", "/api/policies/staff/activate")).ok()["is_active"],
        true
    );
    assert_eq!(server.get("/api/policies?group=g&admin=false").ok()["data"][0]["id"], "staff");
    assert_eq!(server.delete("/api/policies/staff").ok(), json!({"id": "staff"}));
}

#[test]
fn policies_are_sorted_by_priority_across_pages() {
    let server = Server::start();
    server.post("/api/groups", &json!({"name": "g"})).ok();
    for (name, priority) in [("a", 1), ("b", 100), ("c", 20), ("d", 20)] {
        let body =
            json!({"name": name, "matchers": [matcher()], "groups": ["g"], "priority": priority});
        server.post("/api/policies", &body).ok();
    }
    let ids = |page: &Value| {
        let ids = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|policy| policy["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let first = server.get("/api/policies?limit=2").ok();
    let rest = server
        .get(&format!("/api/policies?cursor={}", first["next_cursor"].as_str().unwrap()))
        .ok();
    assert_eq!(
        (ids(&first), ids(&rest)),
        (vec!["b".to_owned(), "c".to_owned()], vec!["d".to_owned(), "a".to_owned()])
    );
}

#[test]
fn errors_in_a_policy_name_the_field() {
    let server = Server::start();
    server.post("/api/groups", &json!({"name": "g"})).ok();
    let wrong = |body: Value| server.post("/api/policies", &body).errors();
    insta::assert_snapshot!(wrong(json!({"name": "p", "groups": ["g"]})), @"matchers: is missing");
    insta::assert_snapshot!(wrong(json!({"name": "p", "groups": ["g"], "matchers": []})), @"matchers: needs at least one element");
    insta::assert_snapshot!(wrong(json!({"name": "p", "matchers": [matcher()]})), @"groups: is empty: a policy grants at least one group, or makes admins");
    insta::assert_snapshot!(wrong(json!({"name": "p", "matchers": [matcher()], "groups": ["none"]})), @"groups: there is no group `none`");
    let matchers =
        |matcher: Value| wrong(json!({"name": "p", "groups": ["g"], "matchers": [matcher]}));
    insta::assert_snapshot!(matchers(json!({})), @"
    matchers[0].claim: is missing
    matchers[0].operator: is missing
    ");
    insta::assert_snapshot!(matchers(json!({"claim": "a", "operator": "equals", "value": ""})), @"matchers[0].value: does not suit `equals`: give a value that is not empty, or use `not_exists`");
    insta::assert_snapshot!(matchers(json!({"claim": "a", "operator": "matches", "value": "("})), @"matchers[0].value: is not a regular expression: unclosed group; mend the expression");
    insta::assert_snapshot!(matchers(json!({"claim": "a", "operator": "exists", "missing": true})), @"matchers[0].missing: does not suit `exists`: leave it out, it is for `not_equals`, `not_contains` and `not_in`");
    insta::assert_snapshot!(matchers(json!({"claim": "a", "operator": "is", "value": "b"})), @"matchers[0].operator: there is no `is`; there is `equals`, `not_equals`, `contains`, `not_contains`, `matches`, `in`, `not_in`, `exists`, `not_exists`");
    insta::assert_snapshot!(matchers(json!({"claim": "a..b", "operator": "exists"})), @"matchers[0].claim: `a..b` is not a claim path: each segment has a name; write it like `realm_access.roles`");
    insta::assert_snapshot!(matchers(json!({"claim": "a", "operator": "exists", "mising": true})), @"matchers[0].mising: is not known here; did you mean `missing`?");
}

#[test]
fn errors_in_a_proposal_name_the_field_path() {
    let server = Server::start();
    let wrong = |more: Value| {
        let mut body = json!({"identities": [{"claims": {}}]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post("/api/access/what-if", &body).errors()
    };
    let groups = |selector: Value| {
        let good = json!({"id": "a", "name": "a", "selectors": [{"name": "*"}]});
        let bad = json!({"id": "b", "name": "b", "selectors": [{"name": "*"}, selector]});
        wrong(json!({"groups": [good, bad]}))
    };
    insta::assert_snapshot!(groups(json!({})), @r#"groups[1].selectors[1]: selector 2 says nothing and would select every tool: if that is meant, say `"name": "*"`"#);
    insta::assert_snapshot!(groups(json!({"name": "regex:("})), @"groups[1].selectors[1].name: `regex:(` is not a pattern: unclosed group; mend the expression");
    insta::assert_snapshot!(groups(json!({"nmae": "a"})), @"groups[1].selectors[1].nmae: is not known here; did you mean `name`?");
    let policy = |more: Value| {
        let mut body = json!({"id": "p", "name": "p", "matchers": [matcher()], "groups": ["none"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        wrong(json!({"policies": [body]}))
    };
    insta::assert_snapshot!(policy(json!({})), @"policies[0].groups: there is no group `none`");
    insta::assert_snapshot!(policy(json!({"groups": []})), @"policies[0].groups: is empty: a policy grants at least one group, or makes admins");
    insta::assert_snapshot!(policy(json!({"matchers": [{"claim": "a", "operator": "equals", "value": ""}]})), @"policies[0].matchers[0].value: does not suit `equals`: give a value that is not empty, or use `not_exists`");
    insta::assert_snapshot!(policy(json!({"is_active": 1})), @"policies[0].is_active: is to be a boolean or null, not a number");
}
