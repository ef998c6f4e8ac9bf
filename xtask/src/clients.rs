//! Foreign MCP clients, installed below `target/clients` exactly as `rig/clients` pins them.
//!
//! The installation runs no scripts of the packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::failure::Failure;
use crate::{installed, program, rig, setup, workspace};

/// `cargo xtask clients`: installs all clients, and with `--try` runs them against a server.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    match arguments.split_first() {
        None => show_folders(),
        Some((first, options)) if first == "--try" => {
            Ok(rig::exit_code(program::status(trial()?.args(options))?))
        }
        Some((first, _)) => Err(Failure::new(format!("there is no option `{first}`"))),
    }
}

/// Runs all clients against a server, as a step of `cargo xtask test`.
pub(crate) fn check() -> Result<(), Failure> {
    program::run(&mut trial()?)
}

/// Prints the installation folders, for trying things by hand.
pub(crate) fn show_folders() -> Result<ExitCode, Failure> {
    let node = NodeClients::install()?;
    println!("{}", workspace::shown(&node.program));
    println!("{}", workspace::shown(&node.folder.join("node_modules")));
    println!("{}", workspace::shown(&install_python()?));
    println!("{}", workspace::shown(&install_older_python()?));
    Ok(ExitCode::SUCCESS)
}

/// The command `rig clients`, which lets the clients use a server.
fn trial() -> Result<Command, Failure> {
    setup::make_sure_of_system_programs()?;
    let node = NodeClients::install()?;
    let python = install_python()?.join("bin/python");
    let mut rig = rig::as_tested()?;
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
    pub(crate) fn install() -> Result<Self, Failure> {
        let architecture = architecture()?;
        setup::make_sure_of_npm()?;
        let pins = ["package.json", "package-lock.json"];
        let folder = installed::install("clients/node", &pins.map(pinned), |folder| {
            for pin in pins {
                fs::copy(pinned(pin), folder.join(pin))?;
            }
            let mut npm = program::command("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
            program::run(npm.current_dir(folder).stdout(std::io::stderr()))
        })?;
        let program = folder.join(format!("node_modules/node-linux-{architecture}/bin/node"));
        Ok(Self { folder, program })
    }

    pub(crate) fn package(&self, name: &str) -> PathBuf {
        self.folder.join("node_modules").join(name)
    }

    pub(crate) fn command(&self, script: &Path) -> Command {
        let mut node = program::command(&self.program);
        node.arg(script);
        node
    }
}

/// The architecture as the Node.js packages spell it.
fn architecture() -> Result<&'static str, Failure> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x64"),
        "aarch64" => Ok("arm64"),
        other => Err(Failure::new(format!("`rig/clients` pins no Node.js for `{other}`"))),
    }
}

/// Installs a virtual environment with clients and servers, and returns its folder.
pub(crate) fn install_python() -> Result<PathBuf, Failure> {
    environment("python", "requirements.txt")
}

/// Installs a second environment, for a server that needs older packages than the others.
pub(crate) fn install_older_python() -> Result<PathBuf, Failure> {
    environment("python-sqlite", "requirements-sqlite.txt")
}

fn environment(name: &str, pins: &str) -> Result<PathBuf, Failure> {
    installed::python(&format!("clients/{name}"), &pinned(pins))
}

fn pinned(file: &str) -> PathBuf {
    workspace::root().join("rig/clients").join(file)
}
