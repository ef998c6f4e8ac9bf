//! Every route that is not MCP: the endpoints of agents, the admin API, the console.

pub mod activity_stream;
pub mod admin;
pub mod agent_stream;
pub mod agents;
pub mod change_request;
pub mod console;
pub mod docs_page;
pub mod endpoint_router;
pub mod health_checks;
pub mod http_manifest;
pub mod metrics;
pub mod openapi_document;
pub mod protected_resource_metadata;
pub mod router;
pub mod whoami;

pub use endpoint_router::EndpointRouter;
pub use metrics::all_metrics;
pub use router::build_endpoints;
