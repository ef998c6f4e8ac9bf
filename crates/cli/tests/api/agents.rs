//! Tools of an agent: only policies that match its claims grant tools, and nothing else in a request does
//! (AUZ-01, AUZ-04, AUZ-15, AUZ-18 to AUZ-21, ADM-05).
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::issuer::{World, signed_token};
use super::roles::assert_every_route;
use super::server::{Ask, Server};
use crate::signer::Signer;
use crate::support::Folder;

/// Server with the small catalog: policy `staff-read` grants group `pets-read` to the role `staff`.
fn world() -> World {
    World::on(Folder::with_catalog(), "")
}

/// Ids of the tools that the holder of this credential is granted.
fn tools(server: &Server, credential: &str) -> Vec<String> {
    ids(&server.get_as(credential, "/api/agents/tools").ok())
}

fn ids(page: &Value) -> Vec<String> {
    let id = |tool: &Value| tool["tool_id"].as_str().unwrap().to_owned();
    page["data"].as_array().unwrap().iter().map(id).collect()
}

const BOTH: [&str; 2] = ["petstore:getOwner", "petstore:listPets"];
const NONE: [&str; 0] = [];

#[test]
fn a_tool_list_contains_complete_tool_definitions() {
    let world = world();
    let token = world.token(json!({"role": "staff"}));
    let page = world.server.get_as(&token, "/api/agents/tools").ok();
    assert_eq!(ids(&page), BOTH);
    insta::assert_json_snapshot!(page["data"][1], @r#"
    {
      "tool_id": "petstore:listPets",
      "name": "listPets",
      "description": "",
      "input_schema": {
        "type": "object"
      },
      "source_id": "petstore",
      "source_path": "/pets",
      "tags": [
        "pets"
      ],
      "version": 1,
      "visibility": "listed",
      "is_served": true
    }
    "#);
    assert!(page["data"][0]["input_schema"]["properties"]["id"].is_object());
}

#[test]
fn tools_are_granted_by_claims_and_never_by_default() {
    let world = world();
    for claims in [
        json!({}),
        json!({"role": "guest"}),
        json!({"role": "staffer"}),
        json!({"role": "Staff"}),
        json!({"role": ["staff", "guest"]}),
        json!({"role": {"staff": true}}),
        json!({"roles": "staff"}),
    ] {
        let token = world.token(claims.clone());
        let answer = world.server.get_as(&token, "/api/agents/tools");
        assert_eq!((answer.status, answer.ok()), (200, json!({"data": []})), "{claims}");
    }
    assert_eq!(tools(&world.server, &world.token(json!({"role": "staff"}))), BOTH);
    // The next caller does not get the cached result of the previous one.
    let guest = world.token(json!({"role": "guest", "jti": "1"}));
    assert_eq!(tools(&world.server, &guest), NONE);
    // The same claims signed with an untrusted key are rejected.
    let forged = signed_token(&Signer::p256(), json!({}), json!({"role": "staff"}));
    assert_eq!(world.server.get_as(&forged, "/api/agents/tools").status, 401);
}

#[test]
fn an_api_key_is_granted_tools_by_its_claims() {
    let world = world();
    let key = |name: &str, role: &str| {
        let made = world.server.post("/api/keys", &json!({"name": name, "claims": {"role": role}}));
        made.ok()["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(tools(&world.server, &key("a", "staff")), BOTH);
    assert_eq!(tools(&world.server, &key("b", "guest")), NONE);
    assert_eq!(tools(&world.server, &world.server.key), NONE, "an admin is not an agent with all");
}

#[test]
fn policies_can_match_any_claim() {
    let world = world();
    for claim in ["auth_time", "nonce", "session_state", "jti", "deep.down"] {
        let matchers = json!([{"claim": claim, "operator": "equals", "value": 1}]);
        let policy = json!({"name": claim.replace(['_', '.'], "-"), "matchers": matchers, "groups": ["pets-read"]});
        world.server.post("/api/policies", &policy).ok();
        let with = |value: Value| match claim.split_once('.') {
            Some((outer, inner)) => json!({outer: {inner: value}}),
            None => json!({claim: value}),
        };
        for _ in 0..2 {
            assert_eq!(tools(&world.server, &world.token(with(json!(1)))), BOTH, "{claim}");
            for other in [json!(2), json!("1"), json!(true)] {
                assert_eq!(tools(&world.server, &world.token(with(other))), NONE, "{claim}");
            }
        }
    }
}

#[test]
fn list_flags_require_admin_access() {
    let world = world();
    let staff = world.token(json!({"role": "staff"}));
    for query in
        ["skip_cache=true", "include_disabled=true", "skip_cache=true&include_disabled=true"]
    {
        let answer = world.server.get_as(&staff, &format!("/api/agents/tools?{query}"));
        assert!(answer.problem().starts_with("403 forbidden"), "{query}: {answer:?}");
    }
    let unset = "/api/agents/tools?skip_cache=false&include_disabled=false";
    assert_eq!(ids(&world.server.get_as(&staff, unset).ok()), BOTH);
    for query in
        ["force=true", "dry_run=true", "include_disabled_tools=true", "user=admin", "role=staff"]
    {
        let answer = world.server.get_as(&staff, &format!("/api/agents/tools?{query}"));
        assert!(answer.problem().starts_with("422 validation_error"), "{query}: {answer:?}");
    }
}

#[test]
fn an_admin_can_list_disabled_tools() {
    let world = world();
    let server = &world.server;
    server.post_empty("/api/groups/pets-all/activate").ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "boss"}]);
    let boss = json!({"name": "boss", "admin": true, "groups": ["pets-all"], "matchers": matchers});
    server.post("/api/policies", &boss).ok();
    let token = world.token(json!({"role": "boss"}));
    let get = |query: &str| server.get_as(&token, &format!("/api/agents/tools{query}")).ok();
    assert_eq!(
        (ids(&get("")), ids(&get("?skip_cache=true"))),
        (BOTH.map(str::to_owned).to_vec(), BOTH.map(str::to_owned).to_vec())
    );
    let all = get("?include_disabled=true");
    assert_eq!(ids(&all), ["petstore:deletePet", BOTH[0], BOTH[1]]);
    let served: Vec<_> =
        all["data"].as_array().unwrap().iter().map(|tool| &tool["is_served"]).collect();
    assert_eq!(served, [&json!(false), &json!(true), &json!(true)]);
    // Disabled or not, a tool outside the admin's own groups is not shown.
    server.post_empty("/api/groups/pets-all/deactivate").ok();
    assert_eq!(ids(&get("?include_disabled=true")), NONE);
}

