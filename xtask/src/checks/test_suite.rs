//! Runs the tests with a temporary PostgreSQL, and collects the golden files that they refer to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checks::{CheckProgress, StepSelection};
use crate::postgres::ThrowAwayPostgres;
use crate::program::{self, cargo_command};
use crate::workspace;
use crate::xtask_error::XtaskError;

pub(super) fn check_tests(progress: &mut CheckProgress) -> Result<(), XtaskError> {
    let postgres = ThrowAwayPostgres::start()?;
    let references =
        std::env::temp_dir().join(format!("toolcrib-golden-files-{}", std::process::id()));
    std::fs::write(&references, "")?;
    let result = run_tests(&progress.selection, &postgres, &references);
    let in_use = golden_files_in(&workspace::read_file(&references)?);
    std::fs::remove_file(&references)?;
    result?;
    progress.golden_files_in_use = progress.selection.includes_all_tests().then_some(in_use);
    Ok(())
}

fn run_tests(
    selection: &StepSelection,
    postgres: &ThrowAwayPostgres,
    references: &Path,
) -> Result<(), XtaskError> {
    program::run_command(with_environment(&mut test_command(selection), postgres, references))?;
    if !selection.includes_all_tests() {
        println!("documentation tests are left out: only some tests were asked for");
        return Ok(());
    }
    program::run_command(with_environment(
        &mut cargo_command(&["test", "--workspace", "--doc"]),
        postgres,
        references,
    ))
}

fn test_command(selection: &StepSelection) -> Command {
    let nextest = program::run_succeeds(&mut cargo_command(&["nextest", "--version"]));
    let mut tests = if nextest {
        cargo_command(&["nextest", "run", "--workspace"])
    } else {
        cargo_command(&["test", "--workspace", "--all-targets", "--"])
    };
    tests.args(&selection.filters).args(&selection.options);
    tests
}

/// `insta` appends the path of each golden file it compares to the file in `INSTA_SNAPSHOT_REFERENCES_FILE`.
fn with_environment<'a>(
    command: &'a mut Command,
    postgres: &ThrowAwayPostgres,
    references: &Path,
) -> &'a mut Command {
    command
        .envs(postgres.environment())
        .env("INSTA_UPDATE", "no")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", references)
}

/// Canonical paths, because tests may refer to a file through `..`.
fn golden_files_in(references: &str) -> BTreeSet<PathBuf> {
    references.lines().filter_map(|line| Path::new(line).canonicalize().ok()).collect()
}
