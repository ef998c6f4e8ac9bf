//! The library with fewer features: it must build without the dependencies of disabled features.
//! The guide must show its dependency tree.

use crate::program::{self, cargo_command};
use crate::workspace;
use crate::xtask_error::XtaskError;

const GUIDE: &str = "docs/embedding.md";

/// The library names that come only with a feature.
const WEB_CRATES: [&str; 8] =
    ["axum", "aws_lc_rs", "h2", "http", "hyper", "reqwest", "rustls", "tower_service"];
const SQLITE_CRATES: [&str; 2] = ["rusqlite", "libsqlite3_sys"];
const POSTGRES_CRATES: [&str; 2] = ["tokio_postgres", "tokio_postgres_rustls"];

pub(super) fn check_features() -> Result<(), XtaskError> {
    builds_without(&[], &[&WEB_CRATES, &SQLITE_CRATES, &POSTGRES_CRATES])?;
    builds_without(&["gateway"], &[&SQLITE_CRATES, &POSTGRES_CRATES])?;
    builds_without(&["sqlite"], &[&POSTGRES_CRATES])?;
    builds_without(&["postgres"], &[&SQLITE_CRATES])?;
    let tree = dependency_tree(&["--depth", "2"])?;
    let guide = workspace::read_file(&workspace::workspace_root().join(GUIDE))?;
    if guide.contains(&format!("```text\n{tree}```\n")) {
        return Ok(());
    }
    Err(XtaskError::new(format!(
        "{GUIDE} does not show the tree of dependencies, which is\n{tree}"
    )))
}

fn builds_without(features: &[&str], left_out: &[&[&str]]) -> Result<(), XtaskError> {
    let features = features.join(",");
    let fewer = ["--no-default-features", "--features", &features];
    let mut clippy = cargo_command(&["clippy", "--package", "toolcrib", "--lib"]);
    program::run_command(clippy.args(fewer).args(["--", "-D", "warnings"]))?;
    let tree = dependency_tree(&["--features", &features, "--prefix", "none", "--no-dedupe"])?;
    match tree.lines().find(|name| left_out.iter().any(|names| names.contains(name))) {
        None => Ok(()),
        Some(name) => Err(XtaskError::new(format!(
            "`toolcrib` with the features `{features}` needs `{name}`"
        ))),
    }
}

/// The library's dependency tree, one name per line.
fn dependency_tree(options: &[&str]) -> Result<String, XtaskError> {
    let arguments = ["tree", "--package", "toolcrib", "--no-default-features", "--edges", "normal"];
    program::run_for_output(cargo_command(&arguments).args(["--format", "{lib}"]).args(options))
}
