//! What admins do by verbs: the same on a journal and at a server.

use crate::api::server::Server;
use crate::support::{Folder, Run};

/// A source, a group, a policy and a key.
const FIRST: [&str; 5] = [
    "source add Own settings.kind=builtin",
    "source refresh own",
    r#"group add Office selectors=[{"source":"own"}]"#,
    r#"policy add Staff groups=["office"] matchers=[{"claim":"role","operator":"equals","value":"staff"}]"#,
    "key add Ada claims.role=staff",
];

fn filled() -> Folder {
    let folder = Folder::empty();
    for line in FIRST {
        folder.run(line).output();
    }
    folder
}

/// Without what is another one each time.
fn told(run: &Run) -> String {
    let lines = run.seen();
    let is_same =
        |line: &&str| !["created_at", "updated_at", "tcrib_"].iter().any(|it| line.contains(it));
    lines.lines().filter(is_same).map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn things_are_added_and_listed() {
    let folder = Folder::empty();
    let said: String = FIRST.iter().map(|line| told(&folder.run(line))).collect();
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
    let lists: String = lists.iter().map(|line| told(&folder.run(line))).collect();
    insta::assert_snapshot!(lists, @r#"
    1 source
      ID   KIND     HEALTH   ENABLED  TOOLS  SERVED  NAME
      own  builtin  healthy  yes         11      11  Own
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
fn what_is_not_named_stays_as_it_is() {
    let folder = filled();
    insta::assert_snapshot!(told(&folder.run("group edit office description=All")), @"changed group `office`");
    insta::assert_snapshot!(told(&folder.run("group show office")), @r#"
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
fn switches_are_turned() {
    let folder = filled();
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
fn what_goes_wrong_is_said_by_words_and_by_the_exit_code() {
    let folder = filled();
    let lines = [
        "group show nope",
        "group remove office",
        "policy add Empty",
        "label add Safe colour=red",
        "group add Office",
        "group edit office description",
        "group add More selector=[]",
    ];
    let said: String =
        lines.iter().map(|line| format!("$ {line}\n{}", told(&folder.run(line)))).collect();
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
    ");
}

#[test]
fn things_are_removed() {
    let folder = filled();
    let lines = [
        "policy remove staff",
        "group remove office",
        "key revoke ada",
        "key remove ada",
        "source remove own",
    ];
    let said: String = lines.iter().map(|line| told(&folder.run(line))).collect();
    insta::assert_snapshot!(said, @"
    removed policy `staff`
    removed group `office`
    key `ada`: revoked
    removed key `ada`
    removed source `own`
    ");
    insta::assert_snapshot!(told(&folder.run("tool list")), @"0 tools");
}

#[test]
fn a_body_can_be_a_file() {
    let folder = filled();
    folder.write("group.yaml", "name: Others\nselectors:\n  - {source: own, name: \"*e*\"}\n");
    folder.run("group add --file group.yaml description=some").output();
    let shown = folder.run("group show others --json").output();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["name"], &shown["description"]), (&"Others".into(), &"some".into()));
    folder.write("list.json", r#"["a", "b"]"#);
    let list = folder.run("label add X --file list.json");
    assert!(list.stderr.contains("`list.json` is to be a mapping"), "{}", list.stderr);
    folder.write("broken.yaml", "name: [");
    insta::assert_snapshot!(told(&folder.run("group add --file broken.yaml")), @"
    stderr: error: `broken.yaml` cannot be used: the document is not YAML: while parsing a node, did not find expected node content at line 2 column 1
    exit code: 1
    ");
}

#[test]
fn a_secret_that_a_program_is_given_is_known_to_be_used() {
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
fn a_running_server_is_asked_and_its_journal_left_alone() {
    let server = Server::start();
    let at = format!("--server {}", server.url(""));
    let key = [("TOOLCRIB_KEY", server.key.as_str())];
    let run =
        |line: &str, environment: &[(&str, &str)]| server.folder.run_with(line, "", environment);
    insta::assert_snapshot!(told(&run("label add Safe", &[])), @"
    stderr: error: a server runs on the journal `FOLDER/toolcrib.db`: give --server with its address, and TOOLCRIB_KEY with an admin's key
    exit code: 6
    ");
    insta::assert_snapshot!(told(&run(&format!("label add Safe {at}"), &key)), @"added label `safe`");
    insta::assert_snapshot!(told(&run(&format!("label list {at}"), &key)), @"
    1 label
      ID    COLOUR   NAME  DESCRIPTION
      safe  #808080  Safe
    ");
    insta::assert_snapshot!(told(&run(&format!("label list {at}"), &[])), @"
    stderr: error: this is for admins: send a key, as TOOLCRIB_KEY
    exit code: 5
    ");
}

#[test]
fn the_tools_of_a_group_are_told_by_their_ids() {
    let folder = filled();
    folder.run(r#"group add Some tools=["own:uuid"]"#).output();
    insta::assert_snapshot!(told(&folder.run("group tools some")), @"
    1 tool
      ID        SERVED  EXPLICIT
      own:uuid     yes  yes
    ");
}
