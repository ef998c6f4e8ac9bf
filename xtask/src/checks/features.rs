//! The library with fewer features: it must build without the dependencies of disabled features.
//! The guide must show its dependency tree.

use crate::failure::Failure;
use crate::program::{self, cargo};
use crate::workspace;

const GUIDE: &str = "docs/embedding.md";

/// The library names that come only with a feature.
const WEB: [&str; 8] =
    ["axum", "aws_lc_rs", "h2", "http", "hyper", "reqwest", "rustls", "tower_service"];
const SQLITE: [&str; 2] = ["rusqlite", "libsqlite3_sys"];
const POSTGRES: [&str; 2] = ["tokio_postgres", "tokio_postgres_rustls"];

pub(super) fn check() -> Result<(), Failure> {
    builds_without(&[], &[&WEB, &SQLITE, &POSTGRES])?;
    builds_without(&["gateway"], &[&SQLITE, &POSTGRES])?;
    builds_without(&["sqlite"], &[&POSTGRES])?;
    builds_without(&["postgres"], &[&SQLITE])?;
    let tree = tree(&["--depth", "2"])?;
    let guide = workspace::read(&workspace::root().join(GUIDE))?;
    if guide.contains(&format!("```text\n{tree}```\n")) {
        return Ok(());
    }
    Err(Failure::new(format!("{GUIDE} does not show the tree of dependencies, which is\n{tree}")))
}

fn builds_without(features: &[&str], left_out: &[&[&str]]) -> Result<(), Failure> {
    let features = features.join(",");
    let fewer = ["--no-default-features", "--features", &features];
    let mut clippy = cargo(&["clippy", "--package", "toolcrib", "--lib"]);
    program::run(clippy.args(fewer).args(["--", "-D", "warnings"]))?;
    let tree = tree(&["--features", &features, "--prefix", "none", "--no-dedupe"])?;
    match tree.lines().find(|name| left_out.iter().any(|names| names.contains(name))) {
        None => Ok(()),
        Some(name) => {
            Err(Failure::new(format!("`toolcrib` with the features `{features}` needs `{name}`")))
        }
    }
}

/// The library's dependency tree, one name per line.
fn tree(options: &[&str]) -> Result<String, Failure> {
    let arguments = ["tree", "--package", "toolcrib", "--no-default-features", "--edges", "normal"];
    program::output(cargo(&arguments).args(["--format", "{lib}"]).args(options))
}
