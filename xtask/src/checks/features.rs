//! The crates that embedders use: each must build without the dependencies that it promises not to have.
//! The guide must show the dependency tree of the smallest one.

use crate::program::{self, cargo_command};
use crate::workspace;
use crate::xtask_error::XtaskError;

const GUIDE: &str = "docs/embedding.md";

/// Most crates that an embedded MCP server may compile; lower it when the number falls (the goal is 180).
const MAX_MCP_SERVER_CRATES: usize = 220;

/// The library names that a crate must not depend on.
const WEB_CRATES: [&str; 8] =
    ["axum", "aws_lc_rs", "h2", "http", "hyper", "reqwest", "rustls", "tower_service"];
const SQLITE_CRATES: [&str; 2] = ["rusqlite", "libsqlite3_sys"];
const POSTGRES_CRATES: [&str; 2] = ["tokio_postgres", "tokio_postgres_rustls"];
const PROGRAM_CRATES: [&str; 3] = ["clap", "clap_builder", "opentelemetry_proto"];

pub(super) fn check_features() -> Result<(), XtaskError> {
    builds_without("toolcrib-provider", "", &[&WEB_CRATES, &SQLITE_CRATES, &POSTGRES_CRATES])?;
    builds_without("toolcrib", "", &[&SQLITE_CRATES, &POSTGRES_CRATES])?;
    builds_without("toolcrib", "sqlite", &[&POSTGRES_CRATES])?;
    builds_without("toolcrib", "postgres", &[&SQLITE_CRATES])?;
    let stores_and_program: [&[&str]; 3] = [&SQLITE_CRATES, &POSTGRES_CRATES, &PROGRAM_CRATES];
    builds_without("toolcrib-mcp-server", "", &stores_and_program)?;
    check_mcp_server_size()?;
    let tree = dependency_tree("toolcrib-provider", "", &["--depth", "2"])?;
    let guide = workspace::read_file(&workspace::workspace_root().join(GUIDE))?;
    if guide.contains(&format!("```text\n{tree}```\n")) {
        return Ok(());
    }
    Err(XtaskError::new(format!(
        "{GUIDE} does not show the tree of dependencies, which is\n{tree}"
    )))
}

fn check_mcp_server_size() -> Result<(), XtaskError> {
    let tree = dependency_tree("toolcrib-mcp-server", "", &["--prefix", "none", "--no-dedupe"])?;
    let names: std::collections::BTreeSet<&str> = tree.lines().collect();
    println!("an embedded MCP server compiles {} crates", names.len());
    if names.len() <= MAX_MCP_SERVER_CRATES {
        return Ok(());
    }
    Err(XtaskError::new(format!(
        "`toolcrib-mcp-server` needs {} crates; at most {MAX_MCP_SERVER_CRATES} are allowed",
        names.len()
    )))
}

fn builds_without(package: &str, features: &str, left_out: &[&[&str]]) -> Result<(), XtaskError> {
    let mut clippy = cargo_command(&["clippy", "--package", package, "--lib"]);
    let fewer = ["--no-default-features", "--features", features];
    program::run_command(clippy.args(fewer).args(["--", "-D", "warnings"]))?;
    let tree = dependency_tree(package, features, &["--prefix", "none", "--no-dedupe"])?;
    match tree.lines().find(|name| left_out.iter().any(|names| names.contains(name))) {
        None => Ok(()),
        Some(name) => Err(XtaskError::new(format!(
            "`{package}` with the features `{features}` needs `{name}`"
        ))),
    }
}

/// The dependency tree of a crate, one name per line.
fn dependency_tree(package: &str, features: &str, options: &[&str]) -> Result<String, XtaskError> {
    let arguments = ["tree", "--package", package, "--no-default-features", "--features", features];
    let mut tree = cargo_command(&arguments);
    program::run_for_output(tree.args(["--edges", "normal", "--format", "{lib}"]).args(options))
}
