//! End-to-end tests of the program: the real binary, run in a folder of its own.

mod api;
mod bad_input;
mod call;
mod config;
mod console;
mod counter;
mod discover;
mod doctor;
mod eval;
mod explain;
mod export_import;
mod first;
mod help;
mod import;
mod look;
#[path = "../../upstream/tests/support/mcp_server.rs"]
mod mcp_server;
#[path = "../../catalog/tests/support/reference_page.rs"]
mod reference_page;
mod secret;
#[path = "../../access/tests/support/signer.rs"]
mod signer;
mod stdio;
mod support;
#[path = "../../upstream/tests/support/upstream.rs"]
mod upstream;
mod workflow;
