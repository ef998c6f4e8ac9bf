//! The MCP endpoint: both eras of the protocol on one path. See `docs/adr/0019-mcp-by-hand.md`.
//!
//! `incoming_message.rs` parses requests; `modern_era.rs` and `legacy_era.rs` hold the rules of their eras,
//! `shared_methods.rs` the methods that both share. A request leads to one or several messages (`outgoing_message.rs`),
//! the last of which is the answer; `streamable_http.rs` and `mcp_stdio.rs` transport them.

mod call_state;
mod client_replies;
mod embedded;
mod error_response;
mod header_checks;
mod incoming_message;
mod legacy_era;
mod list_pages;
mod listen;
mod mcp_peer;
mod mcp_sessions;
pub mod mcp_stdio;
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
pub mod streamable_http;

use std::sync::Arc;

use axum::http::Extensions;
use endpoint::background_tasks::BackgroundTasks;
use toolcrib::StateCipher;

use self::client_replies::{CancellableCalls, PendingQuestions};
use self::list_pages::McpPageCache;
use self::mcp_sessions::McpSessions;
use self::mcp_tasks::McpTasks;
use self::resumable_streams::ResumableStreams;

pub use self::embedded::{
    PerRequestLayer, PerRequestService, mcp_router, providers_per_request, serve_lines,
    serve_stdio, user_per_request,
};
pub use self::mcp_peer::McpPeer;
pub use self::protocol_era::introduce_as;
pub use api_types::oauth_scope::OAuthScope;
pub use api_types::server_names::{HostName, PublicUrl, ServerNames, WebOrigin};
pub use endpoint::protected_resource::MCP_PATH;
pub use endpoint::{AppState, ProtectedResource, ServerOptions};

/// State of the endpoint between messages; none of it authenticates a caller.
pub struct McpEndpoint {
    pages: McpPageCache,
    seal: StateCipher,
    questions: PendingQuestions,
    cancellable_calls: CancellableCalls,
    tasks: McpTasks,
    sessions: McpSessions,
    streams: ResumableStreams,
    /// Calls that continue after their client has disconnected.
    background_work: Arc<BackgroundTasks>,
}

impl McpEndpoint {
    /// Adds the state of the endpoint to that of the server.
    pub fn register(
        extensions: &mut Extensions,
        seal: StateCipher,
        background: &Arc<BackgroundTasks>,
    ) {
        extensions.insert(Arc::new(Self::new(seal, Arc::clone(background))));
    }

    /// The state of the endpoint in that of the server.
    pub(crate) fn of_app(app: &AppState) -> &Arc<Self> {
        app.extensions.get().expect("the server registers its MCP endpoint at startup")
    }

    fn new(seal: StateCipher, background_work: Arc<BackgroundTasks>) -> Self {
        Self {
            pages: McpPageCache::new(),
            seal,
            questions: PendingQuestions::default(),
            cancellable_calls: CancellableCalls::default(),
            tasks: McpTasks::default(),
            sessions: McpSessions::new(),
            streams: ResumableStreams::default(),
            background_work,
        }
    }
}

#[cfg(test)]
mod tests;

/// Compiles and runs the code of the guide as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
mod guide {}
