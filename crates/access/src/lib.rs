//! Access: claims → grant. Pure: nothing is read here, not even the clock; what is needed is handed in.

mod explain;
mod policies;

pub use explain::{MatcherVerdict, PolicyVerdict, explain};
pub use policies::{Grant, Key, Policies};
