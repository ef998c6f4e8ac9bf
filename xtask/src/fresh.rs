//! `cargo xtask fresh`: tests the first steps of a newcomer, from a clone to a tool call and a passing test run.
//!
//! It clones the committed state and runs the first two commands of its README with an empty home. Nothing built,
//! installed or configured on this machine is available, except the toolchain and cargo's package cache.

mod clean_machine;
mod demo_startup_message;
mod readme;
mod running_command;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::fresh::clean_machine::CleanMachine;
use crate::fresh::demo_startup_message::DemoStartupMessage;
use crate::xtask_error::XtaskError;
use crate::{program, setup, workspace};

/// Timeout of the first command: mostly compile time, on a machine that may be busy.
const FIRST_TIMEOUT: Duration = Duration::from_mins(60);
const SECOND_TIMEOUT: Duration = Duration::from_mins(180);
const LINE_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Default, PartialEq, Eq)]
struct FreshOptions {
    only: Option<ReadmeCommand>,
    keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadmeCommand {
    First,
    Second,
}

impl FreshOptions {
    fn parse(arguments: &[String]) -> Result<Self, XtaskError> {
        let mut wishes = Self::default();
        let mut arguments = arguments.iter().map(String::as_str);
        while let Some(argument) = arguments.next() {
            match argument {
                "--keep" => wishes.keep = true,
                "--only" => wishes.only = Some(ReadmeCommand::parse(arguments.next())?),
                other => return Err(XtaskError::new(format!("there is no option `{other}`"))),
            }
        }
        Ok(wishes)
    }

    fn includes(&self, which: ReadmeCommand) -> bool {
        self.only.is_none_or(|only| only == which)
    }
}

impl ReadmeCommand {
    fn parse(word: Option<&str>) -> Result<Self, XtaskError> {
        match word {
            Some("first") => Ok(Self::First),
            Some("second") => Ok(Self::Second),
            _ => Err(XtaskError::new("--only takes `first` or `second`")),
        }
    }
}

pub(crate) fn run_fresh(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let wishes = FreshOptions::parse(arguments)?;
    setup::ensure_git()?;
    warn_about_uncommitted()?;
    let machine = CleanMachine::create(wishes.keep)?;
    println!("a fresh machine in {}", machine.folder().display());
    run_timed("clone", || machine.clone_workspace())?;
    let commands =
        readme::readme_commands(&workspace::read_file(&machine.checkout().join("README.md"))?)?;
    let result = run_both(&wishes, &machine, &commands);
    println!("{} MB are in its folder", machine.megabytes()?);
    result.map(|()| ExitCode::SUCCESS)
}

fn run_both(
    wishes: &FreshOptions,
    machine: &CleanMachine,
    commands: &[String; 2],
) -> Result<(), XtaskError> {
    let [first, second] = commands;
    if wishes.includes(ReadmeCommand::First) {
        serve_and_call(machine, first)?;
    }
    if wishes.includes(ReadmeCommand::Second) {
        run_timed(second, || {
            machine.run_with(second, |tests| tests.expect_exit_code(0, SECOND_TIMEOUT))
        })?;
    }
    Ok(())
}

/// Starts the demo, runs each line of its startup message, and stops it.
fn serve_and_call(machine: &CleanMachine, command: &str) -> Result<(), XtaskError> {
    machine.run_with(command, |server| {
        let said =
            run_timed(command, || server.read_until(demo_startup_message::is_last, FIRST_TIMEOUT))?;
        let greeting = DemoStartupMessage::parse(&said)?;
        for line in &greeting.lines {
            run_timed(&line.command, || run_pasted_line(machine, &greeting.exports, line))?;
        }
        run_timed("SIGTERM", || server.stop_within(STOP_TIMEOUT))
    })
}

fn run_pasted_line(
    machine: &CleanMachine,
    exports: &str,
    line: &demo_startup_message::PastedLine,
) -> Result<(), XtaskError> {
    let mut running = machine.start_script(&format!("{exports}\n{}", line.command))?;
    running.expect_exit_code(line.exit_code, LINE_TIMEOUT)
}

fn run_timed<T>(what: &str, work: impl FnOnce() -> Result<T, XtaskError>) -> Result<T, XtaskError> {
    println!("── {what}");
    let start = Instant::now();
    let result = work();
    let how = if result.is_ok() { "done" } else { "failed" };
    println!("   {how} after {:.1} s", start.elapsed().as_secs_f64());
    result
}

/// Warns about uncommitted changes, because a clone does not contain them.
fn warn_about_uncommitted() -> Result<(), XtaskError> {
    let mut status = program::new_command("git");
    status.args(["status", "--porcelain", "--untracked-files=normal"]);
    if !program::run_for_output(&mut status)?.trim().is_empty() {
        eprintln!("warning: what is not committed is not part of this");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(line: &str) -> Result<FreshOptions, XtaskError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        FreshOptions::parse(&arguments)
    }

    #[test]
    fn both_commands_run_unless_one_is_selected() {
        let both = wishes("").unwrap();
        assert!(
            both.includes(ReadmeCommand::First)
                && both.includes(ReadmeCommand::Second)
                && !both.keep
        );
        let second = wishes("--only second --keep").unwrap();
        assert!(
            !second.includes(ReadmeCommand::First)
                && second.includes(ReadmeCommand::Second)
                && second.keep
        );
    }

    #[test]
    fn unknown_options_are_rejected() {
        for line in ["--only third", "--only", "--kep"] {
            assert!(wishes(line).is_err(), "{line}");
        }
    }
}
