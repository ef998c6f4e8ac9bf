//! Foreign MCP and authorization servers, installed together with the clients as `rig/clients` pins them.

use std::process::{Command, ExitCode};

use crate::clients::{self, NodeClients};
use crate::failure::Failure;
use crate::{program, rig, setup};

/// `cargo xtask servers`: installs all servers, and with `--try` has agents call their tools.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    match arguments.split_first() {
        None => clients::show_folders(),
        Some((first, options)) if first == "--try" => {
            Ok(rig::exit_code(program::status(trial()?.args(options))?))
        }
        Some((first, _)) => Err(Failure::new(format!("there is no option `{first}`"))),
    }
}

/// Tests all servers, as a step of `cargo xtask test`.
pub(crate) fn check() -> Result<(), Failure> {
    program::run(&mut trial()?)
}

/// The command `rig servers`, which has agents call the tools of the servers.
fn trial() -> Result<Command, Failure> {
    setup::make_sure_of_system_programs()?;
    setup::make_sure_of_git()?;
    let node = NodeClients::install()?;
    let mut rig = rig::as_tested()?;
    rig.arg("servers").arg("--node").arg(node.program).arg("--packages").arg(node.folder);
    rig.arg("--python").arg(clients::install_python()?);
    rig.arg("--older-python").arg(clients::install_older_python()?);
    Ok(rig)
}
