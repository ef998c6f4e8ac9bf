//! Catalog tests: the snapshot equals the folded journal, whether it is live, rebuilt or loaded from a checkpoint.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is an answer")]

#[path = "catalog/checkpoints.rs"]
mod checkpoints;
#[path = "catalog/moments.rs"]
mod moments;
#[path = "catalog/oracle.rs"]
mod oracle;
#[path = "catalog/properties.rs"]
mod properties;
#[path = "catalog/rules.rs"]
mod rules;
#[path = "catalog/together.rs"]
mod together;
#[path = "catalog/wishes.rs"]
mod wishes;
#[path = "journal/world.rs"]
mod world;
