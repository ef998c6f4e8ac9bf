//! The MCP endpoint: both eras of the protocol on one path. See `docs/adr/0019-mcp-by-hand.md`.
//!
//! `incoming_message.rs` parses requests; `modern_era.rs` and `legacy_era.rs` hold the rules of their eras,
//! `shared_methods.rs` the methods that both share. A request leads to one or several messages (`outgoing_message.rs`),
//! the last of which is the answer; `streamable_http.rs` and `mcp_stdio.rs` transport them.

mod call_state;
mod client_replies;
mod error_response;
mod header_checks;
mod incoming_message;
mod legacy_era;
mod list_pages;
mod listen;
mod mcp_peer;
mod mcp_sessions;
pub(crate) mod mcp_stdio;
mod mcp_tasks;
mod modern_era;
mod outgoing_message;
mod protocol_era;
mod request_meta;
mod resumable_streams;
mod running_call;
mod segmented_body;
mod server_capabilities;
mod shared_methods;
pub(crate) mod streamable_http;

pub use self::protocol_era::introduce_as;

use toolcrib::StateCipher;

use self::client_replies::{CancellableCalls, PendingQuestions};
use self::list_pages::McpPageCache;
pub(crate) use self::mcp_peer::McpPeer;
use self::mcp_sessions::McpSessions;
use self::mcp_tasks::McpTasks;
use self::resumable_streams::ResumableStreams;
use crate::background_tasks::BackgroundTasks;

/// Path of the endpoint over HTTP.
pub(crate) const MCP_PATH: &str = "/mcp";

/// State of the endpoint between messages; none of it authenticates a caller.
pub(crate) struct McpEndpoint {
    pages: McpPageCache,
    seal: StateCipher,
    questions: PendingQuestions,
    cancellable_calls: CancellableCalls,
    tasks: McpTasks,
    sessions: McpSessions,
    streams: ResumableStreams,
    /// Calls that continue after their client has disconnected.
    background_work: BackgroundTasks,
}

impl McpEndpoint {
    pub(crate) fn new(seal: StateCipher) -> Self {
        Self {
            pages: McpPageCache::new(),
            seal,
            questions: PendingQuestions::default(),
            cancellable_calls: CancellableCalls::default(),
            tasks: McpTasks::default(),
            sessions: McpSessions::new(),
            streams: ResumableStreams::default(),
            background_work: BackgroundTasks::default(),
        }
    }

    /// Aborts the calls that are still running.
    pub(crate) async fn stop_background_work(&self) {
        self.background_work.abort_all().await;
    }
}

#[cfg(test)]
mod tests;
