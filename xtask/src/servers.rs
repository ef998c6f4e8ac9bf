//! Foreign MCP and authorization servers, installed together with the clients as `rig/clients` pins them.

use std::process::{Command, ExitCode};

use crate::clients::{self, NodeClients};
use crate::xtask_error::XtaskError;
use crate::{program, rig, setup};

/// `cargo xtask servers`: installs all servers, and with `--try` has agents call their tools.
pub(crate) fn run_servers(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    match arguments.split_first() {
        None => clients::print_folders(),
        Some((first, options)) if first == "--try" => {
            Ok(rig::exit_code(program::run_for_status(server_trial()?.args(options))?))
        }
        Some((first, _)) => Err(XtaskError::new(format!("there is no option `{first}`"))),
    }
}

/// Tests all servers, as a step of `cargo xtask test`.
pub(crate) fn check_servers() -> Result<(), XtaskError> {
    program::run_command(&mut server_trial()?)
}

/// The command `rig servers`, which has agents call the tools of the servers.
fn server_trial() -> Result<Command, XtaskError> {
    setup::ensure_system_programs()?;
    setup::ensure_git()?;
    let node = NodeClients::install()?;
    let mut rig = rig::test_build()?;
    rig.arg("servers").arg("--node").arg(node.program).arg("--packages").arg(node.folder);
    rig.arg("--python").arg(clients::install_python()?);
    rig.arg("--older-python").arg(clients::install_older_python()?);
    Ok(rig)
}
