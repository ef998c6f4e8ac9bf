//! An MCP client for all protocol versions in use, over HTTP, HTTP+SSE and stdio.
//!
//! Written by hand, because messages must pass unchanged and a misbehaving server must not affect other servers. See
//! `docs/adr/0020-mcp-client-by-hand.md`. Messages are parsed once; results, errors and list items are passed on as
//! received.
//!
//! ```no_run
//! # use toolcrib_upstream as upstream;
//! # use upstream::mcp::{Call, Connection, ListOf, Settings, Target};
//! # use upstream::stdio::Program;
//! # async fn example() -> Result<(), upstream::mcp::McpError> {
//! let program = Program::new("/usr/local/bin/mcp-server-time");
//! let connection = Connection::open(&Target::Program(program), &Settings::default()).await?;
//! let tools = connection.list(ListOf::Tools, Call::default()).await?;
//! # Ok(())
//! # }
//! ```

pub use changes::Changes;
pub use connection::Connection;
pub use error::McpError;
pub use hearing::{Counts, Heard, Reply};
pub use list::{ListOf, ListWarning, Listing};
pub use message::{Answer, RpcError};
pub use open::About;
pub use pauses::Pauses;
pub use settings::{Call, Era, McpLimits, Settings, Target};
pub use supervised::{Keeping, Supervised};
pub use task::AsTask;

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
