//! MCP servers and APIs of our own as the sources of a crib: good ones, and ones that mean harm.

pub(crate) mod api;
pub(crate) mod caller;
pub(crate) mod crib;
pub(crate) mod hostile;
pub(crate) mod processes;
pub(crate) mod server;
