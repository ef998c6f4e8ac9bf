//! What upstreams are shown: credentials of sources, tokens that are asked for, headers that are passed on. And how often.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod authority;
mod exchange;
mod fixed;
mod leaks;
mod mcp;
mod retries;
mod scopes;
mod wire;
mod world;
