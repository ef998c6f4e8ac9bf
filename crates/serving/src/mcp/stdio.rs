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

use super::answer::Sent;
use super::listen::{Listen, Wanted};
use super::message::{Id, Message, Request, Unusable};
use super::methods::Answer;
use super::peer::Peer;
use super::sessions::Session;
use super::{Mcp, error::RpcError, legacy, modern};

/// Maximum message size, in bytes.
const LIMIT: usize = 4 << 20;
/// Maximum number of queued output messages.
const WAITING: usize = 64;
/// Maximum number of concurrent requests: a client that sends requests without reading answers must not exhaust memory.
const UNDER_WAY: usize = 1_000;
/// How long running calls may take after the end of input.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Id of the only session: there is one client.
const SESSION: &str = "stdio";

/// Serves one client until the end of its input.
pub(crate) async fn speak(
    peer: Peer,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> std::io::Result<()> {
    let (say, heard) = mpsc::channel(WAITING);
    let writing = tokio::spawn(write(output, heard));
    let mcp = Arc::clone(&peer.app.mcp);
    let principal = peer.principal();
    let mut talk = Talking {
        mcp,
        peer,
        principal,
        say,
        session: None,
        is_told: false,
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
            Line::End => break,
            Line::TooLong => {
                let error = RpcError::invalid_request("a message has at most 4 MiB");
                talk.say(Sent::error(None, &error)).await;
            }
            Line::Whole if line.trim_ascii().is_empty() => {}
            Line::Whole => talk.hear(&line).await,
        }
    }
    talk.end().await;
    writing.await.unwrap_or(Ok(()))
}

struct Talking {
    mcp: Arc<Mcp>,
    peer: Peer,
    principal: String,
    say: mpsc::Sender<Bytes>,
    /// The legacy session, after `initialize`.
    session: Option<Session>,
    /// Whether the client gets change notifications.
    is_told: bool,
    work: JoinSet<()>,
    /// Requests that can still be cancelled.
    running: HashMap<Id, AbortHandle>,
}

impl Talking {
    async fn say(&self, sent: Sent) {
        // If the client has closed the output, the message is dropped.
        self.say.send(sent.to_bytes()).await.ok();
    }

    async fn hear(&mut self, line: &[u8]) {
        while self.work.try_join_next().is_some() {}
        self.running.retain(|_, work| !work.is_finished());
        match Message::read(line) {
            Err(Unusable { id, error }) => self.say(Sent::error(id.as_ref(), &error)).await,
            Ok(Message::Request(request)) => {
                let id = request.id.clone();
                // A panic ends only the request that caused it.
                if AssertUnwindSafe(self.answer(request)).catch_unwind().await.is_err() {
                    let error = RpcError::internal("the server has a mistake: see its log");
                    self.say(Sent::error(Some(&id), &error)).await;
                }
            }
            Ok(Message::Response { id, outcome }) => {
                self.mcp.asked.answer(&self.principal, &id, outcome);
            }
            Ok(Message::Notification { method, params, .. }) => match method.as_str() {
                "notifications/cancelled" => {
                    let id = params.get("requestId").and_then(Id::of);
                    if let Some(work) = id.and_then(|id| self.running.remove(&id)) {
                        work.abort();
                    }
                }
                "notifications/initialized" if !self.is_told => self.tell_changes(),
                _ => {}
            },
        }
    }

    async fn answer(&mut self, request: Request) {
        if !self.peer.is_still_known().await {
            let error = RpcError::invalid_request("the credential is no longer good");
            return self.say(Sent::error(Some(&request.id), &error)).await;
        }
        if UNDER_WAY <= self.work.len() {
            let error = RpcError::busy("too many requests are under way: read the answers first");
            return self.say(Sent::error(Some(&request.id), &error)).await;
        }
        let peer = self.peer.clone();
        let is_modern = request.meta.as_ref().is_some_and(|meta| meta.version.is_some())
            || request.method == "server/discover";
        if !is_modern && request.method == "initialize" {
            match legacy::initialize(&peer, &request.id, &request.params) {
                Ok((sent, session)) => {
                    self.session = Some(session);
                    self.say(sent).await;
                }
                Err(error) => self.say(Sent::error(Some(&request.id), &error)).await,
            }
            return;
        }
        let id = request.id.clone();
        let session = self.session.as_ref().map(|session| (SESSION, session));
        let answer = match is_modern {
            true => modern::answer(&self.mcp, peer, None, request),
            false => legacy::answer(&self.mcp, peer, session, request),
        };
        let work = self.carry(answer);
        self.running.insert(id, work);
    }

    /// Sends all messages of an answer from a task of its own.
    fn carry(&mut self, mut answer: Answer) -> AbortHandle {
        let say = self.say.clone();
        self.work.spawn(async move {
            while let Some(sent) = answer.next().await {
                let is_last = sent.is_last;
                if say.send(sent.to_bytes()).await.is_err() || is_last {
                    return;
                }
            }
        })
    }

    /// Starts the legacy notifications about changes, which need no subscription.
    fn tell_changes(&mut self) {
        self.is_told = true;
        let gathered = self.mcp.sessions.stream(&self.peer.principal(), SESSION);
        if let Ok(listen) = Listen::new(&self.peer, None, Wanted::lists(), Some(gathered)) {
            self.carry(Answer::Listen(listen));
        }
    }

    async fn end(mut self) {
        // Streams have no end of their own; draining ends them, so that only calls are waited for.
        self.peer.app.drain();
        let all = async { while self.work.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_ANSWERS, all).await.is_err() {
            tracing::warn!("some calls did not end in time and are dropped");
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line within the size limit; an over-long line is skipped to its end.
async fn read_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<Line> {
    let mut is_too_long = false;
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(if line.is_empty() && !is_too_long {
                Line::End
            } else {
                whole(is_too_long)
            });
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        match part.get(..length) {
            Some(more) if line.len() + more.len() <= LIMIT && !is_too_long => {
                line.extend_from_slice(more);
            }
            _ => (is_too_long, *line) = (true, Vec::new()),
        }
        input.consume(length);
        if end.is_some() {
            return Ok(whole(is_too_long));
        }
    }
}

fn whole(is_too_long: bool) -> Line {
    if is_too_long { Line::TooLong } else { Line::Whole }
}

async fn write(
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
