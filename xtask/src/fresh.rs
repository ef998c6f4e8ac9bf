//! `cargo xtask fresh`: tests the first steps of a newcomer, from a clone to a tool call and a passing test run.
//!
//! It clones the committed state and runs the first two commands of its README with an empty home. Nothing built,
//! installed or configured on this machine is available, except the toolchain and cargo's package cache.

mod greeting;
mod machine;
mod readme;
mod running;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::fresh::greeting::Greeting;
use crate::fresh::machine::Machine;
use crate::{program, setup, workspace};

/// Timeout of the first command: mostly compile time, on a machine that may be busy.
const FIRST_MAY_TAKE: Duration = Duration::from_mins(60);
const SECOND_MAY_TAKE: Duration = Duration::from_mins(180);
const A_LINE_MAY_TAKE: Duration = Duration::from_secs(60);
const STOPPING_MAY_TAKE: Duration = Duration::from_secs(60);

#[derive(Debug, Default, PartialEq, Eq)]
struct Wishes {
    only: Option<Which>,
    keep: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Second,
}

impl Wishes {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut wishes = Self::default();
        let mut arguments = arguments.iter().map(String::as_str);
        while let Some(argument) = arguments.next() {
            match argument {
                "--keep" => wishes.keep = true,
                "--only" => wishes.only = Some(Which::parse(arguments.next())?),
                other => return Err(Failure::new(format!("there is no option `{other}`"))),
            }
        }
        Ok(wishes)
    }

    fn include(&self, which: Which) -> bool {
        self.only.is_none_or(|only| only == which)
    }
}

impl Which {
    fn parse(word: Option<&str>) -> Result<Self, Failure> {
        match word {
            Some("first") => Ok(Self::First),
            Some("second") => Ok(Self::Second),
            _ => Err(Failure::new("--only takes `first` or `second`")),
        }
    }
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let wishes = Wishes::parse(arguments)?;
    setup::make_sure_of_git()?;
    say_what_is_left_out()?;
    let machine = Machine::make(wishes.keep)?;
    println!("a fresh machine in {}", machine.folder().display());
    timed("clone", || machine.clone_workspace())?;
    let commands = readme::commands(&workspace::read(&machine.checkout().join("README.md"))?)?;
    let result = run_both(&wishes, &machine, &commands);
    println!("{} MB are in its folder", machine.megabytes()?);
    result.map(|()| ExitCode::SUCCESS)
}

fn run_both(wishes: &Wishes, machine: &Machine, commands: &[String; 2]) -> Result<(), Failure> {
    let [first, second] = commands;
    if wishes.include(Which::First) {
        serve_and_call(machine, first)?;
    }
    if wishes.include(Which::Second) {
        timed(second, || machine.attend(second, |tests| tests.end_with(0, SECOND_MAY_TAKE)))?;
    }
    Ok(())
}

/// Starts the demo, runs each line of its startup message, and stops it.
fn serve_and_call(machine: &Machine, command: &str) -> Result<(), Failure> {
    machine.attend(command, |server| {
        let said = timed(command, || server.read_until(greeting::is_last, FIRST_MAY_TAKE))?;
        let greeting = Greeting::read(&said)?;
        for line in &greeting.lines {
            timed(&line.command, || paste(machine, &greeting.exports, line))?;
        }
        timed("SIGTERM", || server.stop_within(STOPPING_MAY_TAKE))
    })
}

fn paste(machine: &Machine, exports: &str, line: &greeting::Line) -> Result<(), Failure> {
    let mut running = machine.start_script(&format!("{exports}\n{}", line.command))?;
    running.end_with(line.exit_code, A_LINE_MAY_TAKE)
}

fn timed<T>(what: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    println!("── {what}");
    let start = Instant::now();
    let result = work();
    let how = if result.is_ok() { "done" } else { "failed" };
    println!("   {how} after {:.1} s", start.elapsed().as_secs_f64());
    result
}

/// Warns about uncommitted changes, because a clone does not contain them.
fn say_what_is_left_out() -> Result<(), Failure> {
    let mut status = program::command("git");
    status.args(["status", "--porcelain", "--untracked-files=normal"]);
    if !program::output(&mut status)?.trim().is_empty() {
        eprintln!("warning: what is not committed is not part of this");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(line: &str) -> Result<Wishes, Failure> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Wishes::parse(&arguments)
    }

    #[test]
    fn both_commands_run_unless_one_is_selected() {
        let both = wishes("").unwrap();
        assert!(both.include(Which::First) && both.include(Which::Second) && !both.keep);
        let second = wishes("--only second --keep").unwrap();
        assert!(!second.include(Which::First) && second.include(Which::Second) && second.keep);
    }

    #[test]
    fn unknown_options_are_rejected() {
        for line in ["--only third", "--only", "--kep"] {
            assert!(wishes(line).is_err(), "{line}");
        }
    }
}
