//! The files in `packaging/` for containers, systemd and Kubernetes, each validated with the tools of its platform.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;
use crate::program::{self, cargo};
use crate::{installed, setup, workspace};

/// The Kubernetes version whose fields the manifest may use.
const KUBERNETES: &str = "1.37";

/// Maximum exposure score of `systemd-analyze security`, from 0 (fully confined) to 100 (unconfined).
const EXPOSURE: &str = "20";

/// `cargo xtask package`: builds the program for release and prints its size.
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

/// A copy of the unit with an existing program path: systemd requires that the program exists.
fn verifiable_unit() -> Result<PathBuf, Failure> {
    let unit = workspace::root().join("target/packaging-checks/toolcrib.service");
    let text = workspace::read(&file("toolcrib.service"))?;
    fs::write(&unit, text.replace("/usr/bin/toolcrib", "/bin/true"))?;
    Ok(unit)
}

fn file(name: &str) -> PathBuf {
    workspace::root().join("packaging").join(name)
}
