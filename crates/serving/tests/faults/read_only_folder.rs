//! A folder that cannot be written: one can look, and is told why one cannot change.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::program::{Run, command, run};
use crate::world::make_journal;

const NOBODY: u32 = 65534;

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The program as somebody who has no rights beyond those on the files. Root may write anywhere, so root lends itself.
fn toolcrib(folder: &Path, arguments: &str) -> Run {
    // Nobody may look into the folder of the build.
    let program = folder.join("toolcrib");
    let mut command = match is_root() {
        false => command(&program),
        true => as_nobody(&program),
    };
    run(command.args(arguments.split_whitespace()).current_dir(folder).env_clear())
}

fn as_nobody(program: &Path) -> Command {
    let mut setpriv = command("/usr/bin/setpriv");
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    setpriv
}

/// A folder with a journal that can be read and nothing that can be written.
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

/// Or it could not be removed.
fn give_back(folder: tempfile::TempDir) {
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    folder.close().unwrap();
}

fn assert_look_but_not_change(folder: &Path) {
    for verb in ["journal show", "journal tail", "journal verify", "journal export", "secret list"]
    {
        toolcrib(folder, verb).assert_fine(verb);
    }
    let shown = toolcrib(folder, "journal tail");
    assert!(shown.stdout.contains("tool_group-group-2"), "{}", shown.stdout);
    for verb in ["journal collect", "secret remove x"] {
        let refused = toolcrib(folder, verb);
        refused.assert_refused(verb);
        assert!(refused.stderr.contains("cannot be written"), "{verb}: {}", refused.stderr);
        assert!(refused.stderr.contains("writable for this user"), "{verb}: {}", refused.stderr);
    }
}

#[test]
fn in_a_read_only_folder_one_can_look_but_not_change() {
    let folder = folder(|_| {});
    assert_look_but_not_change(folder.path());
    give_back(folder);
}

#[test]
fn also_where_no_lock_was_ever_left() {
    let folder = folder(|folder| fs::remove_file(folder.join("toolcrib.db.lock")).unwrap());
    assert_look_but_not_change(folder.path());
    give_back(folder);
}

/// A process that was killed left a log, which cannot be put in order here. Half the truth would be a lie.
#[test]
fn a_log_that_cannot_be_put_in_order_is_said_and_not_overlooked() {
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
        tail.assert_refused("journal tail");
    }
    give_back(folder);
}
