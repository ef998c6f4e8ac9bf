//! Configuration files on the command line: plan, apply, export.

use serde_json::{Value, json};

use crate::api::server::Server;
use crate::support::{Folder, Run};

/// Changes to some parts of the small catalog.
const CHANGED: &str = "\
labels:
  - {id: pii, name: Personal data, colour: '#c02020'}
tools:
  - {id: petstore:deletePet, is_enabled: true}
  - {id: petstore:getOwner, description: Who owns a pet}
groups:
  - id: pets-read
    name: pets-read
    selectors: [{source: petstore, method: '{GET,DELETE}'}]
  - id: owners
    name: Owners
    tools: [petstore:getOwner]
policies:
  - id: staff-read
    name: Staff may read
    groups: [pets-read]
    priority: 10
    matchers: [{claim: role, operator: equals, value: staff}]
  - id: vets
    name: Vets
    groups: [owners]
    matchers: [{claim: role, operator: equals, value: vet}]
identities:
  - {name: a vet, claims: {role: vet}}
  - {name: nobody, claims: {}}
";

fn events(folder: &Folder) -> usize {
    folder.run("journal tail -n 1000").output().lines().count()
}

fn plan_as_json(folder: &Folder, arguments: &str) -> (Option<i32>, Value) {
    let run = folder.run(&format!("plan --json {arguments}"));
    (run.code, serde_json::from_str(&run.stdout).expect(&run.stderr))
}

fn folder_with_config(text: &str) -> Folder {
    let folder = Folder::with_catalog();
    folder.write("crib.yaml", text);
    folder
}

fn apply(folder: &Folder, arguments: &str) -> Run {
    folder.run(&format!("apply {arguments}"))
}

