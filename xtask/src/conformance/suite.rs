//! The npm package `@modelcontextprotocol/conformance`, run with Node.js.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use crate::clients::NodeClients;
use crate::conformance::requirements::Requirements;
use crate::conformance::results::{self, Scenario};
use crate::failure::Failure;
use crate::{program, workspace};

pub(super) struct Suite {
    clients: NodeClients,
    verbose: bool,
}

/// What the suite tests.
pub(super) enum Leg<'a> {
    Server {
        url: &'a str,
    },
    /// A shell command; the suite appends the URL of a server to it.
    Client {
        command: &'a str,
    },
}

impl Leg<'_> {
    fn name(&self) -> &'static str {
        match self {
            Leg::Server { .. } => "server",
            Leg::Client { .. } => "client",
        }
    }
}

impl Suite {
    pub(super) fn new(clients: NodeClients, verbose: bool) -> Self {
        Self { clients, verbose }
    }

    pub(super) fn requirements(&self, revision: &'static str) -> Result<Requirements, Failure> {
        let file = self.package().join("requirements").join(revision).with_extension("yaml");
        Ok(Requirements::read(revision, &workspace::read(&file)?))
    }

    /// Runs all scenarios of a revision, or one of them. The results come from its files; the exit code says less.
    pub(super) fn run(
        &self,
        revision: &str,
        leg: &Leg<'_>,
        only: Option<&str>,
    ) -> Result<Vec<Scenario>, Failure> {
        let folder = folder().join(revision).join(leg.name());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let mut suite = self.clients.command(&self.package().join("dist/index.js"));
        match leg {
            Leg::Server { url } => suite.args(["server", "--url", url]),
            Leg::Client { command } => suite.args(["client", "--command", command]),
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
            eprintln!("{revision} {}: {}", leg.name(), workspace::shown(&log));
            let log = File::create(&log)?;
            suite.stdout(log.try_clone()?).stderr(log);
        }
        program::status(&mut suite)?;
        match leg {
            Leg::Server { .. } => results::of_server(&folder),
            Leg::Client { .. } => results::of_client(&folder),
        }
    }

    fn package(&self) -> PathBuf {
        self.clients.package("@modelcontextprotocol/conformance")
    }
}

/// The folder of the suite's results and of the logs of suite and server.
pub(super) fn folder() -> PathBuf {
    workspace::root().join("target/conformance")
}
