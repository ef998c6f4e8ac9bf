//! The HTTP and MCP endpoints of a server, and the program `toolcrib`.
//!
//! [`build_endpoints`] builds all endpoints; [`run_program`] is the command line around them. A program that embeds toolcrib mounts
//! [`mcp_router`] in its own router, or serves MCP over [`serve_stdio`].

mod activity;
mod admin;
mod agents;
mod answer;
mod app;
mod around;
mod body;
mod call;
mod caller;
mod change;
mod cli;
mod client;
mod coming;
mod config;
mod console;
mod counter;
mod deadline;
mod declared;
mod demo;
mod destinations;
mod discover;
mod docs_page;
mod doctor;
mod doors;
mod embedded;
mod etag;
mod eval;
mod explain;
mod failure;
mod format;
mod health;
mod hidden;
mod http_manifest;
mod import;
mod in_time;
mod journal;
mod manual;
mod mcp;
mod metrics;
mod names;
mod openapi;
mod out;
mod page;
mod plan;
mod prepared;
mod problem;
mod program;
mod progress;
mod protected_resource;
mod query;
mod record;
#[cfg(test)]
#[path = "../../catalog/tests/support/reference_page.rs"]
mod reference_page;
mod room;
mod route;
mod router;
mod schemas;
mod search;
mod seats;
mod secret;
mod sentence_model;
mod serve;
mod sight;
mod stdio;
mod stream;
mod table;
mod target;
mod targets;
mod trace;
mod watching;
mod whoami;
mod work;
mod workflow;

/// Compiles and runs the code of the guide as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod guide {}

pub use app::{AppState, ServerOptions};
pub use doors::EndpointRouter;
pub use embedded::{
    PerRequestLayer, PerRequestService, mcp_router, providers_per_request, serve_lines,
    serve_stdio, user_per_request,
};
pub use mcp::introduce_as;
pub use metrics::all_metrics;
pub use names::{HostName, PublicUrl, ServerNames, WebOrigin};
pub use program::run_program;
pub use protected_resource::{OAuthScope, ProtectedResource};
pub use router::build_endpoints;
pub use serve::connections::{ConnectionLimits, serve_connections};
pub use serve::listener::ServerListener;
