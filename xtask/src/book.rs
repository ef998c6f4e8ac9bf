//! The documentation as a book: `mkdocs`, as `docs/requirements.txt` pins it, builds `docs/` and the pages it links to.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::{installed, program, workspace};

/// `cargo xtask book`: builds the book and prints its path.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    check()?;
    println!("target/book/index.html");
    Ok(ExitCode::SUCCESS)
}

/// Builds the book; fails on a broken link and on a page that is not linked.
pub(crate) fn check() -> Result<(), Failure> {
    let requirements = workspace::root().join("docs/requirements.txt");
    let python = installed::python("mkdocs", &requirements)?;
    let mut mkdocs = program::command(python.join("bin/mkdocs"));
    mkdocs.args(["build", "--strict", "--clean", "--site-dir", "target/book"]);
    program::run(mkdocs.stdout(std::io::stderr()))
}
