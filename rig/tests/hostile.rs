//! One of ten sources does harm in every way we know: the other nine have no error, and memory stays within its bound.
//!
//! A process of its own is looked at, so that its memory is that of the crib alone. How long calls take is measured by
//! `cargo xtask bench upstreams`, and no concern of a test.
#![expect(clippy::disallowed_methods, reason = "a test starts what it needs")]

use std::process::Command;

fn no_harm_is_done_over(transport: &str, ways: usize) {
    let rig = env!("CARGO_BIN_EXE_rig");
    let output = Command::new(rig).args(["hostile", "--over", transport]).output();
    let output = output.expect("the rig can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert_eq!(said.lines().filter(|line| line.contains(" errors 0 ")).count(), ways, "{said}");
}

#[test]
fn a_program_that_does_harm_harms_nobody_else() {
    no_harm_is_done_over("stdio", 9);
}

#[test]
fn a_server_over_http_that_does_harm_harms_nobody_else() {
    no_harm_is_done_over("http", 9);
}

#[test]
fn an_api_that_does_harm_harms_nobody_else() {
    no_harm_is_done_over("api", 7);
}
