//! An MCP client for all protocol versions in use, over HTTP, HTTP+SSE and stdio.
//!
//! Written by hand, because messages must pass unchanged and a misbehaving server must not affect other servers. See
//! `docs/adr/0020-mcp-client-by-hand.md`. Messages are parsed once; results, errors and list items are passed on as
//! received.
//!
//! ```no_run
//! # use toolcrib_mcp_client as mcp_client;
//! # use mcp_client::{McpCallOptions, McpConnection, McpItemKind, ConnectionSettings, McpTarget};
//! # use upstream::stdio::ProgramSpec;
//! # async fn example() -> Result<(), mcp_client::McpError> {
//! let program = ProgramSpec::new("/usr/local/bin/mcp-server-time");
//! let connection = McpConnection::open(&McpTarget::Program(program), &ConnectionSettings::default()).await?;
//! let tools = connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await?;
//! # Ok(())
//! # }
//! ```

pub use connection_settings::{
    ConnectionSettings, McpCallOptions, McpLimits, McpTarget, ServerEra,
};
pub use deadline_pauses::DeadlinePauses;
pub use dispatch::{CallNotification, DispatchCounts, QuestionReply};
pub use json_rpc::{McpAnswer, RpcError};
pub use mcp_connection::McpConnection;
pub use mcp_error::McpError;
pub use negotiation::ServerDescription;
pub use paginated_list::{McpItemKind, McpListWarning, McpListing};
pub use server_changes::ServerChanges;
pub use supervised_connection::{SupervisedConnection, SupervisionPolicy};
pub use tool_task::ToolTaskOptions;

mod authorized_attempts;
mod call_meta;
mod connection_settings;
mod deadline_pauses;
mod dispatch;
mod http_link;
mod http_sse;
mod json_rpc;
mod mcp_connection;
mod mcp_error;
mod negotiation;
mod paginated_list;
mod request_headers;
mod server_changes;
mod sse_parser;
mod stdio_link;
mod subscriptions;
mod supervised_connection;
mod tool_task;
mod transport_link;
mod unsolicited_rate;
