//! Settings, limits and call options of MCP connections.

use std::sync::Arc;
use std::time::Duration;

use model::TraceContext;
use oauth::McpAuthorization;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use upstream::chunked::MessageBounds;
use upstream::http::header::HeaderMap;
use upstream::http::{HttpClient, Url};
use upstream::stdio::ProgramSpec;

use super::deadline_pauses::DeadlinePauses;
use super::dispatch::CallNotification;

/// The address of an MCP server. It has no `Debug`, because headers and environment contain secrets.
#[derive(Clone)]
pub enum McpTarget {
    /// A server behind a URL.
    Http {
        /// The client that checks and sends every request.
        client: HttpClient,
        url: Url,
        /// Sent with every request, including credentials.
        headers: HeaderMap,
    },
    /// A child process that is started for the connection and ends with it.
    Program(ProgramSpec),
}

/// The protocol era of a server. Storing it saves the next connection the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServerEra {
    /// Stateless: every request is self-contained.
    #[serde(rename = "2026-07-28")]
    Modern,
    /// The connection begins with `initialize`.
    #[serde(rename = "initialize")]
    Initialize,
    /// Like `Initialize`, over the two endpoints of 2024-11-05.
    #[serde(rename = "http+sse")]
    HttpSse,
}

/// How this client presents itself to a server, and its limits.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// `clientInfo`: `name`, `version` and further members.
    pub client_info: Map<String, Value>,
    /// The client capabilities for all calls that do not state their own.
    pub capabilities: Map<String, Value>,
    /// Obtains tokens over HTTP when the server requires one. They replace an `authorization` header of the target, but
    /// not that of a call.
    pub authorization: Option<McpAuthorization>,
    /// The era that an earlier connection negotiated.
    pub era: Option<ServerEra>,
    /// Whether to keep a stream open for server-initiated messages, if the era has one.
    pub listens: bool,
    pub limits: McpLimits,
}

/// The limits on what a server may send and use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// The deadline for opening a connection.
    pub open_deadline: Duration,
    /// The part of it for probing the modern era.
    pub probe_deadline: Duration,
    /// The size of one message, in bytes.
    pub max_message_bytes: usize,
    /// The number of JSON values in one message; an object counts as four.
    pub max_values: usize,
    /// All bytes on the stream of one call.
    pub max_stream_bytes: u64,
    pub max_calls: usize,
    /// Calls that wait for a permit.
    pub max_waiting: usize,
    /// Pages of a list.
    pub max_pages: usize,
    /// Items of a list.
    pub max_items: usize,
    /// The size of a whole list, in bytes.
    pub max_list_bytes: usize,
    /// Consecutive lines of a program that are not messages.
    pub max_garbage: u32,
    /// Unsolicited units per second: messages, their kilobytes, and blank lines. Beyond that, reading is delayed.
    pub max_unsolicited: u32,
    /// Input that waits until a program reads it, in bytes.
    pub max_queue: usize,
    /// Kept standard error of a program, in bytes.
    pub max_stderr: usize,
    /// How long a program may take to exit after it was asked to.
    pub grace: Duration,
}

/// The options of one call.
#[derive(Clone, Debug, Default)]
pub struct McpCallOptions {
    /// For the whole call, except the time to obtain a token; one minute by default.
    pub deadline: Option<Duration>,
    /// The pauses of that deadline; by default it is never paused.
    pub pauses: Option<DeadlinePauses>,
    /// Over HTTP, headers that replace those of the connection: the credential of this caller.
    pub headers: HeaderMap,
    /// The trace context of the call, sent in `_meta` (SEP-414).
    pub trace: Option<TraceContext>,
    /// The capabilities of this caller. Only the modern era uses them; otherwise those of the connection apply.
    pub capabilities: Option<Map<String, Value>>,
    /// The log level requested in the modern era; before, `logging/setLevel` sets it for the connection.
    pub log_level: Option<Box<str>>,
    /// The tool's `inputSchema`, which states the arguments to repeat in headers.
    pub schema: Option<Arc<Value>>,
    /// A unique number for the caller. Messages without a recipient are delivered only while a single owner uses the
    /// connection.
    pub owner: u64,
    /// Receives notifications and questions. Without it, progress is not requested and questions are refused.
    pub notifications: Option<mpsc::Sender<CallNotification>>,
}

const DEFAULT_CALL_DEADLINE: Duration = Duration::from_secs(60);

impl McpCallOptions {
    pub(crate) fn deadline_or_default(&self) -> Duration {
        self.deadline.unwrap_or(DEFAULT_CALL_DEADLINE)
    }

    /// The longest possible duration of the call, including pauses.
    pub(crate) fn max_duration(&self) -> Duration {
        let most = self.pauses.as_ref().map_or(Duration::ZERO, DeadlinePauses::max_duration);
        self.deadline_or_default().max(most)
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        let client = json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION")});
        let client = client.as_object().cloned().unwrap_or_default();
        let (capabilities, limits) = (Map::new(), McpLimits::default());
        Self {
            client_info: client,
            capabilities,
            authorization: None,
            era: None,
            listens: true,
            limits,
        }
    }
}

impl McpLimits {
    pub(crate) fn message_bounds(&self) -> MessageBounds {
        MessageBounds { bytes: self.max_message_bytes, values: self.max_values }
    }
}

impl Default for McpLimits {
    fn default() -> Self {
        const MIB: usize = 1024 * 1024;
        Self {
            open_deadline: Duration::from_secs(30),
            probe_deadline: Duration::from_secs(5),
            max_message_bytes: 8 * MIB,
            max_values: 300_000,
            max_stream_bytes: 64 * MIB as u64,
            max_calls: 64,
            max_waiting: 128,
            max_pages: 1_000,
            max_items: 10_000,
            max_list_bytes: 32 * MIB,
            max_garbage: 1_000,
            max_unsolicited: 2_000,
            max_queue: 8 * MIB,
            max_stderr: 64 * 1024,
            grace: Duration::from_secs(2),
        }
    }
}
