//! The files in `packaging/` for containers, systemd and Kubernetes, each validated with the tools of its platform.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::program::{self, cargo_command};
use crate::xtask_error::XtaskError;
use crate::{pinned_programs, setup, workspace};

/// The Kubernetes version whose fields the manifest may use.
const KUBERNETES_VERSION: &str = "1.37";

/// Maximum exposure score of `systemd-analyze security`, from 0 (fully confined) to 100 (unconfined).
const MAX_EXPOSURE: &str = "20";

/// `cargo xtask package`: builds the program for release and prints its size.
pub(crate) fn build_package() -> Result<ExitCode, XtaskError> {
    let mut build = cargo_command(&["build", "--locked", "--release", "--bin", "toolcrib"]);
    program::run_command(build.args(["--package", "toolcrib-cli"]))?;
    let bytes = fs::metadata(workspace::workspace_root().join("target/release/toolcrib"))?.len();
    println!("target/release/toolcrib {}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check_packaging() -> Result<(), XtaskError> {
    setup::ensure_systemd()?;
    let python = pinned_programs::install_python_environment(
        "packaging-checks",
        &packaging_file("requirements.txt"),
    )?;
    let mut hadolint = program::new_command(python.join("bin/hadolint"));
    program::run_command(hadolint.arg(packaging_file("Dockerfile")))?;
    let mut validate = program::new_command(python.join("bin/kubernetes-validate"));
    validate.args(["--strict", "--kubernetes-version", KUBERNETES_VERSION]);
    program::run_for_output(validate.arg(packaging_file("kubernetes.yaml")))?;
    let unit = verifiable_unit()?;
    program::run_silently(program::new_command("systemd-analyze").arg("verify").arg(&unit))?;
    let mut security = program::new_command("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true", "--threshold", MAX_EXPOSURE]);
    program::run_for_output(security.arg(unit))?;
    Ok(())
}

/// A copy of the unit with an existing program path: systemd requires that the program exists.
fn verifiable_unit() -> Result<PathBuf, XtaskError> {
    let unit = workspace::workspace_root().join("target/packaging-checks/toolcrib.service");
    let text = workspace::read_file(&packaging_file("toolcrib.service"))?;
    fs::write(&unit, text.replace("/usr/bin/toolcrib", "/bin/true"))?;
    Ok(unit)
}

fn packaging_file(name: &str) -> PathBuf {
    workspace::workspace_root().join("packaging").join(name)
}
