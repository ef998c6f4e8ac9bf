//! Authentication by tokens while the keys of their issuers appear, rotate, vanish or are unreachable (JWT-04 to
//! JWT-24).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod config;
mod discovery;
mod keys;
mod remembered;
#[path = "../../../upstream/tests/support/upstream.rs"]
mod server;
#[path = "../../../access/tests/support/signer.rs"]
mod signer;
mod world;
