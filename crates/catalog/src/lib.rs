//! The catalog: commands → events → snapshot. It decides without input or output, and touches the outside only through
//! the [`Journal`](journal::Journal).

pub mod clock;
pub mod event;
pub mod group;
pub mod journal;
pub mod label;
pub mod policy;
mod refusal;
pub mod source;
pub mod tool;

pub use refusal::Refusal;
