//! Starts other programs. No other module does.

use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use crate::workspace;
use crate::xtask_error::XtaskError;

/// A command that runs in the workspace root, independent of the current folder.
#[expect(
    clippy::disallowed_methods,
    reason = "xtask is made of starting programs; this is its one place"
)]
pub(crate) fn new_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::workspace_root());
    command
}

pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let mut cargo = new_command("cargo");
    cargo.args(arguments);
    cargo
}

pub(crate) fn run_command(command: &mut Command) -> Result<(), XtaskError> {
    if run_for_status(command)?.success() {
        return Ok(());
    }
    Err(XtaskError::new(format!("`{}` failed", command_line(command))))
}

pub(crate) fn run_for_status(command: &mut Command) -> Result<ExitStatus, XtaskError> {
    command.status().map_err(|error| cannot_start(command, &error))
}

/// Runs a command and returns its stdout; its output is printed only if it fails.
pub(crate) fn run_for_output(command: &mut Command) -> Result<String, XtaskError> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(XtaskError::new(format!("`{}` failed:\n{stdout}{stderr}", command_line(command))))
}

/// Runs a command and treats any output as a failure, for programs that only warn about errors.
pub(crate) fn run_silently(command: &mut Command) -> Result<(), XtaskError> {
    let output = command.output().map_err(|error| cannot_start(command, &error))?;
    let said = [output.stdout, output.stderr].concat();
    if output.status.success() && said.is_empty() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    Err(XtaskError::new(format!("`{}` is not content:\n{said}", command_line(command))))
}

pub(crate) fn run_succeeds(command: &mut Command) -> bool {
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

fn cannot_start(command: &Command, error: &std::io::Error) -> XtaskError {
    XtaskError::new(format!("cannot start `{}`: {error}", command_line(command)))
}

fn command_line(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
