//! The contract of the `Journal` trait: the same tests run over memory, SQLite and PostgreSQL.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is an answer")]

#[path = "journal/append.rs"]
mod append;
#[path = "journal/beside.rs"]
mod beside;
#[path = "support/database.rs"]
mod database;
#[path = "journal/documents.rs"]
mod documents;
#[path = "journal/leases.rs"]
mod leases;
#[path = "journal/once.rs"]
mod once;
#[path = "journal/reading.rs"]
mod reading;
#[path = "journal/stores.rs"]
mod stores;
#[path = "journal/transfer.rs"]
mod transfer;
#[path = "journal/world.rs"]
mod world;