#[test]
fn a_plan_shows_the_changes_and_their_effect_on_identities() {
    let folder = folder_with_config(CHANGED);
    folder.write("staff.json", r#"{"role": "staff"}"#);
    let before = events(&folder);
    insta::assert_snapshot!(folder.run("plan crib.yaml --as staff.json").seen(), @r##"
    ~ label pii
        colour: "#808080" → "#c02020"
    ~ tool petstore:deletePet
        is_enabled: false → true
    ~ tool petstore:getOwner
        description: "Who owns a pet"
    + group owners
        name: "Owners"
        tools: ["petstore:getOwner"]
        is_active: true
    ~ group pets-read
        selectors[0].method: "GET" → "{GET,DELETE}"
    + policy vets
        name: "Vets"
        matchers: [{"claim":"role","operator":"equals","value":"vet"}]
        groups: ["owners"]
        is_active: true

    2 identities; 1 more stays as it is
      IDENTITY  HAS    GAINS  LOSES  RENAMED  TOKENS
      a vet     0 → 1     +1      0        0    +235
      staff     2 → 3     +1      0        0    +234

    a vet
      + petstore:getOwner

    staff
      + petstore:deletePet

    2 to add, 4 to change, 0 to remove
    exit code: 2
    "##);
    assert_eq!(events(&folder), before);
}

#[test]
fn a_plan_is_applied_once() {
    let folder = folder_with_config(CHANGED);
    let before = events(&folder);
    let (code, plan) = plan_as_json(&folder, "crib.yaml");
    assert_eq!(code, Some(2));
    let run = apply(&folder, "crib.yaml");
    assert_eq!(run.code, Some(0), "{}", run.seen());
    assert_eq!(json!(events(&folder) - before), plan["events"]);
    assert_eq!(plan_as_json(&folder, "crib.yaml").0, Some(0));
    let again = apply(&folder, "crib.yaml");
    assert_eq!(again.code, Some(0));
    assert!(again.stdout.starts_with("Nothing to change"), "{}", again.stdout);
    assert_eq!(json!(events(&folder) - before), plan["events"]);
    let staff = folder.run(r#"explain --claims {"role":"staff"} --tool deletePet"#);
    assert_eq!(staff.code, Some(0), "{}", staff.seen());
}

#[test]
fn an_error_in_line_37_is_reported_and_changes_nothing() {
    let mut text = "groups:\n".to_owned();
    for number in 0..17 {
        text += &format!("  - id: group-{number}\n    name: Group {number}\n");
    }
    text += "  - id: last\n    nmae: Last\n";
    assert_eq!(text.lines().count(), 37);
    let folder = folder_with_config(&text);
    let before = folder.read("crib.yaml").len() + events(&folder);
    insta::assert_snapshot!(apply(&folder, "crib.yaml").seen(), @r#"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:36:5: `groups[17].name`: is missing
    stderr:   crib.yaml:37:5: `groups[17].nmae`: is not known here; did you mean `name`?
    exit code: 1
    "#);
    assert_eq!(folder.read("crib.yaml").len() + events(&folder), before);
}

#[test]
fn an_error_of_the_catalog_has_its_line_and_changes_nothing() {
    let folder = folder_with_config(
        "\
groups:
  - {id: owners, name: Owners}
sources:
  - {id: petstore, name: Pet Store, settings: {kind: builtin}}
",
    );
    let before = events(&folder);
    insta::assert_snapshot!(apply(&folder, "crib.yaml").seen(), @r#"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:4:48: `sources[0].settings.kind`: source `petstore` stays of kind openapi: register another source for another kind
    exit code: 1
    "#);
    folder.write(
        "crib.yaml",
        "\
groups:
  - {id: owners, name: Owners}
policies:
  - {id: a, name: A, groups: [owner, pets-read], matchers: [{claim: a, operator: exists}]}
  - {id: b, name: B, groups: [pets-raed], matchers: [{claim: a, operator: exists}]}
",
    );
    insta::assert_snapshot!(apply(&folder, "crib.yaml").seen(), @r#"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:4:22: `policies[0].groups`: names group `owner`, which is not there; did you mean `owners`?
    stderr:   crib.yaml:5:22: `policies[1].groups`: names group `pets-raed`, which is not there; did you mean `pets-read`?
    exit code: 1
    "#);
    folder.write("crib.yaml", "tools: [{id: petstore:getOwner, labels: [pij]}]");
    insta::assert_snapshot!(apply(&folder, "crib.yaml").seen(), @r#"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:1:33: `tools[0].labels`: names label `pij`, which is not there; did you mean `pii`?
    exit code: 1
    "#);
    assert_eq!(events(&folder), before);
}

#[test]
fn unresolved_references_are_reported() {
    let folder = folder_with_config(
        "\
groups:
  - {id: a, name: A, selectors: [{source: petstroe}]}
tools:
  - {id: petstore:getOnwer, is_enabled: false}
",
    );
    insta::assert_snapshot!(folder.run("plan crib.yaml").seen(), @r#"
    + group a
        name: "A"
        selectors: [{"source":"petstroe"}]
        is_active: true

    waiting: crib.yaml:4:5: `tools[0]`: waits for tool `petstore:getOnwer`, which its source does not have yet; did you mean `petstore:getOwner`?
    note: crib.yaml:2:35: `groups[0].selectors[0].source`: selects nothing: there is no source `petstroe`; did you mean `petstore`?

    1 to add, 0 to change, 0 to remove
    exit code: 2
    "#);
}

#[test]
fn prune_removes_everything_missing_from_the_present_sections() {
    let folder = folder_with_config("groups: []\npolicies: []\ntools: []\nlabels: []\n");
    assert_eq!(plan_as_json(&folder, "crib.yaml").0, Some(0));
    insta::assert_snapshot!(folder.run("plan crib.yaml --prune").seen(), @r#"
    - label pii
    ~ tool petstore:deletePet
        is_enabled: false → true
    ~ tool petstore:getOwner
        labels: ["pii"] → not given
    - group pets-all
    - group pets-read
    - policy staff-read

    0 to add, 2 to change, 4 to remove
    exit code: 2
    "#);
    assert_eq!(apply(&folder, "crib.yaml --prune").code, Some(0));
    assert_eq!(plan_as_json(&folder, "crib.yaml --prune").0, Some(0));
    let shown: Value = serde_json::from_str(&folder.run("journal show --json").output()).unwrap();
    assert_eq!((&shown["groups"], &shown["policies"]), (&json!([]), &json!([])));
    assert_eq!(shown["sources"].as_array().unwrap().len(), 2);
    folder.write("crib.yaml", "sources: []");
    assert_eq!(apply(&folder, "crib.yaml --prune").code, Some(0));
    let shown: Value = serde_json::from_str(&folder.run("journal show --json").output()).unwrap();
    assert_eq!((&shown["sources"], &shown["tools"]), (&json!([]), &json!(0)));
}

#[test]
fn an_applied_export_gives_the_same_export() {
    let folder = Folder::with_catalog();
    let yaml = folder.run("export").output();
    insta::assert_snapshot!(yaml, @r#"
    # A configuration of toolcrib, as `toolcrib export` writes it and `toolcrib apply` reads it.
    # These secrets have to be there before its tools can be called:
    #   env:HOME
    #   sealed:petstore-token (toolcrib secret set petstore-token)
    #   sealed:tickets-token (toolcrib secret set tickets-token)
    sources:
      - id: petstore
        name: Pet Store
        url: https://pets.example/openapi.json
        settings:
          kind: openapi
        auth:
          kind: bearer
          token: sealed:petstore-token
        is_enabled: true
      - id: tickets
        name: Tickets
        settings:
          kind: mcp
          command:
            program: tickets-mcp
            environment:
              HOME: env:HOME
              TICKETS_TOKEN: sealed:tickets-token
        is_enabled: false
    labels:
      - id: pii
        name: Personal data
    tools:
      - id: petstore:deletePet
        is_enabled: false
      - id: petstore:getOwner
        labels: [pii]
    groups:
      - id: pets-all
        name: pets-all
        selectors:
          - source: petstore
        is_active: false
      - id: pets-read
        name: pets-read
        selectors:
          - source: petstore
            method: GET
        is_active: true
    policies:
      - id: staff-read
        name: Staff may read
        priority: 10
        matchers:
          - claim: role
            operator: equals
            value: staff
        groups: [pets-read]
        is_active: true
    "#);
    for format in ["yaml", "toml"] {
        let exported = folder.run(&format!("export --format {format}")).output();
        let file = format!("crib.{format}");
        folder.write(&file, &exported);
        // Applied to the same catalog, it changes nothing.
        assert_eq!(plan_as_json(&folder, &format!("{file} --prune")).0, Some(0), "{exported}");
        let empty = Folder::empty();
        // Tool overrides wait until their sources have been discovered.
        empty.write(&file, &exported);
        let first = apply(&empty, &file);
        assert_eq!(first.code, Some(0), "{}", first.seen());
        assert!(first.stdout.contains("waits for tool `petstore:getOwner`"), "{}", first.stdout);
        let once = empty.run(&format!("export --format {format}")).output();
        let other = Folder::empty();
        other.write(&file, &once);
        apply(&other, &file).output();
        assert_eq!(other.run(&format!("export --format {format}")).output(), once);
        let tools = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains("tools"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let missing: Vec<String> =
            tools(&exported).into_iter().filter(|line| !tools(&once).contains(line)).collect();
        assert!(
            missing.iter().all(|line| line.contains("petstore:")
                || line.contains("labels")
                || line.contains("is_enabled")),
            "{missing:?}"
        );
    }
}

#[test]
fn a_plan_for_a_missing_journal_does_not_create_it() {
    let folder = Folder::empty();
    folder.write("crib.yaml", "labels: [{id: pii, name: Personal data}]");
    insta::assert_snapshot!(folder.run("plan crib.yaml").seen(), @r##"
    + label pii
        name: "Personal data"

    1 to add, 0 to change, 0 to remove
    exit code: 2
    "##);
    assert_eq!(folder.files(), ["crib.yaml"]);
    assert_eq!(folder.run("plan missing.yaml").code, Some(1));
}

#[test]
fn the_schema_is_printed() {
    let schema: Value =
        serde_json::from_str(&Folder::empty().run("config schema").output()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let members: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    insta::assert_debug_snapshot!(members, @r#"
    [
        "$schema",
        "sources",
        "labels",
        "tools",
        "groups",
        "policies",
        "identities",
        "issuers",
        "public_url",
        "allowed_hosts",
        "allowed_origins",
        "scopes",
        "limits",
        "cache",
        "record",
        "search",
    ]
    "#);
}

#[test]
fn the_example_can_be_planned_and_applied() {
    let folder = Folder::empty();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pizzeria.config.yaml");
    assert_eq!(plan_as_json(&folder, example).0, Some(2));
    let run = apply(&folder, example);
    assert_eq!(run.code, Some(0), "{}", run.seen());
    let (_, plan) = plan_as_json(&folder, example);
    assert_eq!(plan["changes"], json!([]), "only what is said of tools is left");
    assert_eq!(plan["waiting"].as_array().unwrap().len(), 1);
    let shown: Value = serde_json::from_str(&folder.run("journal show --json").output()).unwrap();
    assert_eq!(shown["sources"].as_array().unwrap().len(), 2);
}

/// Server on the small catalog, with a configuration file in its folder.
fn server_with_config(text: &str) -> Server {
    Server::on_folder(folder_with_config(text), "--new-admin-key")
}

/// Output of the same verb on the journal and at the server.
fn run_on_both(server: &Server, line: &str) -> (String, String) {
    let key = [("TOOLCRIB_KEY", server.key.as_str())];
    let there = format!("{line} --server {}", server.url(""));
    // The server may have refreshed a source in between.
    let told = |run: Run| -> String {
        let told = run.seen();
        let lines = told.lines().filter(|line| !line.contains("\"position\""));
        lines.map(|line| format!("{line}\n")).collect()
    };
    (told(server.folder.run(line)), told(server.folder.run_with(&there, "", &key)))
}

#[test]
fn a_running_server_gives_the_same_plan_and_result() {
    let text =
        format!("{CHANGED}sources:\n  - {{id: own, name: Own, settings: {{kind: builtin}}}}\n");
    let server = server_with_config(&text);
    server.folder.write("staff.json", r#"{"role": "staff"}"#);
    for line in ["plan crib.yaml --as staff.json", "plan crib.yaml --json"] {
        let (here, there) = run_on_both(&server, line);
        assert_eq!(here, there);
        assert!(here.contains("crib.yaml:27:5: `sources[0]`: is new"), "{here}");
    }
    let (here, there) = run_on_both(&server, "apply crib.yaml");
    insta::assert_snapshot!(here, @"
    stderr: error: a server runs on the journal `FOLDER/toolcrib.db`: give --server with its address, and TOOLCRIB_KEY with an admin's key
    exit code: 6
    ");
    assert!(there.contains("\nstderr: applied: "), "{there}");
    let (here, there) = run_on_both(&server, "plan crib.yaml");
    assert_eq!(here, there);
    assert!(here.starts_with("Nothing to change"), "{here}");
    let (_, again) = run_on_both(&server, "apply crib.yaml");
    assert!(again.starts_with("Nothing to change") && !again.contains("applied"), "{again}");
    let history = server.get("/api/groups/owners/history").ok();
    assert_eq!(history["data"][0]["actor"], "key:first-admin");
}

#[test]
fn an_error_of_a_server_has_its_line_too() {
    let policy = "{id: p, name: P, groups: [nowhere], \
        matchers: [{claim: role, operator: equals, value: staff}]}";
    let server = server_with_config(&format!("labels: []\npolicies:\n  - {policy}\n"));
    let (here, there) = run_on_both(&server, "apply crib.yaml");
    assert!(here.contains("a server runs on the journal"), "{here}");
    let (planned, _) = run_on_both(&server, "plan crib.yaml");
    assert_eq!(planned, there);
    insta::assert_snapshot!(there, @"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:3:22: `policies[0].groups`: names group `nowhere`, which is not there
    exit code: 1
    ");
    let program = "settings: {kind: mcp, command: {program: date}}";
    server.folder.write("crib.yaml", format!("sources:\n  - id: s\n    name: S\n    {program}\n"));
    insta::assert_snapshot!(run_on_both(&server, "plan crib.yaml").1, @"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:2:5: `sources[0]`: this server starts no child processes: start it with --allow-stdio for that
    exit code: 1
    ");
    server.folder.write("crib.yaml", "record: {mode: loose}");
    insta::assert_snapshot!(run_on_both(&server, "plan crib.yaml").1, @"
    stderr: error: the configuration cannot be used
    stderr:   crib.yaml:1:10: `record.mode`: there is no `loose`; there is `default`, `strict`, `off`
    exit code: 1
    ");
    let record = json!({"document": {"record": {"mode": "strict"}}});
    let many: Vec<_> = (0..1_001).map(|n| json!({"name": n.to_string(), "claims": {}})).collect();
    let many = server.post("/api/plan", &json!({"document": {"identities": many}})).problem();
    assert!(many.contains("are at most 1000, with those of the document"), "{many}");
    insta::assert_snapshot!(server.post("/api/plan", &record).problem(), @"422 validation_error: `document.record`: is for a server that starts, `toolcrib serve --config`: leave it away here");
}

#[test]
fn a_stale_plan_is_not_applied() {
    let server = server_with_config("");
    let labels = json!({"document": {"labels": [{"id": "new", "name": "New"}]}});
    let plan = server.post("/api/plan", &labels);
    let tag = plan.header("etag").to_owned();
    server.post("/api/labels", &json!({"id": "new", "name": "Other"})).ok();
    let ask = server.ask("POST", "/api/apply").header("if-match", &tag).json(&labels);
    let refused = server.send(&ask);
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(server.get("/api/labels/new").ok()["name"], "Other");
    let tag = server.post("/api/plan", &labels).header("etag").to_owned();
    let ask = server.ask("POST", "/api/apply").header("if-match", &tag).json(&labels);
    assert_eq!(server.send(&ask).ok()["changes"][0]["id"], "new");
    assert_eq!(server.get("/api/labels/new").ok()["name"], "New");
}
