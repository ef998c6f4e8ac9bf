//! The background refresher: refreshes on schedule, after failures and when woken, one refresh per source at a time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../catalog/tests/support/database.rs"]
mod database;
#[path = "keep_fresh/hanging.rs"]
mod hanging;
#[path = "keep_fresh/nodes.rs"]
mod nodes;
#[path = "keep_fresh/schedule.rs"]
mod schedule;
#[path = "../../upstream/tests/support/upstream.rs"]
mod server;
#[path = "keep_fresh/wakes.rs"]
mod wakes;
#[path = "keep_fresh/world.rs"]
mod world;
