//! Moving a journal: export, import, and the state after either is interrupted.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::support::{Folder, KEY, postgres_database};

#[test]
fn an_export_is_imported_without_loss() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal export one.jsonl").seen(), @"exported 18 events to one.jsonl");
    insta::assert_snapshot!(folder.run("--journal two.db journal import one.jsonl").seen(), @"
    imported 18 events
    the catalog now has 2 sources, 3 tools, 2 groups, 1 policy, 1 label
    2 secrets are not in this journal: set them with `toolcrib secret set NAME`
      petstore-token
      tickets-token
    ");
    folder.run("--journal two.db journal export two.jsonl").output();
    assert_eq!(folder.read("one.jsonl"), folder.read("two.jsonl"));
    let verified = folder.run("journal verify").output();
    assert_eq!(folder.run("--journal two.db journal verify").output(), verified);
}

#[test]
fn a_journal_moves_to_postgresql_and_back() {
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    let postgres = [("TOOLCRIB_JOURNAL", &*postgres_database("cli_export_import"))];
    let import = folder.run_with("journal import -", &export, &postgres);
    assert!(import.stdout.starts_with("imported 18 events\n"), "{}", import.seen());
    for verb in ["journal export", "journal show", "journal tail", "journal verify"] {
        let there = folder.run_with(verb, "", &postgres);
        assert_eq!(there.seen(), folder.run(verb).seen(), "{verb}");
    }
}

