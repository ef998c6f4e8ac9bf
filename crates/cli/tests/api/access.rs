//! Access explanations (`explain`) and change proposals (`what-if`) over the API.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use serde_json::{Value, json};

use super::server::{Answer, Server};
use super::sources::specification;
use crate::support::Folder;

/// Server with the small catalog. Since event 18, policy `staff-read` grants group `pets-read` to role `staff`.
fn server() -> Server {
    Server::on_folder(Folder::with_catalog(), "")
}

fn explain(server: &Server, body: Value) -> Answer {
    server.post("/api/access/explain", &body)
}

fn what_if(server: &Server, body: Value) -> Answer {
    server.post("/api/access/what-if", &body)
}

fn staff() -> Value {
    json!({"role": "staff"})
}

fn matchers(role: &str) -> Value {
    json!([{"claim": "role", "operator": "equals", "value": role}])
}

/// Last position of the journal.
fn position(server: &Server) -> u64 {
    explain(server, json!({"claims": {}})).ok()["position"].as_u64().unwrap()
}

#[test]
fn explain_lists_the_tools_of_an_identity_with_reasons() {
    let server = server();
    let mut seen = explain(&server, json!({"claims": staff()})).ok();
    // The server has just created its first admin, so the time differs between runs.
    seen["time"].take();
    insta::assert_json_snapshot!(seen, @r#"
    {
      "position": 19,
      "time": null,
      "admin": false,
      "tool_count": 2,
      "policies": [
        {
          "id": "staff-read",
          "name": "Staff may read",
          "priority": 10,
          "is_active": true,
          "grants": true,
          "groups": [
            "pets-read"
          ],
          "admin": false,
          "matches": true,
          "matchers": [
            {
              "claim": "role",
              "operator": "equals",
              "value": "staff",
              "found": [
                "staff"
              ],
              "matches": true,
              "why": "`role` is \"staff\": it equals \"staff\""
            }
          ]
        }
      ],
      "groups": [
        {
          "id": "pets-read",
          "name": "pets-read",
          "is_active": true,
          "granted_by": [
            "staff-read"
          ],
          "tool_count": 2
        }
      ],
      "has": [
        {
          "tool": "petstore:getOwner",
          "name": "getOwner",
          "visibility": "listed"
        },
        {
          "tool": "petstore:listPets",
          "name": "listPets",
          "visibility": "listed"
        }
      ]
    }
    "#);
    let nobody = explain(&server, json!({"claims": {}})).ok();
    assert_eq!((&nobody["has"], &nobody["groups"]), (&json!([]), &json!([])));
    assert_eq!(nobody["policies"][0]["grants"], false);
}

#[test]
fn explain_shows_why_a_tool_is_granted_or_blocked() {
    let server = server();
    let about = |role: &str, tool: &str| {
        let seen = explain(&server, json!({"claims": {"role": role}, "tool": tool})).ok();
        assert_eq!(seen.get("has"), None);
        assert_eq!(seen["tools"].as_array().unwrap().len(), 1);
        seen["tools"][0].clone()
    };
    let codes = |tool: &Value| {
        let stops = tool["stopped_by"].as_array().unwrap().iter();
        stops.map(|stop| stop["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for name in ["petstore:getOwner", "getOwner", "petstore__getOwner"] {
        let owner = about("staff", name);
        assert_eq!(
            (&owner["tool"], &owner["granted"]),
            (&json!("petstore:getOwner"), &json!(true))
        );
        assert_eq!(codes(&owner), "");
    }
    assert_eq!(codes(&about("guest", "getOwner")), "no_policy_matches");
    assert_eq!(codes(&about("staff", "deletePet")), "tool_disabled no_policy_matches");
    let unknown = about("staff", "no such <tool>\r\n");
    assert_eq!((&unknown["granted"], codes(&unknown)), (&json!(false), "no_such_tool".to_owned()));
    server.post_empty("/api/sources/petstore/disable").ok();
    assert_eq!(codes(&about("staff", "getOwner")), "source_disabled");
    server.post_empty("/api/policies/staff-read/deactivate").ok();
    assert_eq!(codes(&about("staff", "getOwner")), "source_disabled no_policy_matches");
}

#[test]
fn explain_answers_for_past_positions_and_times() {
    let server = server();
    let now = position(&server);
    let granted = |at: Value| {
        let body = json!({"claims": staff(), "tool": "getOwner", "at": at});
        let seen = explain(&server, body).ok();
        (seen["position"].as_u64().unwrap(), seen["tools"][0]["granted"].as_bool().unwrap())
    };
    assert_eq!(granted(json!(null)), (now, true));
    assert_eq!(granted(json!(now)), (now, true));
    assert_eq!(granted(json!(18)), (18, true));
    assert_eq!(granted(json!("18")), (18, true));
    assert_eq!(granted(json!(17)), (17, false));
    assert_eq!(granted(json!(0)), (0, false));
    assert_eq!(granted(json!("2026-05-01T09:12:00Z")), (18, true));
    assert_eq!(granted(json!("2026-05-01T11:12:00+02:00")), (18, true));
    assert!(!granted(json!("2026-05-01T09:11:59Z")).1);
    assert_eq!(granted(json!("2026-05-01")), (0, false));
    assert_eq!(granted(json!("2026-05-02")), (18, true));
    assert_eq!(granted(json!("9999-01-01")), (now, true));
    // A change made now does not alter answers about the past.
    server.post_empty("/api/policies/staff-read/deactivate").ok();
    assert_eq!(granted(json!(null)), (now + 1, false));
    assert_eq!(granted(json!(now)), (now, true));
}

#[test]
fn explain_rejects_invalid_requests() {
    let server = server();
    let end = position(&server);
    let wrong = |body: Value| explain(&server, body).errors();
    let future = wrong(json!({"claims": {}, "at": end + 1}));
    assert_eq!(future, format!("at: is not there yet: the journal ends at {end}"));
    assert_eq!(wrong(json!({"claims": {}, "at": (end + 1).to_string()})), future);
    for at in [
        json!("tomorrow"),
        json!(""),
        json!("2026-13-01"),
        json!("2026-05-01T12:00:00"),
        json!("-1"),
    ] {
        let said = wrong(json!({"claims": {}, "at": at}));
        assert!(said.starts_with("at: a moment is a position"), "{at}: {said}");
    }
    for at in [json!(-1), json!(1.5), json!(true), json!([1]), json!({"position": 1})] {
        let said = wrong(json!({"claims": {}, "at": at}));
        assert!(said.starts_with("at: ") || said.starts_with("at["), "{at}: {said}");
    }
    assert_eq!(wrong(json!({})), "claims: is missing");
    for claims in [json!([]), json!("role=staff"), json!(null), json!(7)] {
        assert!(wrong(json!({"claims": claims})).starts_with("claims: "));
    }
    assert!(wrong(json!({"claims": {}, "tol": "x"})).starts_with("tol: is not known here"));
    assert!(wrong(json!({"claims": {}, "tool": 7})).starts_with("tool: "));
}

#[test]
fn the_cli_and_the_api_give_the_same_explanation() {
    let server = server();
    let key = server.post("/api/keys", &json!({"name": "a"})).ok();
    assert!(key["key"].is_string());
    for (body, options) in [
        (json!({}), ""),
        (json!({"tool": "getOwner"}), "--tool getOwner"),
        (json!({"tool": "petstore:deletePet"}), "--tool petstore:deletePet"),
        (json!({"tool": "nothing"}), "--tool nothing"),
        (json!({"at": 17}), "--at 17"),
        (json!({"at": 0}), "--at 0"),
        (
            json!({"at": "2026-05-01T09:12:00Z", "tool": "listPets"}),
            "--at 2026-05-01T09:12:00Z --tool listPets",
        ),
    ] {
        for role in ["staff", "guest"] {
            let mut body = body.clone();
            body["claims"] = json!({"role": role});
            let line = format!(r#"explain --json --claims {{"role":"{role}"}} {options}"#);
            let said: Value = serde_json::from_str(&server.folder.run(&line).stdout).unwrap();
            assert_eq!(explain(&server, body).ok(), said, "{line}");
        }
    }
}

/// Two sources that both have a tool `search`; group `hub` selects the first source and is granted to `dev`.
fn two_sources() -> Server {
    let server = Server::start();
    for (name, tools) in [("hub", ["search", "merge"].as_slice()), ("lab", &["search", "review"])] {
        let settings = json!({"kind": "openapi", "specification": {"text": specification(tools)}});
        server.post("/api/sources", &json!({"name": name, "settings": settings})).ok();
        server.wait_for(&format!("/api/sources/{name}"), |source| !source["inventory"].is_null());
    }
    server.post("/api/groups", &json!({"name": "hub", "selectors": [{"source": "hub"}]})).ok();
    let policy = json!({"name": "dev", "matchers": matchers("dev"), "groups": ["hub"]});
    server.post("/api/policies", &policy).ok();
    server
}

fn identities() -> Value {
    json!([{"name": "developer", "claims": {"role": "dev"}}, {"claims": {"role": "guest"}}])
}

/// Effects of one proposal on both identities.
fn effects(server: &Server, mut proposal: Value) -> [Value; 2] {
    proposal["identities"] = identities();
    let mut data = what_if(server, proposal).ok()["data"].take();
    assert_eq!(
        (data.as_array().unwrap().len(), &data[0]["name"], &data[1]["name"]),
        (2, &json!("developer"), &json!(null))
    );
    for effect in data.as_array().unwrap() {
        let tokens = |when: &str| effect[when]["tokens"].as_i64().unwrap();
        assert_eq!(effect["tokens_change"], tokens("after") - tokens("before"), "{effect}");
    }
    [data[0].take(), data[1].take()]
}

#[test]
fn what_if_reports_gained_lost_and_renamed_tools_per_identity() {
    let server = two_sources();
    let before = position(&server);
    let [dev, guest] = effects(
        &server,
        json!({
            "groups": [{"id": "lab", "name": "Lab", "selectors": [{"source": "lab"}]},
                {"id": "hub", "name": "Hub", "tools": ["hub:search"]}],
            "policies": [
                {"id": "dev-lab", "name": "d", "matchers": matchers("dev"), "groups": ["lab"]},
                {"id": "guests", "name": "g", "matchers": matchers("guest"), "groups": ["hub"], "admin": true},
            ],
        }),
    );
    insta::assert_json_snapshot!(dev, @r#"
    {
      "name": "developer",
      "gained": [
        "lab:review",
        "lab:search"
      ],
      "lost": [
        "hub:merge"
      ],
      "renamed": [
        {
          "tool": "hub:search",
          "before": "search",
          "after": "hub__search"
        }
      ],
      "before": {
        "tools": 2,
        "listed": 2,
        "tokens": 46,
        "admin": false
      },
      "after": {
        "tools": 3,
        "listed": 3,
        "tokens": 73,
        "admin": false
      },
      "tokens_change": 27
    }
    "#);
    assert_eq!((&guest["gained"], &guest["lost"]), (&json!(["hub:search"]), &json!([])));
    assert_eq!(
        (&guest["before"]["admin"], &guest["after"]["admin"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(position(&server), before);
    assert_eq!(server.get("/api/groups").ok()["data"].as_array().unwrap().len(), 1);
    assert_eq!(server.get("/api/policies").ok()["data"].as_array().unwrap().len(), 1);
    assert_eq!(server.get("/api/groups/hub").ok()["tool_count"], 2);
}

#[test]
fn what_if_reports_tools_as_lost_when_their_grant_is_disabled_or_deleted() {
    let server = two_sources();
    let before = position(&server);
    let hub = json!({"id": "hub", "name": "hub", "selectors": [{"source": "hub"}]});
    let dev = json!({"id": "dev", "name": "dev", "matchers": matchers("dev"), "groups": ["hub"]});
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    let both = json!(["hub:merge", "hub:search"]);
    for proposal in [
        json!({"groups": [with(hub.clone(), "is_active", json!(false))]}),
        json!({"policies": [with(dev.clone(), "is_active", json!(false))]}),
        json!({"policies": [with(dev.clone(), "matchers", matchers("nobody"))]}),
        json!({"groups": [with(hub.clone(), "selectors", json!([]))]}),
        json!({"groups": [with(hub.clone(), "excluded", json!([{"tool": "hub:merge"}, {"tool": "hub:search"}]))]}),
        json!({"delete_policies": ["dev"]}),
        json!({"delete_policies": ["dev"], "delete_groups": ["hub"]}),
        json!({"groups": [{"id": "empty", "name": "e"}], "policies": [with(dev.clone(), "groups", json!(["empty"]))], "delete_groups": ["hub"]}),
    ] {
        let [dev, guest] = effects(&server, proposal.clone());
        assert_eq!((&dev["lost"], &dev["gained"]), (&both, &json!([])), "{proposal}");
        assert_eq!(dev["after"], json!({"tools": 0, "listed": 0, "tokens": 0, "admin": false}));
        assert!(dev["tokens_change"].as_i64().unwrap() < 0);
        assert_eq!((&guest["lost"], &guest["tokens_change"]), (&json!([]), &json!(0)));
    }
    // An empty proposal, or one that equals the current state, changes nothing.
    for proposal in [json!({}), json!({"groups": [hub], "policies": [dev]})] {
        let [dev, _] = effects(&server, proposal);
        assert_eq!(
            (&dev["lost"], &dev["gained"], &dev["renamed"]),
            (&json!([]), &json!([]), &json!([]))
        );
        assert_eq!(dev["before"], dev["after"]);
    }
    assert_eq!(position(&server), before);
}

#[test]
fn what_if_predicts_the_effect_of_the_real_change() {
    let server = two_sources();
    let group = json!({"id": "all", "name": "All", "selectors": [{"name": "s*"}]});
    let policy =
        json!({"id": "guests", "name": "g", "matchers": matchers("guest"), "groups": ["all"]});
    let [_, guest] = effects(&server, json!({"groups": [group], "policies": [policy]}));
    server.post("/api/groups", &group).ok();
    server.post("/api/policies", &policy).ok();
    let has = explain(&server, json!({"claims": {"role": "guest"}})).ok()["has"].take();
    let ids: Vec<_> = has.as_array().unwrap().iter().map(|tool| tool["tool"].clone()).collect();
    assert_eq!(Value::from(ids), guest["gained"]);
    assert_eq!(guest["gained"], json!(["hub:search", "lab:search"]));
}

#[test]
fn what_if_rejects_invalid_proposals() {
    let server = two_sources();
    let before = position(&server);
    let ask = |mut proposal: Value| {
        proposal["identities"] = identities();
        what_if(&server, proposal)
    };
    let policy = |groups: Value| json!({"id": "p", "name": "p", "matchers": matchers("dev"), "groups": groups});
    let none = ask(json!({"policies": [policy(json!(["none"]))]}));
    assert_eq!(none.errors(), "policies[0].groups: there is no group `none`");
    let granted = ask(json!({"delete_groups": ["hub"]}));
    assert!(granted.problem().starts_with("409 group_is_granted"), "{granted:?}");
    for proposal in [json!({"delete_policies": ["none"]}), json!({"delete_groups": ["none"]})] {
        let gone = ask(proposal);
        assert!(gone.problem().starts_with("404 not_found"), "{gone:?}");
    }
    for (proposal, place) in [
        (json!({"groups": [{"id": "g"}]}), "groups[0].name: is missing"),
        (json!({"groups": [{"name": "g"}]}), "groups[0].id: is missing"),
        (json!({"groups": [{"id": "Not An Id", "name": "g"}]}), "groups[0].id: "),
        (
            json!({"groups": [{"id": "g", "name": "g", "selectors": [{"nmae": "x"}]}]}),
            "groups[0].selectors[0].nmae: is not known here",
        ),
        (
            json!({"groups": [{"id": "g", "name": "g", "selectors": [{"name": "regex:("}]}]}),
            "groups[0]",
        ),
        (
            json!({"policies": [{"id": "p", "name": "p", "groups": ["hub"]}]}),
            "policies[0].matchers: is missing",
        ),
        (
            json!({"policies": [{"id": "p", "name": "p", "groups": ["hub"], "matchers": []}]}),
            "policies[0].matchers: needs at least one",
        ),
        (
            json!({"policies": [{"id": "p", "name": "p", "matchers": matchers("dev")}]}),
            "policies[0].groups: is empty: a policy grants at least one group",
        ),
        (
            json!({"policies": [{"id": "p", "name": "p", "groups": ["hub"], "matchers": matchers("dev"), "is_active": "yes"}]}),
            "policies[0].is_active: ",
        ),
        (json!({"delete_policies": "dev"}), "delete_policies: "),
        (json!({"delete_sources": ["hub"]}), "delete_sources: is not known here"),
    ] {
        let said = ask(proposal.clone()).errors();
        assert!(said.starts_with(place), "{proposal}: {said}");
    }
    let identities =
        |identities: Value| what_if(&server, json!({"identities": identities})).errors();
    assert_eq!(what_if(&server, json!({})).errors(), "identities: is missing");
    assert!(identities(json!([])).starts_with("identities: "));
    assert!(identities(vec![json!({"claims": {}}); 101].into()).starts_with("identities: "));
    assert!(identities(json!([{"name": "a"}])).starts_with("identities[0].claims: is missing"));
    what_if(&server, json!({"identities": vec![json!({"claims": {}}); 100]})).ok();
    assert_eq!(position(&server), before);
}

#[test]
fn what_if_rejects_a_new_group_that_is_proposed_twice() {
    let server = two_sources();
    let group = |selectors: Value| json!({"id": "new", "name": "New", "selectors": selectors});
    let proposal = json!({"identities": identities(), "groups": [group(json!([])), group(json!([{"source": "lab"}]))]});
    let answer = what_if(&server, proposal);
    assert!(answer.problem().starts_with("409 already_exists"), "{answer:?}");
}
