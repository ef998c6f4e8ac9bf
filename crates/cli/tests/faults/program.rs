//! Starts programs: `toolcrib`, other programs around it, and this test binary again inside another program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Exit code and output of a program.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A program that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(30);

#[expect(clippy::disallowed_methods, reason = "programs are what these tests are about")]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Value of an environment variable, if set.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Command for the `toolcrib` program, with an empty environment.
pub(crate) fn toolcrib(folder: &Path, arguments: &str) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_toolcrib"));
    command.args(arguments.split_whitespace()).current_dir(folder).env_clear();
    command
}

/// Runs a command until it exits.
pub(crate) fn run(command: &mut Command) -> Run {
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let start = Instant::now();
    // The output is small, so no pipe can fill up.
    while child.try_wait().unwrap().is_none() {
        if PATIENCE < start.elapsed() {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Run {
    /// Checks for one line with an error message, and no panic.
    pub(crate) fn assert_rejected(&self, what: &str) {
        let whole = format!("{what}: {:?}\n{}{}", self.code, self.stdout, self.stderr);
        assert_eq!(self.code, Some(1), "{whole}");
        assert_eq!(self.stderr.lines().count(), 1, "{whole}");
        assert!(self.stderr.starts_with("error: "), "{whole}");
    }

    pub(crate) fn assert_succeeded(&self, what: &str) {
        assert_eq!(self.code, Some(0), "{what}:\n{}{}", self.stdout, self.stderr);
    }
}

/// Environment variable with the folder that this program, started again, works in.
const INSIDE: &str = "TOOLCRIB_FAULTS_INSIDE";

/// The folder to work in, if this program was started by a test.
pub(crate) fn inner_folder() -> Option<PathBuf> {
    variable(INSIDE).map(PathBuf::from)
}

/// Command that runs one test of this binary in a folder, wrapped in `around`: a program and its arguments.
pub(crate) fn rerun_test(around: &[&str], test: &str, folder: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut command = match around {
        [] => command(&this),
        [program, arguments @ ..] => {
            let mut command = command(program);
            command.args(arguments).arg(&this);
            command
        }
    };
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, folder);
    command
}

/// Child process; killed at the end of the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
