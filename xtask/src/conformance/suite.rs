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
        url: &str,
        only: Option<&str>,
    ) -> Result<Vec<Scenario>, Failure> {
        let folder = folder().join(revision);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let mut suite = self.clients.command(&self.package().join("dist/index.js"));
        suite.args(["server", "--url", url, "--output-dir"]).arg(&folder);
        match only {
            None => suite.args(["--requirements", revision]),
            // An extension belongs to no revision; without force it would be skipped.
            Some(only) => suite.args(["--scenario", only, "--spec-version", revision, "--force"]),
        };
        let log = folder.with_extension("log");
        if self.verbose {
            suite.stdout(io::stderr());
        } else {
            eprintln!("{revision}: {}", workspace::shown(&log));
            let log = File::create(&log)?;
            suite.stdout(log.try_clone()?).stderr(log);
        }
        program::status(&mut suite)?;
        results::read_folder(&folder)
    }

    fn package(&self) -> PathBuf {
        self.clients.package("@modelcontextprotocol/conformance")
    }
}

/// Where the suite's findings are, and what it and the server said.
pub(super) fn folder() -> PathBuf {
    workspace::root().join("target/conformance")
}
