//! What all endpoints share: state, callers, middleware, bodies, lists, subscriptions, load shedding.

pub mod app_state;
pub mod background_tasks;
pub mod caller;
pub mod endpoint_metrics;
pub mod etag;
pub mod journal_probe;
pub mod json_body;
pub mod lazy_timeout;
pub mod list_cache;
pub mod load_shedding;
pub mod pagination;
pub mod pinned_tools_cache;
pub mod protected_resource;
pub mod query_params;
pub mod request_context;
pub mod request_deadline;
pub mod request_id;
pub mod request_middleware;
pub mod responses;
pub mod retention;
pub mod route;
pub mod route_assembly;
pub mod stream_limit;
pub mod tool_format;
pub mod tool_listing;
pub mod view_subscription;

pub use app_state::{AppState, ServerOptions};
pub use protected_resource::ProtectedResource;
