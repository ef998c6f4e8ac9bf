//! What `packaging/` has for containers, systemd and Kubernetes, each held against the rules of who reads it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::program::{self, cargo};
use crate::{installed, setup, workspace};

/// The fields that this version of Kubernetes knows are the ones that may be used.
const KUBERNETES: &str = "1.37";

/// `systemd-analyze security` gives 0 to a service that may do nothing and 100 to one that may do everything.
const EXPOSURE: &str = "20";

/// `cargo xtask package`: builds the program as it is given to others, and says how large it is.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let mut build = cargo(&["build", "--locked", "--release", "--bin", "toolcrib"]);
    program::run(build.args(["--package", "toolcrib-serving"]))?;
    let bytes = fs::metadata(workspace::root().join("target/release/toolcrib"))?.len();
    println!("target/release/toolcrib {}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check() -> Result<(), Failure> {
    setup::make_sure_of_systemd()?;
    let python = installed::python("packaging-checks", &file("requirements.txt"))?;
    let mut hadolint = program::command(python.join("bin/hadolint"));
    program::run(hadolint.arg(file("Dockerfile")))?;
    let mut validate = program::command(python.join("bin/kubernetes-validate"));
    validate.args(["--strict", "--kubernetes-version", KUBERNETES]);
    program::output(validate.arg(file("kubernetes.yaml")))?;
    let unit = verifiable_unit()?;
    program::silent(program::command("systemd-analyze").arg("verify").arg(&unit))?;
    let mut security = program::command("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true", "--threshold", EXPOSURE]);
    program::output(security.arg(unit))?;
    Ok(())
}

/// The unit with a program that is there: systemd looks for it.
fn verifiable_unit() -> Result<PathBuf, Failure> {
    let unit = workspace::root().join("target/packaging-checks/toolcrib.service");
    let text = workspace::read(&file("toolcrib.service"))?;
    fs::write(&unit, text.replace("/usr/bin/toolcrib", "/bin/true"))?;
    Ok(unit)
}

fn file(name: &str) -> PathBuf {
    workspace::root().join("packaging").join(name)
}
