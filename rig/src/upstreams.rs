//! MCP servers and HTTP APIs of the rig that serve as sources of a crib: well-behaved and hostile ones.

pub(crate) mod crib_process;
pub(crate) mod echo_api;
pub(crate) mod echo_caller;
pub(crate) mod echo_server;
pub(crate) mod hostile;
pub(crate) mod processes;
