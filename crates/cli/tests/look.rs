//! Reading a journal: show, tail, verify, collect.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use crate::support::Folder;

#[test]
fn show_prints_the_catalog() {
    insta::assert_snapshot!(Folder::with_catalog().run("journal show").seen(), @"
    The catalog after event 18 of 2026-05-01T09:12:00.000Z

    2 sources
      ID        KIND     HEALTH    ENABLED  TOOLS
      petstore  openapi  healthy   yes          3
      tickets   mcp      degraded  no           0

    3 tools, 2 served

    2 groups
      ID         ACTIVE  MEMBERS  SERVED
      pets-all   no            3       0
      pets-read  yes           2       2

    1 policy
      ID          ACTIVE  PRIORITY  GROUPS
      staff-read  yes           10  pets-read

    1 label
      ID   NAME           TOOLS
      pii  Personal data      1
    ");
}

#[test]
fn show_accepts_a_past_position_time_or_date() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal show --at 7").seen(), @"
    The catalog after event 7 of 2026-05-01T09:02:00.000Z

    1 source
      ID        KIND     HEALTH   ENABLED  TOOLS
      petstore  openapi  healthy  yes          3

    3 tools, 3 served

    0 groups

    0 policies

    0 labels
    ");
    let at_7 = folder.run("journal show --at 7").output();
    assert_eq!(folder.run("journal show --at 2026-05-01T11:02:59+02:00").output(), at_7);
    let now = folder.run("journal show").output();
    assert_eq!(folder.run("journal show --at 18").output(), now);
    assert_eq!(folder.run("journal show --at 2026-05-02").output(), now);
    insta::assert_snapshot!(folder.run("journal show --at 2026-05-01").seen(), @"The catalog is empty: nothing is recorded up to this moment");
}

#[test]
fn an_invalid_moment_is_rejected() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal show --at 19").seen(), @"
    stderr: error: position 19 is not there yet: the journal ends at 18
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal show --at yesterday").seen(), @"
    stderr: error: invalid value 'yesterday' for '--at <MOMENT>': a moment is a position (`120`), a time (`2026-05-01T12:00:00Z`) or a date (`2026-05-01`)
    stderr:
    stderr: For more information, try '--help'.
    exit code: 2
    ");
}

