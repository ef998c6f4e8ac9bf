//! The client side of MCP, in every version that is in use, over HTTP and to programs of our own.
//!
//! Written by hand, as what a server says must go through unchanged and what it does must not matter to anybody else. See
//! `docs/adr/0020-mcp-client-by-hand.md`. Messages are read once; results, errors and the things in lists are handed over
//! as they came.
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
