//! `cargo xtask test`: runs all CI checks in order, and stops at the first failure.

mod features;
mod golden_files;
mod licence_expression;
mod licences;
mod selection;
mod test_suite;
mod unused_dependencies;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use crate::checks::selection::StepSelection;
use crate::program::{self, cargo_command};
use crate::xtask_error::XtaskError;
use crate::{book, clients, conformance, packaging, rig, servers, setup};

/// One check. The steps run in the order of the list.
struct CheckStep {
    name: &'static str,
    check: fn(&mut CheckProgress) -> Result<(), XtaskError>,
}

const STEPS: [CheckStep; 15] = [
    CheckStep { name: "setup", check: |progress| install_requirements(&progress.selection) },
    CheckStep {
        name: "format",
        check: |_| program::run_command(&mut cargo_command(&["fmt", "--all", "--check"])),
    },
    CheckStep { name: "lint", check: |_| run_clippy() },
    CheckStep { name: "features", check: |_| features::check_features() },
    CheckStep { name: "documentation", check: |_| build_documentation() },
    CheckStep { name: "book", check: |_| book::build_book() },
    CheckStep { name: "packaging", check: |_| packaging::check_packaging() },
    CheckStep { name: "licences", check: |_| licences::check_licences() },
    CheckStep {
        name: "unused dependencies",
        check: |_| unused_dependencies::check_unused_dependencies(),
    },
    CheckStep { name: "tests", check: test_suite::check_tests },
    CheckStep { name: "golden files", check: golden_files::check_golden_files },
    CheckStep { name: "conformance", check: |_| conformance::check_conformance() },
    CheckStep { name: "clients", check: |_| clients::check_clients() },
    CheckStep { name: "servers", check: |_| servers::check_servers() },
    CheckStep { name: "short crash run", check: |_| rig::short_crash_run() },
];

/// State that a later step needs from an earlier one.
struct CheckProgress {
    selection: StepSelection,
    /// The golden files that tests refer to; `None` until all tests have run.
    golden_files_in_use: Option<BTreeSet<PathBuf>>,
}

pub(crate) fn run_checks(selection: StepSelection) -> Result<ExitCode, XtaskError> {
    let mut progress = CheckProgress { selection, golden_files_in_use: None };
    let mut durations = Vec::new();
    for step in STEPS {
        if !progress.selection.includes(step.name) {
            continue;
        }
        println!("── {}", step.name);
        let start = Instant::now();
        let result = (step.check)(&mut progress);
        durations.push((step.name, start.elapsed()));
        if let Err(failure) = result {
            print_durations(&durations, "failed");
            let again = progress.selection.repeat_command(step.name);
            let sentence =
                format!("{failure}\nstep `{}` failed; repeat it alone with `{again}`", step.name);
            return Err(XtaskError::new(sentence));
        }
    }
    print_durations(&durations, "passed");
    Ok(ExitCode::SUCCESS)
}

fn print_durations(durations: &[(&str, Duration)], verdict: &str) {
    println!();
    for (name, duration) in durations {
        println!("{name:<20} {:>8.1} s", duration.as_secs_f64());
    }
    let total: Duration = durations.iter().map(|(_, duration)| duration).sum();
    println!("{verdict:<20} {:>8.1} s", total.as_secs_f64());
}

/// Installs the system programs of all selected steps first: a missing one must not be found after minutes.
fn install_requirements(selection: &StepSelection) -> Result<(), XtaskError> {
    setup::ensure_system_programs()?;
    let includes_any = |steps: &[&str]| steps.iter().any(|step| selection.includes(step));
    if includes_any(&["conformance", "clients", "servers"]) {
        setup::ensure_npm()?;
    }
    if includes_any(&["book", "packaging", "clients", "servers"]) {
        setup::ensure_python()?;
    }
    if selection.includes("packaging") {
        setup::ensure_systemd()?;
    }
    if selection.includes("servers") {
        setup::ensure_git()?;
    }
    if selection.includes("tests") {
        setup::ensure_browser()?;
    }
    Ok(())
}

fn run_clippy() -> Result<(), XtaskError> {
    program::run_command(&mut cargo_command(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn build_documentation() -> Result<(), XtaskError> {
    program::run_command(
        cargo_command(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
    )
}
