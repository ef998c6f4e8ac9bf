//! The table of clients, and how one of them is run.
//!
//! To add a client, add lines to the table and a program to `rig/clients`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// Timeout for the whole run of one program; the slowest takes seconds.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A run of one client in one protocol era.
pub(super) struct ClientRun {
    /// File name in `rig/clients`.
    program: &'static str,
    /// The era argument of the program.
    mode: &'static str,
    /// The protocol version that client and server must negotiate.
    pub(super) era: &'static str,
    pub(super) over: ClientTransport,
    /// Whether the client supports questions and progress.
    pub(super) supports_questions: bool,
    /// Whether the client receives changes of the tool list.
    pub(super) supports_changes: bool,
}

/// The transport to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientTransport {
    Http,
    /// The client starts `toolcrib stdio` itself, beside the running server.
    Stdio,
}

pub(super) const CLIENT_RUNS: [ClientRun; 18] = [
    ClientRun::http("typescript-v1.mjs", "legacy", LEGACY).with_questions().with_changes(),
    ClientRun::http("typescript-v2.mjs", "auto", MODERN).with_questions().with_changes(),
    ClientRun::http("typescript-v2.mjs", "legacy", LEGACY).with_questions().with_changes(),
    ClientRun::http("python-sdk.py", "auto", MODERN).with_questions().with_changes(),
    ClientRun::http("python-sdk.py", "legacy", LEGACY).with_questions().with_changes(),
    // This client does not listen in the modern era.
    ClientRun::http("python-fastmcp.py", "auto", MODERN).with_questions(),
    ClientRun::http("python-fastmcp.py", "legacy", LEGACY).with_questions().with_changes(),
    // This command-line client sends one request and exits.
    ClientRun::http("inspector.mjs", "modern", MODERN),
    ClientRun::http("inspector.mjs", "legacy", LEGACY),
    // The fixture, which sends questions and notifications, is reachable over HTTP only.
    ClientRun::stdio("typescript-v1.mjs", "legacy", LEGACY),
    ClientRun::stdio("typescript-v2.mjs", "auto", MODERN),
    ClientRun::stdio("typescript-v2.mjs", "legacy", LEGACY),
    ClientRun::stdio("python-sdk.py", "auto", MODERN),
    ClientRun::stdio("python-sdk.py", "legacy", LEGACY),
    ClientRun::stdio("python-fastmcp.py", "auto", MODERN),
    ClientRun::stdio("python-fastmcp.py", "legacy", LEGACY),
    ClientRun::stdio("inspector.mjs", "modern", MODERN),
    ClientRun::stdio("inspector.mjs", "legacy", LEGACY),
];

/// Paths and addresses that the programs need.
pub(super) struct ClientEnvironment {
    pub(super) node: PathBuf,
    pub(super) packages: PathBuf,
    pub(super) python: PathBuf,
    /// A separate home folder, because some clients store files there.
    pub(super) home: PathBuf,
    pub(super) url: String,
    /// The program `toolcrib` and the journal that it reads, for clients that start it.
    pub(super) program: PathBuf,
    pub(super) journal: String,
    pub(super) key: String,
    pub(super) fixture_url: String,
}

impl ClientTransport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stdio => "stdio",
        }
    }
}

impl ClientRun {
    const fn http(program: &'static str, mode: &'static str, era: &'static str) -> Self {
        Self {
            program,
            mode,
            era,
            over: ClientTransport::Http,
            supports_questions: false,
            supports_changes: false,
        }
    }

    const fn stdio(program: &'static str, mode: &'static str, era: &'static str) -> Self {
        Self { over: ClientTransport::Stdio, ..Self::http(program, mode, era) }
    }

    const fn with_questions(self) -> Self {
        Self { supports_questions: true, ..self }
    }

    const fn with_changes(self) -> Self {
        Self { supports_changes: true, ..self }
    }

    /// The display name, such as `python-sdk auto http`.
    pub(super) fn name(&self) -> String {
        let program = Path::new(self.program).with_extension("");
        format!("{} {} {}", program.display(), self.mode, self.over.name())
    }

    /// Runs the client and returns its observations.
    pub(super) async fn run(&self, surroundings: &ClientEnvironment) -> anyhow::Result<Value> {
        let mut command = self.command(surroundings)?;
        let output = timeout(RUN_TIMEOUT, command.output())
            .await
            .map_err(|_| anyhow!("it was not done after {} s", RUN_TIMEOUT.as_secs()))?
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let seen = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match seen.filter(Value::is_object) {
            Some(seen) if output.status.success() => Ok(seen),
            _ => bail!("{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn command(&self, surroundings: &ClientEnvironment) -> anyhow::Result<Command> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(self.program);
        let mut command = if program.extension().is_some_and(|extension| extension == "py") {
            let mut python = Command::new(&surroundings.python);
            python.arg(program).stdin(Stdio::null());
            python
        } else {
            // A program that Node.js reads from standard input finds its packages below the working directory.
            let mut node = Command::new(&surroundings.node);
            node.args(["--input-type=module", "-"]).stdin(std::fs::File::open(program)?);
            node.current_dir(&surroundings.packages);
            node
        };
        command.args([self.mode, self.over.name()]).kill_on_drop(true);
        command.env("HOME", &surroundings.home);
        // The Python client would send every request to a proxy if the environment names one.
        command.env("NO_PROXY", "127.0.0.1");
        command.env("TOOLCRIB_URL", &surroundings.url);
        command.env("TOOLCRIB_PROGRAM", &surroundings.program);
        command.env("TOOLCRIB_JOURNAL", &surroundings.journal);
        command.env("TOOLCRIB_KEY", &surroundings.key);
        command.env("FIXTURE_URL", &surroundings.fixture_url);
        Ok(command)
    }
}
