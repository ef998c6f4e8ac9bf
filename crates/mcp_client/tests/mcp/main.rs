//! The MCP client against test servers, many of which violate the protocol.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is an answer")]

extern crate toolcrib_mcp_client as mcp_client;

mod authority;
mod hostile;
mod lists;
mod modern_http;
mod oauth;
mod oauth_hostile;
mod older_http;
mod questions;
mod server;
mod stdio;
mod supervised;
mod support;
mod tasks;
mod two_endpoints;
