//! Wrong paths, foreign files and foreign databases: one line names the error and the remedy, and nothing changes.

use std::sync::Arc;

use catalog::journal::SqliteJournal;

use crate::support::Folder;

#[test]
fn reading_a_missing_journal_does_not_create_it() {
    let folder = Folder::empty();
    insta::assert_snapshot!(folder.run("journal show").seen(), @"
    stderr: error: the journal `FOLDER/toolcrib.db` cannot be opened (there is no such file: `toolcrib serve` makes one, `toolcrib journal import` one from an export)
    exit code: 1
    ");
    for verb in [
        "journal tail",
        "journal verify",
        "journal export",
        "journal collect",
        "secret list",
        "secret remove x",
    ] {
        let run = folder.run(verb);
        assert_eq!((run.code, run.stderr.lines().count()), (Some(1), 1), "{verb}: {}", run.seen());
        assert_eq!(folder.files(), [""; 0], "{verb}");
    }
}

#[test]
fn the_journal_is_set_by_an_option_or_the_environment() {
    let folder = Folder::with_catalog();
    let here = folder.path("toolcrib.db");
    let environment = [("TOOLCRIB_JOURNAL", here.to_str().unwrap())];
    let elsewhere = Folder::empty();
    let shown = folder.run("journal show").output();
    assert_eq!(elsewhere.run_with("journal show", "", &environment).output(), shown);
    // The option overrides the environment variable, before or after the verb.
    for arguments in ["--journal missing.db journal show", "journal show --journal missing.db"] {
        assert_eq!(elsewhere.run_with(arguments, "", &environment).code, Some(1));
    }
    assert_eq!(folder.run_with("journal show", "", &[("TOOLCRIB_JOURNAL", "")]).output(), shown);
}

#[test]
fn an_invalid_journal_url_is_rejected_without_showing_its_password() {
    let folder = Folder::empty();
    insta::assert_snapshot!(folder.run("journal show --journal mysql://me:hunter2@db/x").seen(), @"
    stderr: error: a journal is a path, `postgres://…` or `memory:`; `mysql://` is none of them
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal show --journal memory:").seen(), @"
    stderr: error: a journal in memory is gone with its process: give a path or `postgres://…`
    exit code: 1
    ");
    let run = folder.run("journal show --journal postgres://me:hunter2@db:notaport/x");
    assert_eq!(run.code, Some(1));
    assert!(!run.seen().contains("hunter2"), "{}", run.seen());
}

#[test]
fn a_file_that_is_no_journal_is_rejected_and_unchanged() {
    let folder = Folder::empty();
    let random: Vec<u8> = (0..5000_u32).map(|n| (n * n % 251) as u8).collect();
    folder.write("toolcrib.db", &random);
    insta::assert_snapshot!(folder.run("journal show").seen(), @"
    stderr: error: `FOLDER/toolcrib.db` is not a toolcrib journal (file is not a database): give another path or URL
    exit code: 1
    ");
    insta::assert_snapshot!(folder.run("journal verify").seen(), @"
    stderr: error: `FOLDER/toolcrib.db` is not a toolcrib journal (file is not a database): give another path or URL
    exit code: 1
    ");
    let run = folder.run("journal collect");
    assert_eq!(run.code, Some(1));
    assert_eq!(std::fs::read(folder.path("toolcrib.db")).unwrap(), random);
}

#[test]
fn a_database_of_another_program_is_rejected() {
    let folder = Folder::empty();
    let connection = rusqlite::Connection::open(folder.path("toolcrib.db")).unwrap();
    connection.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(connection);
    insta::assert_snapshot!(folder.run("journal tail").seen(), @"
    stderr: error: `FOLDER/toolcrib.db` is not a toolcrib journal (it is a database of another program): give another path or URL
    exit code: 1
    ");
}

#[test]
fn a_folder_is_no_journal() {
    let folder = Folder::empty();
    std::fs::create_dir(folder.path("toolcrib.db")).unwrap();
    let run = folder.run("journal tail");
    assert_eq!((run.code, run.stderr.lines().count()), (Some(1), 1), "{}", run.seen());
}

#[test]
fn an_empty_file_is_no_journal_yet() {
    let folder = Folder::empty();
    folder.write("toolcrib.db", "");
    let run = folder.run("journal tail");
    assert_eq!((run.code, run.stderr.lines().count()), (Some(1), 1), "{}", run.seen());
}

#[test]
fn verify_finds_a_truncated_journal() {
    let folder = Folder::with_catalog();
    // Move all data into the main file, then cut that file in half.
    folder.run("journal collect").output();
    let whole = std::fs::read(folder.path("toolcrib.db")).unwrap();
    folder.write("toolcrib.db", &whole[..whole.len() / 2]);
    let run = folder.run("journal verify");
    assert_eq!(run.code, Some(3), "{}", run.seen());
}

#[test]
fn a_journal_of_a_newer_version_is_rejected() {
    let folder = Folder::with_catalog();
    let connection = rusqlite::Connection::open(folder.path("toolcrib.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    drop(connection);
    insta::assert_snapshot!(folder.run("journal show").seen(), @"
    stderr: error: the journal `FOLDER/toolcrib.db` has format 99 and this toolcrib knows up to 1: use the toolcrib that wrote it, or a newer one
    exit code: 1
    ");
}

#[test]
fn a_journal_in_use_is_read_only() {
    let folder = Folder::with_catalog();
    let clock = Arc::new(toolcrib::SystemClock);
    let server = SqliteJournal::open(&folder.path("toolcrib.db"), clock).unwrap();
    for verb in ["journal show", "journal tail", "journal verify", "journal export", "secret list"]
    {
        let run = folder.run(verb);
        assert_eq!(run.code, Some(0), "{}", run.seen());
    }
    insta::assert_snapshot!(folder.run("journal collect").seen(), @"
    stderr: error: the journal `FOLDER/toolcrib.db` is in use by another process: stop it first, or use PostgreSQL for several nodes
    exit code: 1
    ");
    drop(server);
}

#[test]
fn a_journal_cannot_be_written_under_two_names() {
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    std::os::unix::fs::symlink(folder.path("toolcrib.db"), folder.path("link.db")).unwrap();
    let lock = std::fs::File::open(folder.path("toolcrib.db.lock")).unwrap();
    lock.lock().unwrap();
    let through_link = folder.run_with("--journal link.db journal import -", &export, &[]).seen();
    assert!(through_link.contains("in use by another process"), "{through_link}");
    lock.unlock().unwrap();
    std::fs::hard_link(folder.path("toolcrib.db"), folder.path("second.db")).unwrap();
    let second = folder.run_with("--journal second.db journal import -", &export, &[]).seen();
    assert!(second.contains("a hard link: remove one of them"), "{second}");
}

#[test]
fn an_import_leaves_everything_in_one_file() {
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    folder.run_with("--journal two.db journal import -", &export, &[]).output();
    assert!(!folder.path("two.db-wal").exists(), "events are outside the file");
    std::fs::copy(folder.path("two.db"), folder.path("copy.db")).unwrap();
    assert_eq!(folder.run("--journal copy.db journal export").stdout, export);
}

#[test]
fn an_event_that_cannot_be_exported_is_reported() {
    let folder = Folder::with_catalog();
    folder.sql("UPDATE events SET data = '{' WHERE position = 5");
    let run = folder.run("journal export out.jsonl");
    assert_eq!(run.code, Some(1));
    assert!(run.seen().contains("event 5 cannot be exported"), "{}", run.seen());
    assert!(!folder.path("out.jsonl").exists());
}

#[test]
fn an_export_does_not_overwrite_files_of_the_journal() {
    let folder = Folder::with_catalog();
    for name in ["toolcrib.db", "toolcrib.db.lock"] {
        let run = folder.run(&format!("journal export --force {name}"));
        assert_eq!(run.code, Some(1), "{name}");
    }
}

#[test]
fn an_export_with_invalid_events_is_rejected() {
    let folder = Folder::with_catalog();
    let export = folder.run("journal export").stdout;
    for (from, to) in [
        ("\"position\":2,", "\"position\":0,"),
        ("2026-05-01T09:00:00Z", "9999-12-30T22:00:00.5Z"),
        ("2026-05-01T09:00:00Z", "2026-05-01T09:00:00.0000001Z"),
        ("\"actor\":\"ada\"", "\"actor\":\"a\\u0000a\""),
    ] {
        let odd = export.replacen(from, to, 1);
        assert_ne!(odd, export, "{from}");
        let run = folder.run_with("--journal odd.db journal import -", &odd, &[]);
        assert_eq!(run.code, Some(1), "{to}");
        assert!(run.seen().contains("line "), "{}", run.seen());
    }
}
