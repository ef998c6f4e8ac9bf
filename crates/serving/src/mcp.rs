//! The MCP endpoint: both eras of the protocol on one path. See `docs/adr/0019-mcp-by-hand.md`.
//!
//! `incoming_message.rs` parses requests; `modern_era.rs` and `legacy_era.rs` hold the rules of their eras,
//! `shared_methods.rs` the methods that both share. A request leads to one or several messages (`outgoing_message.rs`),
//! the last of which is the answer; `streamable_http.rs` and `mcp_stdio.rs` transport them.

mod answer;
mod asked;
mod capabilities;
mod era;
mod error;
mod headers;
pub(crate) mod http;
mod kept;
mod legacy;
mod listen;
mod message;
mod meta;
mod methods;
mod modern;
mod pages;
mod peer;
mod pieces;
mod sessions;
mod state;
pub(crate) mod stdio;
mod talk;
mod tasks;

pub use self::era::introduce_as;

use toolcrib::StateCipher;

use self::asked::{CancellableCalls, PendingQuestions};
use self::kept::ResumableStreams;
use self::pages::McpPageCache;
pub(crate) use self::peer::McpPeer;
use self::sessions::McpSessions;
use self::tasks::McpTasks;
use crate::work::BackgroundTasks;

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
