//! Starts other programs. No other module does.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use crate::failure::Failure;
use crate::workspace;

/// A command that runs in the workspace root, independent of the current folder.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is made of starting programs; this is its one place"
)]
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    command
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = command("cargo");
    cargo.args(arguments);
    cargo
}

pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    if status(command)?.success() {
        return Ok(());
    }
    Err(Failure::new(format!("`{}` failed", shown(command))))
}

pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, Failure> {
    command.status().map_err(|error| cannot_start(command, &error))
}

/// Runs a command and returns its stdout; its output is printed only if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("`{}` failed:\n{stdout}{stderr}", shown(command))))
}

/// Runs a command and treats any output as a failure, for programs that only warn about errors.
pub(crate) fn silent(command: &mut Command) -> Result<(), Failure> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() && said.is_empty() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(Failure::new(format!("`{}` is not content:\n{said}", shown(command))))
}

pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

pub(crate) fn folders_in_path() -> Vec<PathBuf> {
    let Some(path) = std::env::var_os("PATH") else {
        return Vec::new();
    };
    std::env::split_paths(&path).collect()
}

pub(crate) fn is_in_path(program: &str) -> bool {
    folders_in_path().iter().any(|folder| folder.join(program).is_file())
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start `{}`: {error}", shown(command)))
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
