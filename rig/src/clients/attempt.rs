//! The clients, and how one of them is run.
//!
//! Another client, or another way to reach the server, is another line of the table and a program in `rig/clients`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// For everything that one program does; the slowest takes seconds.
const LIMIT: Duration = Duration::from_secs(90);

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// One client in one era.
pub(super) struct Attempt {
    /// In `rig/clients`.
    program: &'static str,
    /// What the program is told about the era.
    mode: &'static str,
    /// What client and server must agree on.
    pub(super) era: &'static str,
    /// Whether it can be asked, and told how far a call is.
    pub(super) is_asked: bool,
    /// Whether it can be told that the tools changed.
    pub(super) is_told: bool,
}

#[rustfmt::skip]
pub(super) const ATTEMPTS: [Attempt; 9] = [
    Attempt { program: "typescript-v1.mjs", mode: "legacy", era: LEGACY, is_asked: true, is_told: true },
    Attempt { program: "typescript-v2.mjs", mode: "auto", era: MODERN, is_asked: true, is_told: true },
    Attempt { program: "typescript-v2.mjs", mode: "legacy", era: LEGACY, is_asked: true, is_told: true },
    Attempt { program: "python-sdk.py", mode: "auto", era: MODERN, is_asked: true, is_told: true },
    Attempt { program: "python-sdk.py", mode: "legacy", era: LEGACY, is_asked: true, is_told: true },
    // It does not listen in the newer era.
    Attempt { program: "python-fastmcp.py", mode: "auto", era: MODERN, is_asked: true, is_told: false },
    Attempt { program: "python-fastmcp.py", mode: "legacy", era: LEGACY, is_asked: true, is_told: true },
    // Its command line makes one call and ends.
    Attempt { program: "inspector.mjs", mode: "modern", era: MODERN, is_asked: false, is_told: false },
    Attempt { program: "inspector.mjs", mode: "legacy", era: LEGACY, is_asked: false, is_told: false },
];

/// What programs need.
pub(super) struct Surroundings {
    pub(super) node: PathBuf,
    pub(super) packages: PathBuf,
    pub(super) python: PathBuf,
    /// Some keep files at home; they get one of their own.
    pub(super) home: PathBuf,
    pub(super) url: String,
    pub(super) key: String,
    pub(super) fixture_url: String,
}

impl Attempt {
    /// `python-sdk auto`.
    pub(super) fn name(&self) -> String {
        let program = Path::new(self.program).with_extension("");
        format!("{} {}", program.display(), self.mode)
    }

    /// What the client saw.
    pub(super) async fn run(&self, surroundings: &Surroundings) -> anyhow::Result<Value> {
        let mut command = self.command(surroundings)?;
        let output = timeout(LIMIT, command.output())
            .await
            .map_err(|_| anyhow!("it was not done after {} s", LIMIT.as_secs()))?
            .with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let seen = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match seen {
            Some(seen) if output.status.success() => Ok(seen),
            _ => bail!("{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn command(&self, surroundings: &Surroundings) -> anyhow::Result<Command> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(self.program);
        let mut command = if program.extension().is_some_and(|extension| extension == "py") {
            let mut python = Command::new(&surroundings.python);
            python.arg(program).stdin(Stdio::null());
            python
        } else {
            // Read from standard input, a program finds its packages below the folder where it runs.
            let mut node = Command::new(&surroundings.node);
            node.args(["--input-type=module", "-"]).stdin(std::fs::File::open(program)?);
            node.current_dir(&surroundings.packages);
            node
        };
        command.arg(self.mode).kill_on_drop(true);
        command.env("HOME", &surroundings.home);
        command.env("TOOLCRIB_URL", &surroundings.url);
        command.env("TOOLCRIB_KEY", &surroundings.key);
        command.env("FIXTURE_URL", &surroundings.fixture_url);
        Ok(command)
    }
}
