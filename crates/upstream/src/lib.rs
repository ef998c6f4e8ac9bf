//! Outgoing connections and child processes: the only code that opens either, always with size limits and deadlines.

mod aside;
pub mod egress;
pub mod files;
pub mod http;
mod large;
mod last_words;
pub mod limits;
pub mod mcp;
mod pieces;
mod resolver;
pub mod stdio;

pub use aside::{LONG, aside, aside_if_long, aside_under_way};
pub use large::{Large, Room};
pub use last_words::LastWords;
