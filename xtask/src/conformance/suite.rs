//! The suite `@modelcontextprotocol/conformance`, started with Node.js.

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

/// Who is tried.
pub(super) enum Leg<'a> {
    Server {
        url: &'a str,
    },
    /// A command, as a shell reads it; the suite adds the url of a server to each.
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

    /// Runs what a revision lists, or one scenario of it. Its exit code says less than its files, which are read.
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
            // An extension belongs to no revision; without force it would be skipped.
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

/// Where the suite's findings are, and what it and the server said.
pub(super) fn folder() -> PathBuf {
    workspace::root().join("target/conformance")
}