#[test]
fn every_change_affects_the_very_next_request() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"role": "staff"}));
    let seen = || tools(server, &token);
    let changes: [(&str, &str, &[&str]); 10] = [
        ("policies/staff-read/deactivate", "", &NONE),
        ("policies/staff-read/activate", "", &BOTH),
        ("groups/pets-read/deactivate", "", &NONE),
        ("groups/pets-read/activate", "", &BOTH),
        ("tools/petstore:getOwner/disable", "", &BOTH[1..]),
        ("tools/petstore:getOwner/enable", "", &BOTH),
        ("sources/petstore/disable", "", &NONE),
        ("sources/petstore/enable", "", &BOTH),
        ("groups/pets-read/tools", r#"{"tools": ["petstore:deletePet"]}"#, &BOTH),
        ("tools/petstore:deletePet/enable", "", &["petstore:deletePet", BOTH[0], BOTH[1]]),
    ];
    // Two rounds: a result cached before a change must not reappear after it.
    for round in 0..2 {
        if round == 1 {
            server.post_empty("/api/tools/petstore:deletePet/disable").ok();
        }
        for (path, body, expected) in &changes {
            let path = format!("/api/{path}");
            match *body {
                "" => server.post_empty(&path).ok(),
                body => server.put(&path, &serde_json::from_str(body).unwrap()).ok(),
            };
            assert_eq!(seen(), *expected, "{path}");
        }
    }
}

#[test]
fn an_edited_group_takes_effect_immediately() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"role": "staff"}));
    assert_eq!(tools(server, &token), BOTH);
    let group = |more: Value| {
        let mut body =
            json!({"name": "Reading", "selectors": [{"source": "petstore", "method": "GET"}]});
        more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
        server.put("/api/groups/pets-read", &body).ok();
    };
    group(json!({"excluded": [{"tool": "petstore:getOwner"}]}));
    assert_eq!(tools(server, &token), BOTH[1..]);
    group(json!({"tools": ["petstore:getOwner"], "excluded": [{"tool": "petstore:getOwner"}]}));
    assert_eq!(tools(server, &token), BOTH[1..], "an exclusion wins inside its group");
    // The tool stays granted through another group.
    server.post("/api/groups", &json!({"name": "owners", "tools": ["petstore:getOwner"]})).ok();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
    server
        .put(
            "/api/policies/staff-read",
            &json!({"name": "s", "matchers": matchers, "groups": ["pets-read", "owners"]}),
        )
        .ok();
    assert_eq!(tools(server, &token), BOTH);
    group(json!({"selectors": []}));
    assert_eq!(tools(server, &token), BOTH[..1]);
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "boss"}]);
    server
        .put(
            "/api/policies/staff-read",
            &json!({"name": "s", "matchers": matchers, "groups": ["owners"]}),
        )
        .ok();
    assert_eq!(tools(server, &token), NONE);
    assert_eq!(tools(server, &world.token(json!({"role": "boss"}))), BOTH[..1]);
    server.delete("/api/policies/staff-read").ok();
    assert_eq!(tools(server, &world.token(json!({"role": "boss"}))), NONE);
}

