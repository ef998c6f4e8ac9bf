//! System programs that our commands need. If we may, apt installs them; otherwise one sentence names them.
//!
//! Debian's `postgresql` also creates and starts a cluster `main`. We do not touch it and use a different port.

use std::fs;
use std::path::{Path, PathBuf};

use crate::xtask_error::XtaskError;
use crate::{account, program};

const POSTGRES_PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

pub(crate) fn ensure_system_programs() -> Result<(), XtaskError> {
    ensure_packages(missing_packages)
}

pub(crate) fn ensure_npm() -> Result<(), XtaskError> {
    ensure_packages(|| if program::is_in_path("npm") { vec![] } else { vec!["npm"] })
}

pub(crate) fn ensure_git() -> Result<(), XtaskError> {
    ensure_packages(|| if program::is_in_path("git") { vec![] } else { vec!["git"] })
}

pub(crate) fn ensure_systemd() -> Result<(), XtaskError> {
    ensure_packages(
        || if program::is_in_path("systemd-analyze") { vec![] } else { vec!["systemd"] },
    )
}

/// For the console tests. Debian's `chromium-driver` contains `chromedriver`.
pub(crate) fn ensure_browser() -> Result<(), XtaskError> {
    ensure_packages(|| {
        let programs = [("chromium", "chromium"), ("chromedriver", "chromium-driver")];
        let missing = programs.into_iter().filter(|(program, _)| !program::is_in_path(program));
        missing.map(|(_, package)| package).collect()
    })
}

/// Debian's `python3` does not include the module that creates virtual environments.
pub(crate) fn ensure_python() -> Result<(), XtaskError> {
    ensure_packages(|| {
        let mut venv = program::new_command("python3");
        venv.args(["-c", "import ensurepip, venv"]);
        if program::run_succeeds(&mut venv) { vec![] } else { vec!["python3-venv"] }
    })
}

fn ensure_packages(missing_packages: fn() -> Vec<&'static str>) -> Result<(), XtaskError> {
    let missing = missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    install_packages(&missing)?;
    match missing_packages() {
        still if still.is_empty() => Ok(()),
        still => Err(missing_packages_error(
            &still,
            "apt-get installed them, but their programs are not in PATH",
        )),
    }
}

/// The folder of the PostgreSQL server programs. Debian does not add it to PATH; each version has its own folder.
pub(crate) fn postgres_programs() -> Option<PathBuf> {
    let mut folders = program::folders_in_path();
    folders.extend(debian_postgres_folders());
    folders
        .into_iter()
        .find(|folder| POSTGRES_PROGRAMS.iter().all(|name| folder.join(name).is_file()))
}

/// The folders of all versions, newest first.
fn debian_postgres_folders() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut versions: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions
        .iter()
        .map(|version| Path::new("/usr/lib/postgresql").join(version.to_string()).join("bin"))
        .collect()
}

fn missing_packages() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if postgres_programs().is_none() {
        missing.push("postgresql");
    }
    if !program::is_in_path("strace") {
        missing.push("strace");
    }
    if !program::is_in_path("setpriv") || !program::is_in_path("unshare") {
        missing.push("util-linux");
    }
    // The documentation tests run these commands, in a separate network namespace.
    for (program, package) in
        [("ip", "iproute2"), ("curl", "curl"), ("jq", "jq"), ("openssl", "openssl")]
    {
        if !program::is_in_path(program) {
            missing.push(package);
        }
    }
    missing
}

fn install_packages(packages: &[&str]) -> Result<(), XtaskError> {
    if !program::is_in_path("apt-get") {
        return Err(missing_packages_error(packages, "there is no apt-get here to do it for you"));
    }
    let root = account::is_root()?;
    if !root && !program::run_succeeds(program::new_command("sudo").args(["-n", "true"])) {
        return Err(missing_packages_error(packages, "this user may not run apt-get"));
    }
    eprintln!("installing {}", packages.join(", "));
    apt_get(root, &["update"])?;
    for package in packages {
        apt_get(root, &["install", "-y", "--no-install-recommends", package])?;
    }
    Ok(())
}

/// The output of apt goes to stderr: stdout belongs to the command that needs the package.
fn apt_get(root: bool, arguments: &[&str]) -> Result<(), XtaskError> {
    let mut command = if root { program::new_command("env") } else { program::new_command("sudo") };
    if !root {
        command.args(["-n", "env"]);
    }
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
    program::run_command(command.stdout(std::io::stderr()))
}

fn missing_packages_error(packages: &[&str], why: &str) -> XtaskError {
    let names: Vec<String> = packages.iter().map(|name| format!("`{name}`")).collect();
    XtaskError::new(format!(
        "please install the system packages {} and try again: {why}",
        names.join(", ")
    ))
}
