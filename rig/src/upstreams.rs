//! MCP servers and HTTP APIs of the rig that serve as sources of a crib: well-behaved and hostile ones.

pub(crate) mod api;
pub(crate) mod caller;
pub(crate) mod crib;
pub(crate) mod hostile;
pub(crate) mod processes;
pub(crate) mod server;
