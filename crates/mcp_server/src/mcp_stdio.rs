//! MCP over standard input and output: one message per line, both eras, and nothing else on standard output.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::FutureExt as _;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::error_response::RpcErrorResponse;
use super::incoming_message::{IncomingMessage, IncomingRequest, InvalidMessage, JsonRpcId};
use super::listen::{ListenFilter, ListenStream};
use super::mcp_peer::McpPeer;
use super::mcp_sessions::McpSession;
use super::outgoing_message::OutgoingMessage;
use super::shared_methods::McpReply;
use super::{McpEndpoint, legacy_era, modern_era};

/// Maximum message size, in bytes.
const MAX_LINE_BYTES: usize = 4 << 20;
/// Maximum number of queued output messages.
const OUTPUT_QUEUE_LENGTH: usize = 64;
/// Maximum number of concurrent requests: a client that sends requests without reading answers must not exhaust memory.
const MAX_CONCURRENT_REQUESTS: usize = 1_000;
/// How long running calls may take after the end of input.
const SHUTDOWN_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// Id of the only session: there is one client.
const STDIO_SESSION_ID: &str = "stdio";

/// Serves one client until the end of its input.
pub async fn serve_client(
    peer: McpPeer,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (say, heard) = mpsc::channel(OUTPUT_QUEUE_LENGTH);
    let writing = tokio::spawn(write_messages(output, heard));
    let mcp = Arc::clone(McpEndpoint::of_app(&peer.app));
    let principal = peer.principal();
    let mut talk = StdioClientSession {
        mcp,
        peer,
        principal,
        say,
        session: None,
        is_subscribed: false,
        work: JoinSet::new(),
        running: HashMap::new(),
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = tokio::select! {
            read = read_line(&mut input, &mut line) => read?,
            // The client has closed the output.
            () = talk.say.closed() => break,
        };
        match read {
            StdioLine::End => break,
            StdioLine::TooLong => {
                let error = RpcErrorResponse::invalid_request("a message has at most 4 MiB");
                talk.send_message(OutgoingMessage::error_response(None, &error)).await;
            }
            StdioLine::Whole if line.trim_ascii().is_empty() => {}
            StdioLine::Whole => talk.handle_line(&line).await,
        }
    }
    talk.shut_down().await;
    writing.await.unwrap_or(Ok(()))
}

struct StdioClientSession {
    mcp: Arc<McpEndpoint>,
    peer: McpPeer,
    principal: String,
    say: mpsc::Sender<Bytes>,
    /// The legacy session, after `initialize`.
    session: Option<McpSession>,
    /// Whether the client gets change notifications.
    is_subscribed: bool,
    work: JoinSet<()>,
    /// Requests that can still be cancelled.
    running: HashMap<JsonRpcId, AbortHandle>,
}

impl StdioClientSession {
    async fn send_message(&self, sent: OutgoingMessage) {
        // If the client has closed the output, the message is dropped.
        self.say.send(sent.to_bytes()).await.ok();
    }

    async fn handle_line(&mut self, line: &[u8]) {
        while self.work.try_join_next().is_some() {}
        self.running.retain(|_, work| !work.is_finished());
        match IncomingMessage::from_bytes(line) {
            Err(InvalidMessage { id, error }) => {
                self.send_message(OutgoingMessage::error_response(id.as_ref(), &error)).await
            }
            Ok(IncomingMessage::Request(request)) => {
                let id = request.id.clone();
                // A panic ends only the request that caused it.
                if AssertUnwindSafe(self.answer_request(request)).catch_unwind().await.is_err() {
                    let error =
                        RpcErrorResponse::internal_error("the server has a mistake: see its log");
                    self.send_message(OutgoingMessage::error_response(Some(&id), &error)).await;
                }
            }
            Ok(IncomingMessage::Response { id, outcome }) => {
                self.mcp.questions.deliver_answer(&self.principal, &id, outcome);
            }
            Ok(IncomingMessage::Notification { method, params, .. }) => match method.as_str() {
                "notifications/cancelled" => {
                    let id = params.get("requestId").and_then(JsonRpcId::from_value);
                    if let Some(work) = id.and_then(|id| self.running.remove(&id)) {
                        work.abort();
                    }
                }
                "notifications/initialized" if !self.is_subscribed => self.start_notifications(),
                _ => {}
            },
        }
    }