#[test]
fn an_export_to_standard_output_is_the_same_as_to_a_file() {
    let folder = Folder::with_catalog();
    folder.run("journal export one.jsonl").output();
    let run = folder.run("journal export");
    assert_eq!(run.stderr, "exported 18 events\n");
    assert_eq!(run.stdout, folder.read("one.jsonl"));
    let import =
        folder.run_with("--journal two.db journal import - --json", &run.stdout, &[]).output();
    let report: Value = serde_json::from_str(&import).unwrap();
    insta::assert_json_snapshot!(report, @r#"
    {
      "events": 18,
      "new_events": 18,
      "sources": 2,
      "tools": 3,
      "groups": 2,
      "policies": 1,
      "labels": 1,
      "missing_secrets": [
        "petstore-token",
        "tickets-token"
      ]
    }
    "#);
}

#[test]
fn only_the_owner_can_read_an_export_and_no_other_file_remains() {
    let folder = Folder::with_catalog();
    folder.run("journal export one.jsonl").output();
    let mode = folder.path("one.jsonl").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let others = folder.files().into_iter().filter(|name| !name.starts_with("toolcrib.db"));
    assert_eq!(others.collect::<Vec<_>>(), ["one.jsonl"]);
}

#[test]
fn an_export_replaces_a_file_only_with_force() {
    let folder = Folder::with_catalog();
    folder.write("one.jsonl", "precious");
    insta::assert_snapshot!(folder.run("journal export one.jsonl").seen(), @"
    stderr: error: `one.jsonl` is there already: give another name, or --force to replace it
    exit code: 1
    ");
    assert_eq!(folder.read("one.jsonl"), "precious");
    folder.run("journal export one.jsonl --force").output();
    assert_ne!(folder.read("one.jsonl"), "precious");
}

#[test]
fn an_export_never_replaces_the_journal_or_a_special_file() {
    let folder = Folder::with_catalog();
    insta::assert_snapshot!(folder.run("journal export ./toolcrib.db --force").seen(), @"
    stderr: error: `./toolcrib.db` is the journal itself: give another name
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal export /dev/null --force").seen(), @"
    stderr: error: `/dev/null` is not an ordinary file: use `-` and redirect the output
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal export no/such/folder.jsonl").seen(), @"
    stderr: error: the folder of `no/such/folder.jsonl` is not there: make it first
    exit code: 1
    ");
    assert!(folder.run("journal verify").output().ends_with("ok\n"));
}

#[test]
fn a_failed_export_leaves_no_file() {
    let folder = Folder::with_catalog();
    folder.sql("UPDATE documents SET body = 'not JSON'");
    let run = folder.run("journal export one.jsonl");
    assert_eq!(run.code, Some(1), "{}", run.seen());
    let files = folder.files();
    assert!(files.iter().all(|name| name.starts_with("toolcrib.db")), "{files:?}");
}

#[test]
fn a_truncated_export_is_rejected_and_a_complete_one_finishes_the_import() {
    let folder = Folder::with_catalog();
    folder.run("journal export whole.jsonl").output();
    let whole = folder.read("whole.jsonl");
    let lines: Vec<_> = whole.lines().collect();
    folder.write("cut.jsonl", lines[..10].join("\n") + "\n");
    insta::assert_snapshot!(folder.run("--journal two.db journal import cut.jsonl").seen(), @"
    stderr: error: `cut.jsonl`: line 11 is missing: the file is cut off. What came is stored; import the whole file to go on
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("--journal two.db journal import whole.jsonl").seen(), @"
    imported 10 of 18 events; the others were there already
    the catalog now has 2 sources, 3 tools, 2 groups, 1 policy, 1 label
    2 secrets are not in this journal: set them with `toolcrib secret set NAME`
      petstore-token
      tickets-token
    ");
    insta::assert_snapshot!(folder.run("--journal two.db journal import whole.jsonl").seen(), @"
    imported nothing: the journal has the 18 events already
    the catalog now has 2 sources, 3 tools, 2 groups, 1 policy, 1 label
    2 secrets are not in this journal: set them with `toolcrib secret set NAME`
      petstore-token
      tickets-token
    ");
    assert_eq!(folder.run("--journal two.db journal export").stdout, whole);
}

#[test]
fn an_export_with_a_changed_event_is_rejected() {
    let folder = Folder::with_catalog();
    let changed = folder.run("journal export").stdout.replace("\"GET\"", "\"PUT\"");
    folder.write("changed.jsonl", changed);
    insta::assert_snapshot!(folder.run("--journal two.db journal import changed.jsonl").seen(), @"
    stderr: error: `changed.jsonl`: line 22 says another digest: something was changed on the way: get the export again, and import it into an empty journal
    exit code: 1
    ");
}

#[test]
fn a_file_that_is_no_export_is_rejected_and_creates_no_journal() {
    let folder = Folder::empty();
    folder.write("text", "hello\n");
    folder.write("bytes", [0xff, 0xfe, 0x00, b'\n']);
    folder.write("nothing", "");
    folder.write("headless", "{\"end\":{\"events\":0,\"digest\":\"00\"}}\n");
    for name in ["text", "bytes", "nothing", "headless", "missing"] {
        let run = folder.run(&format!("journal import {name}"));
        assert_eq!(run.code, Some(1), "{}", run.seen());
        assert!(!folder.path("toolcrib.db").exists(), "{name}");
    }
    insta::assert_snapshot!(folder.run("journal import text").seen(), @"
    stderr: error: `text`: line 1 is not a line of a journal export: expected value at line 1 column 1
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal import bytes").seen(), @"
    stderr: error: `bytes`: line 1 is not text: this is not a journal export
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal import missing").seen(), @"
    stderr: error: `missing` cannot be read: No such file or directory (os error 2)
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal import nothing").seen(), @"
    stderr: error: `nothing`: line 1 is empty: this is not a journal export
    exit code: 1
    ");
}

#[test]
fn the_length_of_a_line_is_limited() {
    let folder = Folder::empty();
    folder.write("long", vec![b' '; 65 << 20]);
    insta::assert_snapshot!(folder.run("journal import long").seen(), @"
    stderr: error: `long`: line 1 has more than 67108864 bytes: this is not a journal export
    exit code: 1
    ");
}

#[test]
fn an_export_of_another_history_is_rejected() {
    let (folder, other) = (Folder::with_catalog(), Folder::with_catalog());
    other.sql("UPDATE events SET actor = 'bob' WHERE position = 18");
    let export = other.run("journal export").stdout;
    insta::assert_snapshot!(folder.run_with("journal import -", &export, &[]).seen(), @"
    stderr: error: event 18 is in the journal already and is another one: import into an empty journal
    exit code: 1
    ");
}

#[test]
fn only_missing_secrets_are_listed_after_an_import() {
    let folder = Folder::with_catalog();
    folder.run("journal export one.jsonl").output();
    let key = [("TOOLCRIB_SEALING_KEY", KEY)];
    folder.run_with("--journal two.db secret set petstore-token", "canary-7f3a", &key).output();
    let import = folder.run("--journal two.db journal import one.jsonl").output();
    assert!(
        import.ends_with("set it with `toolcrib secret set NAME`\n  tickets-token\n"),
        "{import}"
    );
    let again = folder.run("--journal two.db journal export").stdout;
    assert_eq!(again, folder.read("one.jsonl"));
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let folder = Folder::with_catalog();
    // More than a pipe holds, so that the program writes to the closed end.
    folder.sql("UPDATE documents SET body = '\"' || hex(zeroblob(1000000)) || '\"'");
    let mut export = folder.start("journal export", &[]);
    let mut start = [0; 10];
    let mut stdout = export.stdout.take().unwrap();
    stdout.read_exact(&mut start).unwrap();
    drop(stdout);
    let output = export.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
