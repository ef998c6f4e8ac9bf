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

pub(crate) use crate::checks::selection::Selection;
use crate::failure::Failure;
use crate::program::{self, cargo};
use crate::{book, clients, conformance, packaging, rig, servers, setup};

/// One check. The steps run in the order of the list.
struct Step {
    name: &'static str,
    check: fn(&mut Progress) -> Result<(), Failure>,
}

const STEPS: [Step; 15] = [
    Step { name: "setup", check: |progress| set_up(&progress.selection) },
    Step { name: "format", check: |_| program::run(&mut cargo(&["fmt", "--all", "--check"])) },
    Step { name: "lint", check: |_| lint() },
    Step { name: "features", check: |_| features::check() },
    Step { name: "documentation", check: |_| documentation() },
    Step { name: "book", check: |_| book::check() },
    Step { name: "packaging", check: |_| packaging::check() },
    Step { name: "licences", check: |_| licences::check() },
    Step { name: "unused dependencies", check: |_| unused_dependencies::check() },
    Step { name: "tests", check: test_suite::check },
    Step { name: "golden files", check: golden_files::check },
    Step { name: "conformance", check: |_| conformance::check() },
    Step { name: "clients", check: |_| clients::check() },
    Step { name: "servers", check: |_| servers::check() },
    Step { name: "short crash run", check: |_| rig::short_crash_run() },
];

/// State that a later step needs from an earlier one.
struct Progress {
    selection: Selection,
    /// The golden files that tests refer to; `None` until all tests have run.
    golden_files_in_use: Option<BTreeSet<PathBuf>>,
}

pub(crate) fn run(selection: Selection) -> Result<ExitCode, Failure> {
    let mut progress = Progress { selection, golden_files_in_use: None };
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
            print_table(&durations, "failed");
            let again = progress.selection.only(step.name);
            let sentence =
                format!("{failure}\nstep `{}` failed; repeat it alone with `{again}`", step.name);
            return Err(Failure::new(sentence));
        }
    }
    print_table(&durations, "passed");
    Ok(ExitCode::SUCCESS)
}

fn print_table(durations: &[(&str, Duration)], verdict: &str) {
    println!();
    for (name, duration) in durations {
        println!("{name:<20} {:>8.1} s", duration.as_secs_f64());
    }
    let total: Duration = durations.iter().map(|(_, duration)| duration).sum();
    println!("{verdict:<20} {:>8.1} s", total.as_secs_f64());
}

/// Installs the system programs of all selected steps first: a missing one must not be found after minutes.
fn set_up(selection: &Selection) -> Result<(), Failure> {
    setup::make_sure_of_system_programs()?;
    let includes_any = |steps: &[&str]| steps.iter().any(|step| selection.includes(step));
    if includes_any(&["conformance", "clients", "servers"]) {
        setup::make_sure_of_npm()?;
    }
    if includes_any(&["book", "packaging", "clients", "servers"]) {
        setup::make_sure_of_python()?;
    }
    if selection.includes("packaging") {
        setup::make_sure_of_systemd()?;
    }
    if selection.includes("servers") {
        setup::make_sure_of_git()?;
    }
    if selection.includes("tests") {
        setup::make_sure_of_browser()?;
    }
    Ok(())
}

fn lint() -> Result<(), Failure> {
    program::run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documentation() -> Result<(), Failure> {
    program::run(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}
