//! Foreign MCP clients, installed below `target/clients` exactly as `rig/clients` pins them.
//!
//! The installation runs no scripts of the packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::xtask_error::XtaskError;
use crate::{pinned_programs, program, rig, setup, workspace};

/// `cargo xtask clients`: installs all clients, and with `--try` runs them against a server.
pub(crate) fn run_clients(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    match arguments.split_first() {
        None => print_folders(),
        Some((first, options)) if first == "--try" => {
            Ok(rig::exit_code(program::run_for_status(client_trial()?.args(options))?))
        }
        Some((first, _)) => Err(XtaskError::new(format!("there is no option `{first}`"))),
    }
}

/// Runs all clients against a server, as a step of `cargo xtask test`.
pub(crate) fn check_clients() -> Result<(), XtaskError> {
    program::run_command(&mut client_trial()?)
}

/// Prints the installation folders, for trying things by hand.
pub(crate) fn print_folders() -> Result<ExitCode, XtaskError> {
    let node = NodeClients::install()?;
    println!("{}", workspace::relative_path(&node.program));
    println!("{}", workspace::relative_path(&node.folder.join("node_modules")));
    println!("{}", workspace::relative_path(&install_python()?));
    println!("{}", workspace::relative_path(&install_older_python()?));
    Ok(ExitCode::SUCCESS)
}

/// The command `rig clients`, which lets the clients use a server.
fn client_trial() -> Result<Command, XtaskError> {
    setup::ensure_system_programs()?;
    let node = NodeClients::install()?;
    let python = install_python()?.join("bin/python");
    let mut rig = rig::test_build()?;
    rig.arg("clients").arg("--node").arg(node.program);
    rig.arg("--packages").arg(node.folder).arg("--python").arg(python);
    Ok(rig)
}

/// The clients from npm, with a pinned Node.js: the system's version may be too old for them.
pub(crate) struct NodeClients {
    pub(crate) folder: PathBuf,
    pub(crate) program: PathBuf,
}

impl NodeClients {
    pub(crate) fn install() -> Result<Self, XtaskError> {
        let architecture = node_architecture()?;
        setup::ensure_npm()?;
        let pins = ["package.json", "package-lock.json"];
        let folder =
            pinned_programs::install_folder("clients/node", &pins.map(pinned_file), |folder| {
                for pin in pins {
                    fs::copy(pinned_file(pin), folder.join(pin))?;
                }
                let mut npm = program::new_command("npm");
                npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
                program::run_command(npm.current_dir(folder).stdout(std::io::stderr()))
            })?;
        let program = folder.join(format!("node_modules/node-linux-{architecture}/bin/node"));
        Ok(Self { folder, program })
    }

    pub(crate) fn package_folder(&self, name: &str) -> PathBuf {
        self.folder.join("node_modules").join(name)
    }

    pub(crate) fn script_command(&self, script: &Path) -> Command {
        let mut node = program::new_command(&self.program);
        node.arg(script);
        node
    }
}

/// The architecture as the Node.js packages spell it.
fn node_architecture() -> Result<&'static str, XtaskError> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x64"),
        "aarch64" => Ok("arm64"),
        other => Err(XtaskError::new(format!("`rig/clients` pins no Node.js for `{other}`"))),
    }
}

/// Installs a virtual environment with clients and servers, and returns its folder.
pub(crate) fn install_python() -> Result<PathBuf, XtaskError> {
    install_environment("python", "requirements.txt")
}

/// Installs a second environment, for a server that needs older packages than the others.
pub(crate) fn install_older_python() -> Result<PathBuf, XtaskError> {
    install_environment("python-sqlite", "requirements-sqlite.txt")
}

fn install_environment(name: &str, pins: &str) -> Result<PathBuf, XtaskError> {
    pinned_programs::install_python_environment(&format!("clients/{name}"), &pinned_file(pins))
}

fn pinned_file(file: &str) -> PathBuf {
    workspace::workspace_root().join("rig/clients").join(file)
}
