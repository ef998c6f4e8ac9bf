//! What a connection is opened with, and how much it may take.

use std::sync::Arc;
use std::time::Duration;

use model::TraceContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::hearing::Heard;
use super::oauth::Authorization;
use super::pauses::Pauses;
use crate::http::{HttpClient, Url, header::HeaderMap};
use crate::pieces::Bounds;
use crate::stdio::Program;

/// Where an MCP server is. It cannot be printed: headers and environment hold secrets.
#[derive(Clone)]
pub enum Target {
    /// At a url.
    Http {
        /// Guards every request.
        client: HttpClient,
        /// Where.
        url: Url,
        /// With every request, credentials among them.
        headers: HeaderMap,
    },
    /// A program that is started for the connection and ends with it.
    Program(Program),
}

/// How a server is spoken to. Whoever keeps it saves the next connection from finding out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Era {
    /// Every request stands for itself.
    #[serde(rename = "2026-07-28")]
    Modern,
    /// It begins with `initialize`.
    #[serde(rename = "initialize")]
    Initialize,
    /// The same over two endpoints, as in 2024-11-05.
    #[serde(rename = "http+sse")]
    HttpSse,
}

/// Who we are, and within what bounds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `clientInfo`: `name`, `version` and what else is to be said.
    pub client: Map<String, Value>,
    /// What whoever is behind us can do. Where calls cannot say so themselves, it holds for all of them.
    pub capabilities: Map<String, Value>,
    /// Over HTTP, gets tokens when the server wants one, and shows them instead of a header `authorization` of the target.
    /// A call that has such a header shows its own.
    pub authorization: Option<Authorization>,
    /// As it was found last time.
    pub era: Option<Era>,
    /// Whether a stream is kept for what the server says by itself, where the era has one.
    pub listens: bool,
    /// The bounds.
    pub limits: McpLimits,
}

/// How much a server may take of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// For all of the opening.
    pub opening: Duration,
    /// Of that, for finding out whether it speaks the modern era.
    pub probe: Duration,
    /// Of one message, in bytes.
    pub max_message: usize,
    /// Of one message, in values; an object counts for four.
    pub max_parts: usize,
    /// Of all that comes on the stream of one call, in bytes.
    pub max_stream: u64,
    /// Calls under way.
    pub max_calls: usize,
    /// Calls that wait to be.
    pub max_waiting: usize,
    /// Pages of a list.
    pub max_pages: usize,
    /// Things in a list.
    pub max_items: usize,
    /// All of a list, in bytes.
    pub max_list: usize,
    /// Lines in a row that are no messages.
    pub max_garbage: u32,
    /// In a second, what nobody asked for: messages, kilobytes of them, and lines of nothing. More are read later.
    pub max_unasked: u32,
    /// What waits until a program reads, in bytes.
    pub max_queue: usize,
    /// What is kept of a program's standard error, in bytes.
    pub max_stderr: usize,
    /// How long a program has to end when it is told to.
    pub grace: Duration,
}

/// One call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// For all of it but the time that it takes to get a token; a minute if not said.
    pub deadline: Option<Duration>,
    /// When that time stands still; never, if not said.
    pub pauses: Option<Pauses>,
    /// Over HTTP, beside those of the connection and before them: the credential of this caller.
    pub headers: HeaderMap,
    /// The trace it is part of, told in `_meta` (SEP-414).
    pub trace: Option<TraceContext>,
    /// What this caller can do. Only the modern era takes its word; otherwise that of the connection holds.
    pub capabilities: Option<Map<String, Value>>,
    /// What of the log is wanted (modern; earlier it is for the connection, by `logging/setLevel`).
    pub log_level: Option<Box<str>>,
    /// The tool's `inputSchema`: it says which arguments are repeated in headers.
    pub schema: Option<Arc<Value>>,
    /// Whose call it is, as a number that nobody else has: what a server says without saying to whom is heard only while
    /// one and the same use it.
    pub owner: u64,
    /// Takes what is said and asked on the way. Without it progress is not asked for and questions are refused.
    pub heard: Option<mpsc::Sender<Heard>>,
}

const DEADLINE: Duration = Duration::from_secs(60);

impl Call {
    pub(crate) fn time(&self) -> Duration {
        self.deadline.unwrap_or(DEADLINE)
    }

    /// However long people take.
    pub(crate) fn longest(&self) -> Duration {
        let most = self.pauses.as_ref().map_or(Duration::ZERO, Pauses::most);
        self.time().max(most)
    }
}

impl Default for Settings {
    fn default() -> Self {
        let client = json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION")});
        let client = client.as_object().cloned().unwrap_or_default();
        let (capabilities, limits) = (Map::new(), McpLimits::default());
        Self { client, capabilities, authorization: None, era: None, listens: true, limits }
    }
}

impl McpLimits {
    pub(crate) fn message(&self) -> Bounds {
        Bounds { bytes: self.max_message, parts: self.max_parts }
    }
}

impl Default for McpLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            opening: Duration::from_secs(30),
            probe: Duration::from_secs(5),
            max_message: 8 * MIB,
            max_parts: 300_000,
            max_stream: 64 * MIB as u64,
            max_calls: 64,
            max_waiting: 128,
            max_pages: 1_000,
            max_items: 10_000,
            max_list: 32 * MIB,
            max_garbage: 1_000,
            max_unasked: 2_000,
            max_queue: 8 * MIB,
            max_stderr: 64 * 1024,
            grace: Duration::from_secs(2),
        }
    }
}
