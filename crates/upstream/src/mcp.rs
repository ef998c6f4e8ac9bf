//! An MCP client for all protocol versions in use, over HTTP, HTTP+SSE and stdio.
//!
//! Written by hand, because messages must pass unchanged and a misbehaving server must not affect other servers. See
//! `docs/adr/0020-mcp-client-by-hand.md`. Messages are parsed once; results, errors and list items are passed on as
//! received.
//!
//! ```no_run
//! # use toolcrib_upstream as upstream;
//! # use upstream::mcp::{McpCallOptions, McpConnection, McpItemKind, ConnectionSettings, McpTarget};
//! # use upstream::stdio::ProgramSpec;
//! # async fn example() -> Result<(), upstream::mcp::McpError> {
//! let program = ProgramSpec::new("/usr/local/bin/mcp-server-time");
//! let connection = McpConnection::open(&McpTarget::Program(program), &ConnectionSettings::default()).await?;
//! let tools = connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await?;
//! # Ok(())
//! # }
//! ```

pub use changes::ServerChanges;
pub use connection::McpConnection;
pub use error::McpError;
pub use hearing::{CallNotification, DispatchCounts, QuestionReply};
pub use list::{McpItemKind, McpListWarning, McpListing};
pub use message::{McpAnswer, RpcError};
pub use open::ServerDescription;
pub use pauses::DeadlinePauses;
pub use settings::{ConnectionSettings, McpCallOptions, McpLimits, McpTarget, ServerEra};
pub use supervised::{SupervisedConnection, SupervisionPolicy};
pub use task::ToolTaskOptions;

mod changes;
mod connection;
mod error;
mod headers;
mod hearing;
mod http;
mod http_sse;
mod link;
mod list;
mod message;
mod meta;
pub mod oauth;
mod open;
mod pace;
mod pauses;
mod pipe;
mod settings;
mod sse;
mod subscribe;
mod supervised;
mod task;