    async fn answer_request(&mut self, request: IncomingRequest) {
        if !self.peer.revalidate_credential().await {
            let error = RpcErrorResponse::invalid_request("the credential is no longer good");
            return self
                .send_message(OutgoingMessage::error_response(Some(&request.id), &error))
                .await;
        }
        if MAX_CONCURRENT_REQUESTS <= self.work.len() {
            let error = RpcErrorResponse::server_busy(
                "too many requests are under way: read the answers first",
            );
            return self
                .send_message(OutgoingMessage::error_response(Some(&request.id), &error))
                .await;
        }
        let peer = self.peer.clone();
        let is_modern = request.meta.as_ref().is_some_and(|meta| meta.version.is_some())
            || request.method == "server/discover";
        if !is_modern && request.method == "initialize" {
            match legacy_era::initialize_session(&peer, &request.id, &request.params) {
                Ok((sent, session)) => {
                    self.session = Some(session);
                    self.send_message(sent).await;
                }
                Err(error) => {
                    self.send_message(OutgoingMessage::error_response(Some(&request.id), &error))
                        .await
                }
            }
            return;
        }
        let id = request.id.clone();
        let session = self.session.as_ref().map(|session| (STDIO_SESSION_ID, session));
        let answer = match is_modern {
            true => modern_era::answer_request(&self.mcp, peer, None, request),
            false => legacy_era::answer_request(&self.mcp, peer, session, request),
        };
        let work = self.spawn_answer(answer);
        self.running.insert(id, work);
    }

    /// Sends all messages of an answer from a task of its own.
    fn spawn_answer(&mut self, mut answer: McpReply) -> AbortHandle {
        let say = self.say.clone();
        self.work.spawn(async move {
            while let Some(sent) = answer.next_message().await {
                let is_last = sent.is_last;
                if say.send(sent.to_bytes()).await.is_err() || is_last {
                    return;
                }
            }
        })
    }

    /// Starts the legacy notifications about changes, which need no subscription.
    fn start_notifications(&mut self) {
        self.is_subscribed = true;
        let gathered = self.mcp.sessions.state_for_stream(&self.peer.principal(), STDIO_SESSION_ID);
        if let Ok(listen) =
            ListenStream::new(&self.peer, None, ListenFilter::all_lists(), Some(gathered))
        {
            self.spawn_answer(McpReply::Stream(listen));
        }
    }

    async fn shut_down(mut self) {
        // Streams have no end of their own; draining ends them, so that only calls are waited for.
        self.peer.app.start_draining();
        let all = async { while self.work.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_GRACE_PERIOD, all).await.is_err() {
            tracing::warn!("some calls did not end in time and are dropped");
        }
    }
}

enum StdioLine {
    Whole,
    TooLong,
    End,
}

/// Reads a line within the size limit; an over-long line is skipped to its end.
async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<StdioLine> {
    let mut is_too_long = false;
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(if line.is_empty() && !is_too_long {
                StdioLine::End
            } else {
                finished_line(is_too_long)
            });
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        match part.get(..length) {
            Some(more) if line.len() + more.len() <= MAX_LINE_BYTES && !is_too_long => {
                line.extend_from_slice(more);
            }
            _ => (is_too_long, *line) = (true, Vec::new()),
        }
        input.consume(length);
        if end.is_some() {
            return Ok(finished_line(is_too_long));
        }
    }
}

fn finished_line(is_too_long: bool) -> StdioLine {
    if is_too_long { StdioLine::TooLong } else { StdioLine::Whole }
}

async fn write_messages(
    mut output: impl AsyncWrite + Unpin,
    mut heard: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(message) = heard.recv().await {
        output.write_all(&message).await?;
        output.write_all(b"\n").await?;
        if heard.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
