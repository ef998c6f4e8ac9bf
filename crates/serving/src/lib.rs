//! The HTTP and MCP endpoints of a server, and the program `toolcrib`.
//!
//! [`build_endpoints`] builds all endpoints; [`run_program`] is the command line around them. A program that embeds toolcrib mounts
//! [`mcp_router`] in its own router, or serves MCP over [`serve_stdio`].

mod activity_stream;
mod admin;
mod admin_client;
mod agent_stream;
mod agents;
mod app_state;
mod background_tasks;
mod call;
mod caller;
mod change_request;
mod cli;
mod cli_error;
mod client_config;
mod config_plan;
mod console;
mod declared_config;
mod demo;
mod destinations;
mod discover;
mod docs_page;
mod doctor;
mod embedded;
mod endpoint_router;
mod environment;
mod etag;
mod eval;
mod execution_verbs;
mod explain;
mod file_stamp;
mod health_checks;
mod hidden_files;
mod http_manifest;
mod import_servers;
mod inspected_target;
mod journal;
mod json_body;
mod lazy_timeout;
mod list_cache;
mod local_targets;
mod manual;
mod mcp;
mod metrics;
mod openapi_document;
mod output;
mod pagination;
mod problem;
mod program;
mod progress;
mod protected_resource;
mod query_params;
#[cfg(test)]
#[path = "../../catalog/tests/support/reference_page.rs"]
mod reference_page;
mod request_context;
mod request_deadline;
mod request_middleware;
mod responses;
mod retention;
mod route;
mod router;
mod search;
mod secret;
mod sentence_model;
mod serve;
mod server_names;
mod stdio_verb;
mod stream_limit;
mod text_table;
mod tool_format;
mod tool_listing;
mod type_schemas;
mod view_subscription;
mod whoami;
mod workflow;

/// Compiles and runs the code of the guide as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod guide {}

pub use app_state::{AppState, ServerOptions};
pub use embedded::{
    PerRequestLayer, PerRequestService, mcp_router, providers_per_request, serve_lines,
    serve_stdio, user_per_request,
};
pub use endpoint_router::EndpointRouter;
pub use mcp::introduce_as;
pub use metrics::all_metrics;
pub use program::run_program;
pub use protected_resource::{OAuthScope, ProtectedResource};
pub use router::build_endpoints;
pub use serve::accept_loop::{ConnectionLimits, serve_connections};
pub use serve::listener::ServerListener;
pub use server_names::{HostName, PublicUrl, ServerNames, WebOrigin};
