//! Runs the crate `rig` (agreement, benchmarks, clients, corpus and crash runs) with the temporary PostgreSQL it needs.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use crate::postgres::ThrowAwayPostgres;
use crate::xtask_error::XtaskError;
use crate::{program, setup};

/// Runs `rig` and returns its exit code. Only `rig` writes to stdout.
pub(crate) fn run_rig(name: &str, arguments: &[String]) -> Result<ExitCode, XtaskError> {
    setup::ensure_system_programs()?;
    if needs_toolcrib(name, arguments) {
        let mut build =
            program::cargo_command(&["build", "--quiet", "--release", "--bin", "toolcrib"]);
        program::run_command(build.args(["--package", "toolcrib-cli", "--package", "rig"]))?;
    }
    let mut rig = rig_command(&[name]);
    rig.args(arguments);
    if !needs_postgres(name, arguments) {
        return Ok(exit_code(program::run_for_status(&mut rig)?));
    }
    let postgres = ThrowAwayPostgres::start()?;
    Ok(exit_code(program::run_for_status(rig.envs(postgres.environment()))?))
}

/// A short version of `cargo xtask crash` and `durability`.
pub(crate) fn short_crash_run() -> Result<(), XtaskError> {
    for which in [["--store", "sqlite"].as_slice(), &["--children"], &["--record"]] {
        program::run_command(test_build()?.args(["crash", "--kills", "5"]).args(which))?;
    }
    let postgres = ThrowAwayPostgres::start()?;
    for which in [[].as_slice(), &["--record"]] {
        let mut crash = test_build()?;
        crash.args(["crash", "--store", "postgres", "--kills", "5"]).args(which);
        program::run_command(crash.envs(postgres.environment()))?;
    }
    drop(postgres);
    program::run_command(test_build()?.arg("durability"))
}

/// `rig` in the debug profile, with `toolcrib` next to it. It measures nothing, so an optimised build would waste time.
pub(crate) fn test_build() -> Result<Command, XtaskError> {
    let mut build =
        program::cargo_command(&["build", "--quiet", "--bin", "rig", "--bin", "toolcrib"]);
    // Tests enable more features of some crates. With one of them in the build, cargo reuses those crates.
    build.args(["--package", "rig", "--package", "toolcrib-cli", "--test", "faults"]);
    program::run_command(&mut build)?;
    Ok(program::new_command(std::env::current_exe()?.with_file_name("rig")))
}

fn rig_command(arguments: &[&str]) -> Command {
    let mut rig =
        program::cargo_command(&["run", "--quiet", "--release", "--package", "rig", "--"]);
    rig.args(arguments);
    rig
}

fn needs_postgres(name: &str, arguments: &[String]) -> bool {
    let says = |word: &str| arguments.iter().any(|argument| argument == word);
    match name {
        // Without a name, all benchmarks run.
        "bench" => {
            let others = [
                "access",
                "doors",
                "library",
                "openapi",
                "overload",
                "plan",
                "record",
                "search",
                "start",
                "upstreams",
            ];
            says("journal") || !others.into_iter().any(says)
        }
        "crash" => says("postgres") || says("--store=postgres"),
        _ => false,
    }
}

/// Whether the benchmark measures the program `toolcrib`, which must then be built next to `rig`.
fn needs_toolcrib(name: &str, arguments: &[String]) -> bool {
    let mut names = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    let is_all = names.peek().is_none();
    name == "bench" && (is_all || names.any(|name| name == "start" || name == "plan"))
}

/// The exit code of a process; for a killed one 128 + signal, as shells do.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(line: &str) -> bool {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        needs_postgres(&words[0], &words[1..])
    }

    #[test]
    fn postgres_is_started_only_if_it_is_needed() {
        assert!(needs("bench journal"));
        assert!(needs("bench"));
        assert!(needs("bench folder"));
        assert!(needs("bench journal openapi folder"));
        assert!(!needs("bench openapi"));
        assert!(!needs("bench access"));
        assert!(!needs("bench library"));
        assert!(!needs("bench start"));
        assert!(!needs("bench doors --part speed"));
        assert!(!needs("bench upstreams --part hostile"));
        assert!(!needs("bench record overload"));
        assert!(!needs("bench plan"));
        assert!(!needs("bench openapi folder --quick"));
        assert!(needs("crash --kills 200 --store postgres"));
        assert!(needs("crash --store=postgres"));
        assert!(!needs("crash --store sqlite --kills 200"));
        assert!(!needs("crash --children --kills 200"));
        assert!(!needs("crash --record --kills 200"));
        assert!(needs("crash --record --store postgres"));
        assert!(!needs("durability"));
        assert!(!needs("corpus folder"));
        assert!(!needs("agreement --worlds 10"));
    }
}
