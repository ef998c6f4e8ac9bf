//! Access: claims → grant. Pure: nothing is read here, not even the clock; what is needed is handed in.

mod resolve;

pub use resolve::{Grant, resolve};
