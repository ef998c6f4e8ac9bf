//! A folder that simulates a clean machine: an empty home, a clone, and cargo's package cache.
//!
//! A watchdog process reads the id of the running process group from a pipe of ours. When the pipe closes, because the
//! value is dropped or we are killed, the watchdog kills that group and removes the folder.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fresh::running_command::RunningCommand;
use crate::xtask_error::XtaskError;
use crate::{program, workspace};

/// The toolchain of a newcomer, without other programs that `cargo install` put into the same folder.
const TOOLCHAIN: [&str; 8] = [
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "clippy-driver",
    "rustc",
    "rustdoc",
    "rustfmt",
    "rustup",
];

/// Variables that configure network access; no other variables are passed on.
const NETWORK_VARIABLES: [&str; 16] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_USERCONFIG",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

const COPY_TIMEOUT: Duration = Duration::from_mins(10);

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const WATCHDOG: &str = r#"
    trap "" INT TERM HUP
    group=
    while read -r line; do group=$line; done
    if [ -n "$group" ]; then kill -KILL -- "-$group" 2>/dev/null; fi
    if [ -n "$1" ]; then rm -rf -- "$1"; fi
"#;

pub(super) struct CleanMachine {
    folder: PathBuf,
    watchdog: Child,
}

impl CleanMachine {
    pub(super) fn create(keep: bool) -> Result<Self, XtaskError> {
        let name = format!("toolcrib-fresh-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)?;
        let removed = if keep { Path::new("") } else { folder.as_path() };
        let mut watchdog = program::new_command("/bin/sh");
        watchdog.args(["-c", WATCHDOG, "watchdog"]).arg(removed);
        // Use a separate process group: Ctrl-C must stop us, not the watchdog that cleans up after us.
        let watchdog = watchdog.process_group(0).stdin(Stdio::piped()).spawn()?;
        let machine = Self { folder, watchdog };
        machine.populate()?;
        Ok(machine)
    }

    /// Provides an empty home, the toolchain, and the package cache, so that packages need not be downloaded again.
    fn populate(&self) -> Result<(), XtaskError> {
        for name in ["home", "bin", "cargo"] {
            fs::create_dir(self.folder.join(name))?;
        }
        for name in TOOLCHAIN {
            let found = program::folders_in_path().into_iter().map(|folder| folder.join(name));
            if let Some(found) = found.into_iter().find(|found| found.is_file()) {
                symlink(found, self.folder.join("bin").join(name))?;
            }
        }
        let cargo = home_folder("CARGO_HOME", ".cargo");
        for name in ["config", "config.toml", "registry/cache", "registry/index"] {
            copy_folder(&cargo.join(name), &self.folder.join("cargo").join(name))?;
        }
        Ok(())
    }

    pub(super) fn clone_workspace(&self) -> Result<(), XtaskError> {
        let mut git = program::new_command("git");
        git.args(["clone", "--quiet", "--no-hardlinks"])
            .arg(workspace::workspace_root())
            .arg(self.checkout());
        RunningCommand::start(&mut git)?.expect_exit_code(0, COPY_TIMEOUT)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The working directory of a newcomer.
    pub(super) fn checkout(&self) -> PathBuf {
        self.folder.join("toolcrib")
    }

    pub(super) fn megabytes(&self) -> Result<u64, XtaskError> {
        let said =
            program::run_for_output(program::new_command("du").arg("-sm").arg(&self.folder))?;
        let number = said.split_whitespace().next().and_then(|number| number.parse().ok());
        number.ok_or_else(|| XtaskError::new(format!("`du` said `{said}`")))
    }

    /// Runs one command as typed while `work` uses it. Meanwhile the watchdog knows its process group.
    pub(super) fn run_with<T>(
        &self,
        command: &str,
        work: impl FnOnce(&mut RunningCommand) -> Result<T, XtaskError>,
    ) -> Result<T, XtaskError> {
        // `exec` replaces the shell, so that signals reach the program itself.
        let mut running = self.start_script(&format!("exec {command}"))?;
        self.set_watched_group(&running.group().to_string())?;
        let result = work(&mut running);
        drop(running);
        // Clear the id: the system may reuse it for a different group.
        self.set_watched_group("")?;
        result
    }

    fn set_watched_group(&self, group: &str) -> Result<(), XtaskError> {
        let pipe = self.watchdog.stdin.as_ref();
        let mut pipe = pipe.ok_or_else(|| XtaskError::new("the watchdog does not listen"))?;
        Ok(writeln!(pipe, "{group}")?)
    }

    /// Starts a short-lived script.
    pub(super) fn start_script(&self, lines: &str) -> Result<RunningCommand, XtaskError> {
        let mut shell = program::new_command("/bin/sh");
        shell.args(["-c", lines]).current_dir(self.checkout());
        self.set_environment(&mut shell);
        RunningCommand::start(&mut shell)
    }

    fn set_environment(&self, command: &mut Command) {
        let path = format!("{}:{SYSTEM_PATH}", self.folder.join("bin").display());
        command.env_clear().env("PATH", path).env("HOME", self.folder.join("home"));
        command.env("CARGO_HOME", self.folder.join("cargo"));
        command.env("RUSTUP_HOME", home_folder("RUSTUP_HOME", ".rustup"));
        for name in NETWORK_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
}

impl Drop for CleanMachine {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        if let Err(error) = self.watchdog.wait() {
            eprintln!("warning: {} is not removed: {error}", self.folder.display());
        }
    }
}

/// The folder in a variable, or the folder `name` in the home.
fn home_folder(variable: &str, name: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(folder) => folder.into(),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(name),
    }
}

/// Copies instead of linking: cargo locks its home, and processes that use the original must not block this one.
fn copy_folder(from: &Path, to: &Path) -> Result<(), XtaskError> {
    if !from.exists() {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    RunningCommand::start(program::new_command("cp").arg("-r").arg(from).arg(to))?
        .expect_exit_code(0, COPY_TIMEOUT)
}