#[test]
fn overridden_names_descriptions_and_visibility_reach_the_agent() {
    let world = world();
    let token = world.token(json!({"role": "staff"}));
    let patch = |body: Value| {
        let ask = world.server.ask("PATCH", "/api/tools/petstore:getOwner");
        world.server.send(&ask.json(&body)).ok();
    };
    let first = || world.server.get_as(&token, "/api/agents/tools").ok()["data"][0].clone();
    patch(json!({"name": "owner_of", "description": "Whose pet it is"}));
    let seen = first();
    assert_eq!(
        (&seen["tool_id"], &seen["name"]),
        (&json!("petstore:getOwner"), &json!("owner_of"))
    );
    assert_eq!(seen["description"], "Whose pet it is");
    patch(json!({"visibility": "searchable"}));
    // A searchable tool is not listed; the two search tools are listed instead.
    let page = world.server.get_as(&token, "/api/agents/tools").ok();
    let seen = page["data"].as_array().unwrap().iter();
    let seen: Vec<_> = seen.map(|tool| (&tool["name"], &tool["tool_id"])).collect();
    let (search, execute) = (json!("tool_search"), json!("execute_tool"));
    let (name, id) = (json!("listPets"), json!("petstore:listPets"));
    assert_eq!(seen, [(&search, &Value::Null), (&execute, &Value::Null), (&name, &id)]);
}

