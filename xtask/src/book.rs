//! The documentation as a book: `docs/` and what it links to, made by the `mkdocs` that `docs/requirements.txt` pins.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::{installed, program, workspace};

/// `cargo xtask book`: builds it, and says where it is.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    check()?;
    println!("target/book/index.html");
    Ok(ExitCode::SUCCESS)
}

/// A link that leads nowhere, and a page that nothing leads to, is a failure.
pub(crate) fn check() -> Result<(), Failure> {
    let requirements = workspace::root().join("docs/requirements.txt");
    let python = installed::python("mkdocs", &requirements)?;
    let mut mkdocs = program::command(python.join("bin/mkdocs"));
    mkdocs.args(["build", "--strict", "--clean", "--site-dir", "target/book"]);
    program::run(mkdocs.stdout(std::io::stderr()))
}
