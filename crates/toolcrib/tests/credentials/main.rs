//! Credentials that upstreams receive (fixed, requested as tokens, or forwarded), and how often calls are retried.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod certificate;
mod exchange;
mod fixed;
mod large;
mod leaks;
#[expect(dead_code, reason = "only its texts are needed here")]
#[path = "../../../upstream/tests/support/certificate.rs"]
mod made;
mod mcp;
mod mcp_oauth;
mod offers;
mod retries;
mod scopes;
mod wire;
mod world;
