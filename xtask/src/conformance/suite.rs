//! The npm package `@modelcontextprotocol/conformance`, run with Node.js.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use crate::clients::NodeClients;
use crate::conformance::requirements::RevisionRequirements;
use crate::conformance::results::{self, ScenarioResult};
use crate::xtask_error::XtaskError;
use crate::{program, workspace};

pub(super) struct ConformanceSuite {
    clients: NodeClients,
    verbose: bool,
}

/// What the suite tests.
pub(super) enum SuiteLeg<'a> {
    Server {
        url: &'a str,
    },
    /// A shell command; the suite appends the URL of a server to it.
    Client {
        command: &'a str,
    },
}

impl SuiteLeg<'_> {
    fn name(&self) -> &'static str {
        match self {
            SuiteLeg::Server { .. } => "server",
            SuiteLeg::Client { .. } => "client",
        }
    }
}

impl ConformanceSuite {
    pub(super) fn new(clients: NodeClients, verbose: bool) -> Self {
        Self { clients, verbose }
    }

    pub(super) fn requirements(
        &self,
        revision: &'static str,
    ) -> Result<RevisionRequirements, XtaskError> {
        let file = self.package_folder().join("requirements").join(revision).with_extension("yaml");
        Ok(RevisionRequirements::parse(revision, &workspace::read_file(&file)?))
    }

    /// Runs all scenarios of a revision, or one of them. The results come from its files; the exit code says less.
    pub(super) fn run_revision(
        &self,
        revision: &str,
        leg: &SuiteLeg<'_>,
        only: Option<&str>,
    ) -> Result<Vec<ScenarioResult>, XtaskError> {
        let folder = results_folder().join(revision).join(leg.name());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let mut suite = self.clients.script_command(&self.package_folder().join("dist/index.js"));
        match leg {
            SuiteLeg::Server { url } => suite.args(["server", "--url", url]),
            SuiteLeg::Client { command } => suite.args(["client", "--command", command]),
        };
        suite.arg("--output-dir").arg(&folder);
        match only {
            None => suite.args(["--requirements", revision]),
            // An extension belongs to no revision; without `--force` the suite would skip it.
            Some(only) => suite.args(["--scenario", only, "--spec-version", revision, "--force"]),
        };
        let log = folder.with_extension("log");
        if self.verbose {
            suite.stdout(io::stderr());
        } else {
            eprintln!("{revision} {}: {}", leg.name(), workspace::relative_path(&log));
            let log = File::create(&log)?;
            suite.stdout(log.try_clone()?).stderr(log);
        }
        program::run_for_status(&mut suite)?;
        match leg {
            SuiteLeg::Server { .. } => results::server_results(&folder),
            SuiteLeg::Client { .. } => results::client_results(&folder),
        }
    }

    fn package_folder(&self) -> PathBuf {
        self.clients.package_folder("@modelcontextprotocol/conformance")
    }
}

/// The folder of the suite's results and of the logs of suite and server.
pub(super) fn results_folder() -> PathBuf {
    workspace::workspace_root().join("target/conformance")
}