#[test]
fn show_as_json_is_one_document() {
    let shown: Value =
        serde_json::from_str(&Folder::with_catalog().run("journal show --json").output()).unwrap();
    insta::assert_json_snapshot!(shown, @r#"
    {
      "position": 18,
      "time": "2026-05-01T09:12:00Z",
      "events_not_understood": 0,
      "tools": 3,
      "tools_served": 2,
      "sources": [
        {
          "id": "petstore",
          "name": "Pet Store",
          "kind": "openapi",
          "health": "healthy",
          "enabled": true,
          "tools": 3
        },
        {
          "id": "tickets",
          "name": "Tickets",
          "kind": "mcp",
          "health": "degraded",
          "enabled": false,
          "tools": 0
        }
      ],
      "groups": [
        {
          "id": "pets-all",
          "name": "pets-all",
          "active": false,
          "members": 3,
          "served": 0
        },
        {
          "id": "pets-read",
          "name": "pets-read",
          "active": true,
          "members": 2,
          "served": 2
        }
      ],
      "policies": [
        {
          "id": "staff-read",
          "name": "Staff may read",
          "active": true,
          "priority": 10,
          "groups": [
            "pets-read"
          ]
        }
      ],
      "labels": [
        {
          "id": "pii",
          "name": "Personal data",
          "tools": 1
        }
      ],
      "keys": []
    }
    "#);
}

#[test]
fn tail_prints_events_in_columns() {
    insta::assert_snapshot!(Folder::with_catalog().run("journal tail -n 6").seen(), @"
    POSITION  TIME                      STREAM                          VERSION  TYPE              ACTOR
          13  2026-05-01T09:07:00.000Z  source_tool-petstore:getOwner         2  ToolLabelled      ada
          14  2026-05-01T09:08:00.000Z  source_tool-petstore:deletePet        2  ToolDisabled      ada
          15  2026-05-01T09:09:00.000Z  tool_group-pets-all                   1  GroupCreated      ada
          16  2026-05-01T09:10:00.000Z  tool_group-pets-read                  1  GroupCreated      ada
          17  2026-05-01T09:11:00.000Z  tool_group-pets-all                   2  GroupDeactivated  ada
          18  2026-05-01T09:12:00.000Z  access_policy-staff-read              1  PolicyDefined     ada
    ");
}

#[test]
fn tail_prints_one_stream() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal tail -n 2 --stream upstream_source-tickets").seen(), @"
    POSITION  TIME                      STREAM                   VERSION  TYPE                 ACTOR
          10  2026-05-01T09:04:00.000Z  upstream_source-tickets        3  SourceHealthChanged  ada
          11  2026-05-01T09:05:00.000Z  upstream_source-tickets        4  SourceDisabled       ada
    ");
    insta::assert_snapshot!(folder.run("journal tail --stream tickets").seen(), @"
    stderr: error: there is no stream `tickets`: streams are called `upstream_source-ID`, `source_tool-ID`, `tool_group-ID`, `access_policy-ID`, `label-ID` and `api_key-ID`
    exit code: 1
    ");
}

#[test]
fn tail_as_json_has_one_event_per_line_with_its_data() {
    insta::assert_snapshot!(Folder::with_catalog().run("journal tail -n 2 --json").seen(), @r#"
    {"position":17,"stream":"tool_group-pets-all","version":2,"type":"GroupDeactivated","time":"2026-05-01T09:11:00Z","actor":"ada","data":{}}
    {"position":18,"stream":"access_policy-staff-read","version":1,"type":"PolicyDefined","time":"2026-05-01T09:12:00Z","actor":"ada","data":{"rules":{"name":"Staff may read","priority":10,"matchers":[{"claim":"role","operator":"equals","value":"staff"}],"groups":["pets-read"]}}}
    "#);
}

#[test]
fn tail_follows_events_of_another_process() {
    let folder = Folder::with_catalog();
    let mut follower = folder.start("journal tail -n 1 --follow --json", &[]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("PolicyDefined"));
    folder.sql(
        "INSERT INTO events (position, stream, version, type, time, actor, data) VALUES
         (19, 'access_policy-staff-read', 2, 'PolicyDeactivated', 1777626840000000, 'ada', '{}')",
    );
    assert!(lines.next().unwrap().unwrap().contains("PolicyDeactivated"));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn tail_escapes_control_characters() {
    let folder = Folder::with_catalog();
    folder.sql("UPDATE events SET actor = char(27) || '[2J' WHERE position = 18");
    let shown = folder.run("journal tail -n 1").output();
    assert!(shown.contains("\\u{1b}[2J") && !shown.contains('\u{1b}'), "{shown}");
}

#[test]
fn verify_prints_ok_for_an_intact_journal() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     18
    streams    9
    documents  1
    digest     DIGEST
    ok
    ");
    let report: Value =
        serde_json::from_str(&folder.run("journal verify --json").output()).unwrap();
    assert_eq!((&report["ok"], &report["problems"]), (&Value::from(true), &Value::Array(vec![])));
}

#[test]
fn verify_finds_a_removed_event() {
    let folder = Folder::with_catalog();
    folder.sql("DELETE FROM events WHERE position = 13");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     17
    streams    9
    documents  1
    digest     DIGEST

    1 problem:
      event 13 is missing
    exit code: 3
    ");
    let run = folder.run("journal verify --json");
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &report["ok"]), (Some(3), &Value::from(false)));
}

#[test]
fn verify_finds_data_of_the_wrong_type() {
    let folder = Folder::with_catalog();
    folder.sql("UPDATE events SET data = '{\"labels\":7}' WHERE position = 13");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     18
    streams    9
    documents  1
    digest     DIGEST
    not understood by this version, and kept: 1

    1 problem:
      event 13 (`ToolLabelled`) cannot be read: invalid type: integer `7`, expected a sequence at line 1 column 11
    exit code: 3
    ");
}

#[test]
fn verify_finds_that_a_start_would_serve_something_else() {
    let (original, folder) = (Folder::with_catalog(), Folder::empty());
    let export = original.run("journal export").stdout;
    // An import stores a checkpoint, and a start trusts it as long as its last event is unchanged.
    folder.run_with("journal import -", &export, &[]).output();
    folder.sql("UPDATE events SET type = 'ToolEnabled' WHERE position = 14");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     18
    streams    9
    documents  1
    digest     DIGEST

    1 problem:
      what is in service (DIGEST) differs from what the journal says (DIGEST)
    exit code: 3
    ");
}

#[test]
fn verify_finds_a_document_that_was_changed_or_removed() {
    let folder = Folder::with_catalog();
    folder.sql("UPDATE documents SET body = '{}'");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     18
    streams    9
    documents  1
    digest     DIGEST

    1 problem:
      document DIGEST does not have the text its digest says
    exit code: 3
    ");
    folder.sql("DELETE FROM documents");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    events     18
    streams    9
    documents  1
    digest     DIGEST

    1 problem:
      document DIGEST is missing
    exit code: 3
    ");
}

#[test]
fn collect_removes_only_what_no_event_refers_to() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal collect").seen(), @"0 documents removed");
    folder.sql("INSERT INTO documents (digest, body) VALUES (zeroblob(32), '{}')");
    insta::assert_snapshot!(folder.run("journal collect").seen(), @"1 document removed");
    assert!(folder.run("journal verify").output().ends_with("ok\n"));
}
