//! Every route that is not MCP: the endpoints of agents, the admin API, the console.

mod activity_stream;
mod admin;
mod agent_stream;
mod agents;
mod change_request;
pub mod console;
mod docs_page;
pub mod endpoint_router;
mod health_checks;
mod http_manifest;
pub mod metrics;
mod openapi_document;
mod protected_resource_metadata;
pub mod router;
mod whoami;

pub use endpoint_router::EndpointRouter;
pub use metrics::all_metrics;
pub use router::build_endpoints;
