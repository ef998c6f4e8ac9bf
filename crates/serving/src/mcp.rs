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

use toolcrib::Seal;

use self::asked::{Asked, Stoppable};
use self::kept::Streams;
use self::pages::Pages;
pub(crate) use self::peer::Peer;
use self::sessions::Sessions;
use self::tasks::Tasks;
use crate::work::Work;

/// Path of the endpoint over HTTP.
pub(crate) const PATH: &str = "/mcp";

/// State of the endpoint between messages; none of it authenticates a caller.
pub(crate) struct Mcp {
    pages: Pages,
    seal: Seal,
    asked: Asked,
    stoppable: Stoppable,
    tasks: Tasks,
    sessions: Sessions,
    streams: Streams,
    /// Calls that continue after their client has disconnected.
    work: Work,
}

impl Mcp {
    pub(crate) fn new(seal: Seal) -> Self {
        Self {
            pages: Pages::new(),
            seal,
            asked: Asked::default(),
            stoppable: Stoppable::default(),
            tasks: Tasks::default(),
            sessions: Sessions::new(),
            streams: Streams::default(),
            work: Work::default(),
        }
    }

    /// Aborts the calls that are still running.
    pub(crate) async fn stop(&self) {
        self.work.stop().await;
    }
}

#[cfg(test)]
mod tests;
