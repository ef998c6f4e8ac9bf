//! Every route as every kind of caller. The list of routes comes from the server, so new routes are included; a handler
//! that admits more callers than the route table states fails here.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::server::{Ask, Server};

/// Method, path and role of every route.
fn routes(server: &Server) -> Vec<(String, String, String)> {
    let document = server.send(&Ask::new("GET", "/api/openapi.json")).ok();
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let role = operation["x-toolcrib-for"].as_str().unwrap().to_owned();
            routes.push((
                method.to_uppercase(),
                path.replace("{id}", "nothing").replace("{name}", "nothing"),
                role,
            ));
        }
    }
    routes
}

/// Requests every route; `expected` decides whether a status is right for the role of the route.
pub(super) fn assert_every_route(
    server: &Server,
    credential: Option<&str>,
    expected: impl Fn(&str, u16) -> bool,
) {
    for (method, path, role) in routes(server) {
        let mut ask = Ask::new(&method, &path);
        if let Some(credential) = credential {
            ask = ask.bearer(credential);
        }
        if method != "GET" {
            ask = ask.json(&Value::Object(Default::default()));
        }
        let answer = server.send(&ask);
        assert!(expected(&role, answer.status), "{method} {path} for {role}: {answer:?}");
    }
}

#[test]
fn every_route_admits_exactly_its_role() {
    let server = Server::start();
    let agent =
        server.post("/api/keys", &json!({"name": "agent", "claims": {"role": "admin"}})).ok();
    let agent = agent["key"].as_str().unwrap().to_owned();
    let changed = |key: &str| {
        let (rest, last) = key.split_at(key.len() - 1);
        format!("{rest}{}", if last == "A" { "B" } else { "A" })
    };
    let only_open = |role: &str, status: u16| (status == 401) != (role == "everybody");
    let not_admins =
        |role: &str, status: u16| (status == 403) == (role == "admins") && status != 401;
    let nobody = |role: &str, status: u16| (status == 401) == (role == "admins") && status != 403;
    let all = |_: &str, status: u16| status != 401 && status != 403;
    // From this machine, a request without a credential is anonymous.
    assert_every_route(&server, None, nobody);
    assert_every_route(&server, Some("tcrib_nobody_secret"), only_open);
    assert_every_route(&server, Some(&changed(&server.key)), only_open);
    assert_every_route(&server, Some("eyJhbGciOiJub25lIn0.e30."), only_open);
    assert_every_route(&server, Some(&agent), not_admins);
    assert_every_route(&server, Some(&server.key), all);
    // From elsewhere, a request without a credential is rejected.
    let server = server.restart("--listen 0.0.0.0:0");
    assert_every_route(&server, None, only_open);
    assert_every_route(&server, Some(&agent), not_admins);
    let server = server.restart("--listen 0.0.0.0:0 --allow-anonymous");
    assert_every_route(&server, None, nobody);
}

#[test]
fn a_caller_is_an_admin_while_an_admin_policy_matches() {
    let server = Server::start();
    let bot = server.post("/api/keys", &json!({"name": "bot", "claims": {"role": "ops"}})).ok();
    let list =
        || server.send(&Ask::new("GET", "/api/groups").bearer(bot["key"].as_str().unwrap())).status;
    assert_eq!(list(), 403);
    let policy = json!({"name": "ops", "admin": true, "matchers": [{"claim": "role", "operator": "equals", "value": "ops"}]});
    server.post("/api/policies", &policy).ok();
    assert_eq!(list(), 200);
    server.send(&server.ask("POST", "/api/policies/ops/deactivate")).ok();
    assert_eq!(list(), 403);
}