/// Headers that other proxies, frameworks and gateways have trusted for identity or routing.
fn spoofing_headers(admin_key: &str) -> Vec<(&'static str, String)> {
    let bearer = format!("Bearer {admin_key}");
    let tricks = [
        ("X-User-ID", "first-admin"),
        ("X-User", "key:first-admin"),
        ("X-User-Roles", "admin"),
        ("X-Forwarded-User", "admin"),
        ("X-Forwarded-Email", "admin@example.com"),
        ("X-Remote-User", "admin"),
        ("Remote-User", "admin"),
        ("X-Auth-Request-User", "admin"),
        ("X-Authenticated-Userid", "admin"),
        ("X-Authorization", &bearer),
        ("Proxy-Authorization", &bearer),
        ("X-Api-Key", admin_key),
        ("Cookie", &format!("token={admin_key}; Authorization={bearer}")),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Real-IP", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1;host=localhost"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Original-URL", "/api/groups"),
        ("X-Rewrite-URL", "/api/groups"),
        ("X-Forwarded-Prefix", "/api/groups"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-Method-Override", "DELETE"),
        ("X-Toolcrib-Internal", "1"),
        ("X-Toolcrib-Admin", "true"),
        ("X-Internal", "true"),
        ("mcp-init-host", "localhost"),
        ("router-key", "secret"),
        ("Connection", "Authorization"),
        ("Role", "staff"),
        ("X-Claims", r#"{"role":"staff"}"#),
    ];
    tricks.into_iter().map(|(name, value)| (name, value.to_owned())).collect()
}

#[test]
fn no_header_changes_the_identity_of_the_caller() {
    let world = world();
    let server = &world.server;
    let guest = world.token(json!({"role": "guest"}));
    let staff = world.token(json!({"role": "staff"}));
    let whoami = server.get_as(&guest, "/api/whoami").ok();
    for (name, value) in spoofing_headers(&server.key) {
        let get = |path: &str, token: &str| {
            server.send(&Ask::new("GET", path).bearer(token).header(name, &value))
        };
        assert_eq!(get("/api/whoami", &guest).ok(), whoami, "{name}");
        assert_eq!(get("/api/agents/tools", &guest).ok(), json!({"data": []}), "{name}");
        assert_eq!(ids(&get("/api/agents/tools", &staff).ok()), BOTH, "{name}");
        assert_eq!(get("/api/groups", &staff).status, 403, "{name}");
        let flags = get("/api/agents/tools?include_disabled=true", &staff);
        assert_eq!(flags.status, 403, "{name}");
        let nobody = server.send(&Ask::new("GET", "/api/whoami").header(name, &value));
        assert_eq!(nobody.status, 401, "{name}");
        let post =
            Ask::new("POST", "/api/groups/pets-all").bearer(&server.key).header(name, &value);
        assert_eq!(server.send(&post).status, 405, "{name}");
    }
    assert_eq!(server.get("/api/groups/pets-all").status, 200, "nothing was deleted");
}

#[test]
fn no_path_variant_bypasses_authorization() {
    let world = world();
    let staff = world.token(json!({"role": "staff"}));
    for path in [
        "/api/groups",
        "/api/groups/",
        "/api//groups",
        "//api/groups",
        "/api/./groups",
        "/api/agents/../groups",
        "/api/agents/tools/../../groups",
        "/api/agents/%2e%2e/groups",
        "/api/agents/..%2fgroups",
        "/api/agents/tools;/groups",
        "/api/whoami/../groups",
        "/api/docs/../groups",
        "/api/%67roups",
        "/api/groups%00",
        "/api/groups%20",
        "/api/groups.json",
        "/api/groups;jsessionid=1",
        "/API/groups",
        "/api/Groups",
        "/users/admin/api/groups",
        "/users/admin/mcp",
        "/internal/api/groups",
        "http://localhost/api/groups",
        "http://admin@localhost/api/groups",
        "/api/groups?user=admin",
        "/api/groups?access_token=x",
    ] {
        let answer = world.server.get_as(&staff, path);
        assert!(matches!(answer.status, 400 | 403 | 404), "{path}: {answer:?}");
        let nobody = world.server.send(&Ask::new("GET", path));
        assert!(matches!(nobody.status, 400 | 401 | 404), "{path}: {nobody:?}");
    }
    for path in ["/api/agents/admin/tools", "/api/users/admin/agents/tools", "/api/agents/tools/"] {
        assert_eq!(world.server.get_as(&staff, path).status, 404, "{path}");
    }
}

#[test]
fn a_token_without_a_matching_admin_policy_has_no_admin_access() {
    let world = world();
    let not_admins =
        |role: &str, status: u16| (status == 403) == (role == "admins") && status != 401;
    for claims in
        [json!({"role": "staff"}), json!({"role": "admin", "scope": "admin", "admin": true})]
    {
        assert_every_route(&world.server, Some(&world.token(claims)), not_admins);
    }
    let only_open = |role: &str, status: u16| (status == 401) != (role == "everybody");
    assert_every_route(
        &world.server,
        Some(&world.token(json!({"aud": "https://admin.example"}))),
        only_open,
    );
}

#[test]
fn a_token_has_admin_access_while_a_policy_grants_it() {
    let world = world();
    let server = &world.server;
    let token = world.token(json!({"groups": ["ops"]}));
    let matchers = json!([{"claim": "groups", "operator": "contains", "value": "ops"}]);
    server.post("/api/policies", &json!({"name": "ops", "admin": true, "matchers": matchers})).ok();
    let all = |_: &str, status: u16| status != 401 && status != 403;
    assert_every_route(server, Some(&token), all);
    assert_eq!(server.get_as(&token, "/api/whoami").ok()["is_admin"], true);
    assert_eq!(tools(server, &token), NONE, "an admin by policy has no tools by it");
    // The admin can disable its own policy, but cannot enable it again.
    let switch = |how: &str| {
        let ask = Ask::new("POST", &format!("/api/policies/ops/{how}")).bearer(&token);
        server.send(&ask).status
    };
    assert_eq!(switch("deactivate"), 200);
    assert_eq!(server.get_as(&token, "/api/whoami").ok()["is_admin"], false);
    assert_eq!(server.get_as(&token, "/api/groups").status, 403);
    assert_eq!(switch("activate"), 403);
    server.post_empty("/api/policies/ops/activate").ok();
    assert_eq!(server.get_as(&token, "/api/groups").status, 200);
    server.delete("/api/policies/ops").ok();
    assert_eq!(server.get_as(&token, "/api/groups").status, 403);
}

#[test]
fn a_change_by_an_admin_token_is_recorded_with_its_issuer() {
    let mut world = world();
    let matchers = json!([{"claim": "role", "operator": "equals", "value": "ops"}]);
    let policy = json!({"name": "ops", "admin": true, "matchers": matchers});
    world.server.post("/api/policies", &policy).ok();
    let token = world.token(json!({"role": "ops", "sub": "key:first-admin"}));
    let ask = Ask::new("POST", "/api/groups").bearer(&token);
    world.server.send(&ask.json(&json!({"name": "made by token"}))).ok();
    world.server.stop();
    let events = world.server.folder.run("journal tail --json").output();
    let event = events.lines().find(|line| line.contains("made-by-token")).unwrap();
    assert!(event.contains("token:https://id.example:key:first-admin"), "{event}");
}
