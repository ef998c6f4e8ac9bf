//! Access control, end to end in one process: identities, views, explanations, and caches that are never stale.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod explain;
mod identity;
mod record;
mod search;
#[path = "../../../upstream/tests/support/upstream.rs"]
mod server;
mod since;
mod stale;
mod texts;
mod view;
mod what_if;
mod workflow;
mod world;
