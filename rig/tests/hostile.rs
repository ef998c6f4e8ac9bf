//! One of ten sources is hostile in every known way: the other nine have no error, and the memory stays within its
//! limit.
//!
//! The test runs the rig in a separate process, so that its memory is that of the crib alone. It does not check call
//! times: `cargo xtask bench upstreams` measures these.
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
fn a_hostile_stdio_source_does_not_affect_the_others() {
    no_harm_is_done_over("stdio", 9);
}

#[test]
fn a_hostile_http_source_does_not_affect_the_others() {
    no_harm_is_done_over("http", 9);
}

#[test]
fn a_hostile_api_does_not_affect_the_others() {
    no_harm_is_done_over("api", 7);
}
