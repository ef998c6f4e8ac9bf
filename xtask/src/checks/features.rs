//! The library with fewer features: it builds, has nothing of what was left out, and the guide shows what it brings along.

use crate::failure::Failure;
use crate::program::{self, cargo};
use crate::workspace;

const GUIDE: &str = "docs/embedding.md";

/// What is left out along with a feature, by the names of libraries.
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

/// What the library brings along, one name a line.
fn tree(options: &[&str]) -> Result<String, Failure> {
    let arguments = ["tree", "--package", "toolcrib", "--no-default-features", "--edges", "normal"];
    program::output(cargo(&arguments).args(["--format", "{lib}"]).args(options))
}
