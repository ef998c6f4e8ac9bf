//! A read-only folder: the journal can be read, and every write is rejected with the reason.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::program::{Run, command, run};
use crate::world::make_journal;

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Runs the program without privileges beyond file permissions. Root can write anywhere, so it switches its user.
fn toolcrib(folder: &Path, arguments: &str) -> Run {
    // The unprivileged user may have no access to the build folder.
    let program = folder.join("toolcrib");
    let mut command = match is_root() {
        false => command(&program),
        true => run_as_nobody(&program),
    };
    run(command.args(arguments.split_whitespace()).current_dir(folder).env_clear())
}

fn run_as_nobody(program: &Path) -> Command {
    let mut setpriv = command("/usr/bin/setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    setpriv
}

/// Folder with a journal that is readable and not writable.
fn folder(files: impl FnOnce(&Path)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    make_journal(&folder.path().join("toolcrib.db"), 3);
    files(folder.path());
    fs::copy(env!("CARGO_BIN_EXE_toolcrib"), folder.path().join("toolcrib")).unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if is_root() {
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let mode = if path.ends_with("toolcrib") { 0o555 } else { 0o444 };
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    folder
}

/// Makes the folder writable again, so that it can be removed.
fn remove_folder(folder: tempfile::TempDir) {
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder.close().unwrap();
}

fn assert_readable_but_not_writable(folder: &Path) {
    for verb in ["journal show", "journal tail", "journal verify", "journal export", "secret list"]
    {
        toolcrib(folder, verb).assert_succeeded(verb);
    }
    let shown = toolcrib(folder, "journal tail");
    assert!(shown.stdout.contains("tool_group-group-2"), "{}", shown.stdout);
    for verb in ["journal collect", "secret remove x"] {
        let refused = toolcrib(folder, verb);
        refused.assert_rejected(verb);
        assert!(refused.stderr.contains("cannot be written"), "{verb}: {}", refused.stderr);
        assert!(refused.stderr.contains("writable for this user"), "{verb}: {}", refused.stderr);
    }
}

#[test]
fn a_journal_in_a_read_only_folder_can_only_be_read() {
    let folder = folder(|_| {});
    assert_readable_but_not_writable(folder.path());
    remove_folder(folder);
}

#[test]
fn a_journal_in_a_read_only_folder_without_a_lock_file_can_only_be_read() {
    let folder = folder(|folder| fs::remove_file(folder.join("toolcrib.db.lock")).unwrap());
    assert_readable_but_not_writable(folder.path());
    remove_folder(folder);
}

/// The write-ahead log of a killed process cannot be merged here, and reading without it would omit events.
#[test]
fn a_log_that_cannot_be_merged_is_read_or_reported() {
    let folder = folder(|folder| {
        let copy = tempfile::tempdir().unwrap();
        let names = ["toolcrib.db", "toolcrib.db-wal"];
        let journal = crate::world::open(&folder.join("toolcrib.db"));
        let append = journal.append(crate::world::event("late", 0, "only in the log"));
        crate::world::runtime().block_on(append).unwrap();
        for name in names {
            fs::copy(folder.join(name), copy.path().join(name)).unwrap();
        }
        drop(journal);
        for name in names {
            fs::copy(copy.path().join(name), folder.join(name)).unwrap();
        }
        fs::remove_file(folder.join("toolcrib.db-shm")).ok();
    });
    assert!(0 < fs::metadata(folder.path().join("toolcrib.db-wal")).unwrap().len());
    let tail = toolcrib(folder.path(), "journal tail");
    if tail.code == Some(0) {
        assert!(tail.stdout.contains("late"), "the last event was left out:\n{}", tail.stdout);
    } else {
        tail.assert_rejected("journal tail");
    }
    remove_folder(folder);
}
