//! The documentation as a book: `mkdocs`, as `docs/requirements.txt` pins it, builds `docs/` and the pages it links to.

use std::process::ExitCode;

use crate::xtask_error::XtaskError;
use crate::{pinned_programs, program, workspace};

/// `cargo xtask book`: builds the book and prints its path.
pub(crate) fn run_book() -> Result<ExitCode, XtaskError> {
    build_book()?;
    println!("target/book/index.html");
    Ok(ExitCode::SUCCESS)
}

/// Builds the book; fails on a broken link and on a page that is not linked.
pub(crate) fn build_book() -> Result<(), XtaskError> {
    let requirements = workspace::workspace_root().join("docs/requirements.txt");
    let python = pinned_programs::install_python_environment("mkdocs", &requirements)?;
    let mut mkdocs = program::new_command(python.join("bin/mkdocs"));
    mkdocs.args(["build", "--strict", "--clean", "--site-dir", "target/book"]);
    program::run_command(mkdocs.stdout(std::io::stderr()))
}
