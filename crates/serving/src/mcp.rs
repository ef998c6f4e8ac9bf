//! MCP: both eras of the protocol on one endpoint. See `docs/adr/0019-mcp-by-hand.md`.
//!
//! `message.rs` reads, `modern.rs` and `legacy.rs` hold the rules of their eras, `methods.rs` does what both have. What
//! comes of a request is one message or several (`answer.rs`), of which the last is the answer; `http.rs` and `stdio.rs`
//! carry them.

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

/// Where it is over HTTP.
pub(crate) const PATH: &str = "/mcp";

/// What the door remembers between messages; none of it says who anybody is.
pub(crate) struct Mcp {
    pages: Pages,
    seal: Seal,
    asked: Asked,
    stoppable: Stoppable,
    tasks: Tasks,
    sessions: Sessions,
    streams: Streams,
    /// Calls that go on without their client.
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

    /// Drops what still goes on.
    pub(crate) async fn stop(&self) {
        self.work.stop().await;
    }
}

#[cfg(test)]
mod tests;
