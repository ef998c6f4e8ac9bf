//! Admin verbs of the CLI: the same on a journal and at a server.

use crate::api::server::Server;
use crate::support::{Folder, Run};

/// Commands that add a source, a group, a policy and a key.
const FIRST: [&str; 5] = [
    "source add Own settings.kind=builtin",
    "source refresh own",
    r#"group add Office selectors=[{"source":"own"}]"#,
    r#"policy add Staff groups=["office"] matchers=[{"claim":"role","operator":"equals","value":"staff"}]"#,
    "key add Ada claims.role=staff",
];

fn filled_folder() -> Folder {
    let folder = Folder::empty();
    for line in FIRST {
        folder.run(line).output();
    }
    folder
}

/// Output without values that differ between runs.
fn stable_output(run: &Run) -> String {
    let lines = run.seen();
    let is_same =
        |line: &&str| !["created_at", "updated_at", "tcrib_"].iter().any(|it| line.contains(it));
    lines.lines().filter(is_same).map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn resources_are_added_and_listed() {
    let folder = Folder::empty();
    let said: String = FIRST.iter().map(|line| stable_output(&folder.run(line))).collect();
    insta::assert_snapshot!(said, @"
    added source `own`
    stderr: a server asks it for its tools by itself; without one: toolcrib source refresh own
    11 tools: 11 created
    added group `office`
    added policy `staff`
    added key `ada`

    The key, shown only now:
    ");
    let lists =
        ["source list", "group list", "policy list", "key list", "label list", "tool list uuid"];
    let lists: String = lists.iter().map(|line| stable_output(&folder.run(line))).collect();
    insta::assert_snapshot!(lists, @r#"
    1 source
      ID   KIND     HEALTH   ENABLED  TOOLS  SERVED  OTHERS  NAME
      own  builtin  healthy  yes         11      11       0  Own
    1 group
      ID      ACTIVE  TOOLS  SERVED  NAME
      office  yes        11      11  Office
    1 policy
      ID     ACTIVE  PRIORITY  GROUPS  NAME
      staff  yes            0  office  Staff
    1 key
      ID   ADMIN  REVOKED  EXPIRES  CLAIMS            NAME
      ada         no                {"role":"staff"}  Ada
    0 labels
    1 tool
      ID        STATUS  ENABLED  REVIEW    DESCRIPTION
      own:uuid  active  yes      approved  Makes new identifiers that nobody else has (UUID): random on…
    "#);
}

#[test]
fn an_edit_keeps_fields_that_are_not_given() {
    let folder = filled_folder();
    insta::assert_snapshot!(stable_output(&folder.run("group edit office description=All")), @"changed group `office`");
    insta::assert_snapshot!(stable_output(&folder.run("group show office")), @r#"
    id             office
    name           Office
    description    All
    selector_mode  all
    selectors      [
                     {
                       "kind": "tool",
                       "source": "own"
                     }
                   ]
    tools          []
    excluded       []
    is_active      true
    tool_count     11
    served_count   11
    "#);
    folder.run("key edit ada claims.team=blue").output();
    let key: serde_json::Value =
        serde_json::from_str(&folder.run("key show ada --json").output()).unwrap();
    assert_eq!(key["claims"], serde_json::json!({"role": "staff", "team": "blue"}));
}

#[test]
fn resources_are_enabled_and_disabled() {
    let folder = filled_folder();
    for (off, on, thing) in [
        ("tool disable own:uuid", "tool enable own:uuid", "tool show own:uuid"),
        ("source disable own", "source enable own", "source show own"),
        ("group disable office", "group enable office", "group show office"),
        ("policy disable staff", "policy enable staff", "policy show staff"),
    ] {
        let is_on = || {
            let shown = folder.run(&format!("{thing} --json")).output();
            let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
            shown.get("is_enabled").or(shown.get("is_active")).and_then(serde_json::Value::as_bool)
        };
        folder.run(off).output();
        assert_eq!(is_on(), Some(false), "{off}");
        folder.run(on).output();
        assert_eq!(is_on(), Some(true), "{on}");
    }
}

#[test]
fn errors_have_a_message_and_an_exit_code() {
    let folder = filled_folder();
    let lines = [
        "group show nope",
        "group remove office",
        "policy add Empty",
        "label add Safe colour=red",
        "group add Office",
        "group edit office description",
        "group add More selector=[]",
        "source reset own",
    ];
    let said: String = lines
        .iter()
        .map(|line| format!("$ {line}\n{}", stable_output(&folder.run(line))))
        .collect();
    insta::assert_snapshot!(said, @"
    $ group show nope
    stderr: error: there is no group `nope`
    exit code: 4
    $ group remove office
    stderr: error: group `office` is granted by `staff`: change those policies first
    exit code: 6
    $ policy add Empty
    stderr: error: `matchers`: is missing
    exit code: 1
    $ label add Safe colour=red
    stderr: error: `colour`: is to be a colour, `#rrggbb`
    exit code: 1
    $ group add Office
    stderr: error: there is a group `office` already
    exit code: 6
    $ group edit office description
    stderr: error: `description` says nothing of it: give KEY=VALUE, such as `description='For the staff'`
    exit code: 1
    $ group add More selector=[]
    stderr: error: `selector`: is not known here; did you mean `selectors`?
    exit code: 1
    $ source reset own
    stderr: error: each running server knows by itself which sources it leaves alone: say which one with --server
    exit code: 1
    ");
}

#[test]
fn resources_are_removed() {
    let folder = filled_folder();
    let lines = [
        "policy remove staff",
        "group remove office",
        "key revoke ada",
        "key remove ada",
        "source remove own",
    ];
    let said: String = lines.iter().map(|line| stable_output(&folder.run(line))).collect();
    insta::assert_snapshot!(said, @"
    removed policy `staff`
    removed group `office`
    key `ada`: revoked
    removed key `ada`
    removed source `own`
    ");
    insta::assert_snapshot!(stable_output(&folder.run("tool list")), @"0 tools");
}

#[test]
fn a_body_can_be_a_file() {
    let folder = filled_folder();
    folder.write("group.yaml", "name: Others\nselectors:\n  - {source: own, name: \"*e*\"}\n");
    folder.run("group add --file group.yaml description=some").output();
    let shown = folder.run("group show others --json").output();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["name"], &shown["description"]), (&"Others".into(), &"some".into()));
    folder.write("list.json", r#"["a", "b"]"#);
    let list = folder.run("label add X --file list.json");
    assert!(list.stderr.contains("`list.json` is to be a mapping"), "{}", list.stderr);
    folder.write("broken.yaml", "name: [");
    insta::assert_snapshot!(stable_output(&folder.run("group add --file broken.yaml")), @"
    stderr: error: `broken.yaml` cannot be used: the document is not YAML: while parsing a node, did not find expected node content at line 2 column 1
    exit code: 1
    ");
}

#[test]
fn a_secret_of_a_program_is_reported_as_used() {
    let folder = Folder::empty();
    let run = r#"{"program":"date","environment":{"TOKEN":"sealed:tok"}}"#;
    let tools =
        format!(r#"settings.kind=custom settings.tools=[{{"name":"run","command":{run}}}]"#);
    folder.run(&format!("source add House {tools}")).output();
    folder.run("journal export out.jsonl").output();
    let told = folder.run("--journal other.db journal import out.jsonl").output();
    assert!(told.contains("  tok"), "{told}");
}

#[test]
fn a_journal_with_a_running_server_is_changed_only_through_the_server() {
    let server = Server::start();
    let at = format!("--server {}", server.url(""));
    let key = [("TOOLCRIB_KEY", server.key.as_str())];
    let run =
        |line: &str, environment: &[(&str, &str)]| server.folder.run_with(line, "", environment);
    insta::assert_snapshot!(stable_output(&run("label add Safe", &[])), @"
    stderr: error: a server runs on the journal `FOLDER/toolcrib.db`: give --server with its address, and TOOLCRIB_KEY with an admin's key
    exit code: 6
    ");
    insta::assert_snapshot!(stable_output(&run(&format!("label add Safe {at}"), &key)), @"added label `safe`");
    insta::assert_snapshot!(stable_output(&run(&format!("label list {at}"), &key)), @"
    1 label
      ID    COLOUR   NAME  DESCRIPTION
      safe  #808080  Safe
    ");
    insta::assert_snapshot!(stable_output(&run(&format!("label list {at}"), &[])), @"
    stderr: error: this is for admins: send a key, as TOOLCRIB_KEY
    exit code: 5
    ");
}

#[test]
fn the_tools_of_a_group_are_listed_by_id() {
    let folder = filled_folder();
    folder.run(r#"group add Some tools=["own:uuid"]"#).output();
    insta::assert_snapshot!(stable_output(&folder.run("group tools some")), @"
    1 tool
      ID        SERVED  EXPLICIT
      own:uuid  yes     yes
    ");
}

/// Output without times, which differ between runs.
fn output_without_times(run: &Run) -> String {
    let told = stable_output(run);
    let is_time = |word: &&str| 20 < word.len() && word.starts_with("20") && word.ends_with('Z');
    let line = |line: &str| line.split(' ').filter(|it| !is_time(it)).collect::<Vec<_>>().join(" ");
    // The hash changes whenever a built-in tool is added.
    let told = told.lines().map(|it| it.split("inventory_hash").next().unwrap_or_default());
    told.map(|it| line(it).replace("TIME", "").trim_end().to_owned() + "\n").collect()
}

#[test]
fn history_shows_changes_with_their_actor() {
    let folder = filled_folder();
    for line in ["label add Safe", "label edit safe description=Good", "group disable office"] {
        folder.run(line).output();
    }
    for line in ["policy remove staff", "key revoke ada", "tool disable own:uuid"] {
        folder.run(line).output();
    }
    let lines = [
        "label history safe",
        "group history office",
        "policy history staff",
        "key history ada",
        "source history own",
        "tool history own:uuid",
        "tool history own:nothing",
    ];
    let said: String = lines
        .iter()
        .map(|line| format!("$ {line}\n{}", output_without_times(&folder.run(line))))
        .collect();
    insta::assert_snapshot!(said, @r##"
    $ label history safe
    2 events
      EVENT                        WHO  WHAT          SAYING
         19   cli  LabelCreated  {"profile":{"name":"Safe","colour":"#808080"}}
         20   cli  LabelUpdated  {"profile":{"name":"Safe","description":"Good","colour":"#80…
    $ group history office
    2 events
      EVENT                        WHO  WHAT              SAYING
         16   cli  GroupCreated      {"profile":{"name":"Office","selector_mode":"all"},"selector…
         21   cli  GroupDeactivated  {}
    $ policy history staff
    2 events
      EVENT                        WHO  WHAT           SAYING
         17   cli  PolicyDefined  {"rules":{"name":"Staff","priority":0,"matchers":[{"claim":"…
         22   cli  PolicyDeleted  {}
    $ key history ada
    2 events
      EVENT                        WHO  WHAT        SAYING
         18   cli  KeyCreated  {"profile":{"name":"Ada","claims":{"role":"staff"}}}
         23   cli  KeyRevoked  {}
    $ source history own
    4 events
      EVENT                        WHO  WHAT                 SAYING
          1   cli  SourceRegistered     {"profile":{"name":"Own","settings":{"kind":"builtin"},"auth…
          2   cli  SourceSyncStarted    {}
         14   cli  InventoryIngested    {"inventory":{"
         15   cli  SourceHealthChanged  {"health":"healthy"}
    $ tool history own:uuid
    2 events
      EVENT                        WHO  WHAT            SAYING
         12   cli  ToolRegistered  {"source":"own","manifest":{"name":"uuid","title":"New ident…
         24   cli  ToolDisabled    {}
    $ tool history own:nothing
    stderr: error: there is no tool `own:nothing`
    exit code: 4
    "##);
    let told = folder.run("key history ada --json").output();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told[0]["data"]["profile"]["claims"]["role"], "staff");
    assert!(told[0]["data"].get("hash").is_none(), "{told}");
    assert_eq!((&told[1]["type"], &told[1]["actor"]), (&"KeyRevoked".into(), &"cli".into()));
}

#[test]
fn a_long_history_is_shown_completely() {
    let folder = filled_folder();
    let server = Server::on_folder(folder, "--new-admin-key");
    for number in 0..205 {
        let body = serde_json::json!({"name": "Safe", "description": number.to_string()});
        match number {
            0 => server.post("/api/labels", &body).ok(),
            _ => server.put("/api/labels/safe", &body).ok(),
        };
    }
    let key = [("TOOLCRIB_KEY", server.key.as_str())];
    let line = format!("label history safe --json --server {}", server.url(""));
    let told = server.folder.run_with(&line, "", &key).output();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let told = told.as_array().unwrap();
    assert_eq!((told.len(), &told[204]["version"]), (205, &205.into()));
    assert_eq!(server.get("/api/labels/safe/history?cursor=x").status, 422);
    assert_eq!(server.get("/api/labels/nope/history").status, 404);
}

#[test]
fn search_covers_the_tools_of_an_identity_or_all_tools() {
    let folder = filled_folder();
    folder.run("tool disable own:uuid").output();
    let lines = [
        "search new identifiers -n 2",
        "search new identifiers -n 2 --claims {\"role\":\"staff\"}",
        "search new identifiers --claims {\"role\":\"guest\"}",
        "search uuid -n 101",
        "search",
    ];
    let said: String = lines
        .iter()
        .map(|line| format!("$ {line}\n{}", stable_output(&folder.run(line))))
        .collect();
    insta::assert_snapshot!(said, @r#"
    $ search new identifiers -n 2
    2 tools
       SCORE  NAME       SOURCE  SERVED  DESCRIPTION
      0.4841  uuid       own     no      Makes new identifiers that nobody else has (UUID): random on…
      0.0108  calculate  own     yes     Calculates an expression exactly: + - * / % ^ and parenthese…
    $ search new identifiers -n 2 --claims {"role":"staff"}
    1 tool
       SCORE  NAME       SOURCE  SERVED  DESCRIPTION
      0.0085  calculate  own     yes     Calculates an expression exactly: + - * / % ^ and parenthese…
    $ search new identifiers --claims {"role":"guest"}
    0 tools
    $ search uuid -n 101
    stderr: error: `limit`: is more than 100
    exit code: 1
    $ search
    stderr: error: the following required arguments were not provided:
    stderr:   <WORDS>...
    stderr:
    stderr: Usage: toolcrib search <WORDS>...
    stderr:
    stderr: For more information, try '--help'.
    exit code: 2
    "#);
    let found = folder.run("search uuid --json").output();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found[0]["tool"], &found[0]["is_served"]), (&"own:uuid".into(), &false.into()));
}

#[test]
fn irreversible_verbs_ask_for_confirmation_at_a_terminal() {
    let folder = filled_folder();
    let at_terminal = |line: &str, typed: &str| folder.run_at_terminal(line, typed, &[]);
    let no = at_terminal("source remove own", "n\n").output();
    assert!(no.contains("Remove source `own` and its 11 tools? [y/N] "), "{no}");
    assert!(no.ends_with("nothing was changed\n"), "{no}");
    folder.run("source show own").output();
    let revoked = at_terminal("key revoke ada", "y\n").output();
    assert!(revoked.contains("Revoke key `ada`? [y/N] "), "{revoked}");
    assert!(revoked.ends_with("key `ada`: revoked\n"), "{revoked}");
    let yes = at_terminal("policy remove staff --yes", "").output();
    assert_eq!(yes, "removed policy `staff`\n");
    let gone = at_terminal("policy remove staff", "");
    assert_eq!((gone.code, gone.stdout.contains("[y/N]")), (Some(4), false), "{}", gone.stdout);
}

#[test]
fn tables_are_styled_at_a_terminal_unless_disabled() {
    let folder = filled_folder();
    let styled = folder.run_at_terminal("group list", "", &[]).output();
    assert!(styled.contains("\x1b[1m  ID "), "{styled:?}");
    let plain = folder.run("group list").output();
    assert!(!plain.contains('\x1b'), "{plain:?}");
    for environment in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        assert_eq!(folder.run_at_terminal("group list", "", &[environment]).output(), plain);
    }
}

#[test]
fn an_invalid_value_is_reported_with_a_valid_example() {
    let folder = filled_folder();
    let lines = [
        "key add Ada expires_at=tomorrow",
        "source add Pets url=api.yaml settings.kind=openapi",
        "source add Pets url=https://pets.test/openapi.json",
        "label list --server localhost:8080",
        "explain --claims role=staff --tool petstore:getOwner",
        "label remove safe --journal nowhere.db",
    ];
    let said: String = lines
        .iter()
        .map(|line| format!("$ {line}\n{}", stable_output(&folder.run(line))))
        .collect();
    insta::assert_snapshot!(said, @r#"
    $ key add Ada expires_at=tomorrow
    stderr: error: `expires_at`: is to be a time, such as `2026-05-01T12:00:00Z`
    exit code: 1
    $ source add Pets url=api.yaml settings.kind=openapi
    stderr: error: `url`: is to be an `http://` or `https://` URL, such as `https://api.example.com/openapi.json`
    exit code: 1
    $ source add Pets url=https://pets.test/openapi.json
    stderr: error: what is it? Add settings.kind=openapi for a specification, mcp for an MCP server, or http_manifest, workflow, builtin or custom
    exit code: 1
    $ label list --server localhost:8080
    stderr: error: invalid value 'localhost:8080' for '--server <URL>': it begins with http:// or https://, as http://localhost:8080 does
    stderr:
    stderr: For more information, try '--help'.
    exit code: 2
    $ explain --claims role=staff --tool petstore:getOwner
    stderr: error: `role=staff` is neither JSON nor a file: give claims as '{"role":"staff"}', or a file with them
    exit code: 1
    $ label remove safe --journal nowhere.db
    stderr: error: the journal `FOLDER/nowhere.db` cannot be opened (there is no such file: `toolcrib serve` makes one, `toolcrib journal import` one from an export)
    exit code: 1
    "#);
}

#[test]
fn prompts_and_resources_are_not_counted_as_tools() {
    let folder = Folder::empty();
    let prompt = r#"{"name":"greet","template":"Hello"}"#;
    let tool = r#"{"name":"now","command":{"program":"date"}}"#;
    let written = format!("settings.prompts=[{prompt}] settings.tools=[{tool}]");
    folder.run(&format!("source add House settings.kind=custom {written}")).output();
    folder.run("source refresh house").output();
    insta::assert_snapshot!(stable_output(&folder.run("source list")), @"
    1 source
      ID     KIND    HEALTH   ENABLED  TOOLS  SERVED  OTHERS  NAME
      house  custom  healthy  yes          1       1       1  House
    ");
}
