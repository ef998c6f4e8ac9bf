//! The verbs of the program, one module each.

pub(crate) mod call;
pub(crate) mod client;
pub(crate) mod discover;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod execution;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod journal;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod search;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod stdio;
pub(crate) mod workflow;
