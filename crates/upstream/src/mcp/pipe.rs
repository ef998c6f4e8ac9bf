//! The stdio transport: the server is a child process, and one line is one message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until, timeout};

use super::McpError;
use super::hearing::{Hearing, Next, Stream, Whose};
use super::message::{self, Answer, NoMessage};
use super::meta;
use super::pace::Pace;
use super::settings::{Call, Settings};
use crate::stdio::{Line, Lines, NotTaken, Process, Program, ProgramLimits};

/// How long the rest of a program's output is read after its exit.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// The same for standard error, which a descendant may keep open.
const LAST_LINES: Duration = Duration::from_millis(50);
/// How many lines of standard error are reported when the program exits.
const SHOWN_LINES: usize = 10;

pub(crate) struct PipeLink {
    process: Process,
    settings: Settings,
    pub(super) hearing: Arc<Hearing>,
    is_modern: AtomicBool,
}

impl PipeLink {
    pub(crate) async fn open(program: &Program, settings: Settings) -> Result<Arc<Self>, McpError> {
        let limits = ProgramLimits {
            max_line: settings.limits.max_message,
            max_parts: settings.limits.max_parts,
            max_queue: settings.limits.max_queue,
            max_stderr: settings.limits.max_stderr,
            grace: settings.limits.grace,
        };
        let started = Process::start(program, limits).await;
        let (process, lines) = started.map_err(|source| McpError::Start {
            program: program.command.display().to_string().into(),
            source: Arc::new(source),
        })?;
        let link = Arc::new(Self {
            process,
            settings,
            hearing: Arc::default(),
            is_modern: AtomicBool::new(true),
        });
        let ended = link.process.ended.clone();
        tokio::spawn(read(Arc::downgrade(&link), lines, ended));
        Ok(link)
    }

    pub(crate) fn set_modern(&self, is_modern: bool) {
        self.is_modern.store(is_modern, Ordering::Relaxed);
    }

    pub(crate) async fn call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        let (id, answer) = self.hearing.begin(call, whose)?;
        let _running = Running { link: self, id, tells: method != "initialize" };
        meta::add(
            params,
            whose.token(id),
            self.is_modern.load(Ordering::Relaxed),
            &self.settings,
            call,
        );
        self.send(message::request(id, method, params))?;
        answer.await.unwrap_or(Err(McpError::Closed)).map_err(|error| error.about(method))
    }

    pub(crate) fn notify(&self, method: &str, params: &Map<String, Value>) -> Result<(), McpError> {
        self.send(message::notification(method, params))
    }

    fn send(&self, mut line: Vec<u8>) -> Result<(), McpError> {
        line.push(b'\n');
        self.process.outbox.send(line).map_err(|not_taken| match not_taken {
            NotTaken::Full => McpError::NotReading,
            NotTaken::Closed => self.end("it closed its input"),
        })
    }

    /// Why the connection has ended. A program that closed its input or output without exiting has ended it too.
    fn end(&self, otherwise: &str) -> McpError {
        let ended = self.process.ended.borrow().clone();
        let (how, at) = match ended {
            Some(ended) => (ended.how.into(), ended.at),
            None => (otherwise.into(), Instant::now()),
        };
        let stderr = &self.process.stderr;
        let (stderr_lines, stderr) = (stderr.lines(), stderr.tail(SHOWN_LINES).into());
        self.hearing.ended().unwrap_or(McpError::Ended { how, stderr_lines, stderr, at })
    }

    fn react(self: &Arc<Self>, next: Next) {
        match next {
            Next::Taken | Next::Nothing | Next::Answered(_) => {}
            // If the program does not read, it gets no replies; the next call reports that.
            Next::Reply(reply) => drop(self.send(reply)),
            Next::Ask(asked) => {
                let (link, call, id) = (self.clone(), asked.call, asked.id.clone());
                let task = tokio::spawn(async move { drop(link.send(asked.reply().await)) });
                self.hearing.bind(call, id, task.abort_handle());
            }
        }
    }

    pub(crate) fn stderr(&self) -> String {
        self.process.stderr.text()
    }

    pub(crate) fn close(&self) {
        self.hearing.fail(McpError::Closed);
        self.process.stop();
    }
}

/// Bounds the useless output of a program.
struct Useless {
    pace: Pace,
    /// Consecutive lines that are not messages.
    garbage: u32,
    /// The line that exceeds a limit, with the call it was meant to answer if known.
    refused: Option<NoMessage>,
}

/// Reads until the program exits or writes too much that is not MCP.
async fn read(
    link: Weak<PipeLink>,
    mut lines: Lines,
    mut ended: tokio::sync::watch::Receiver<Option<crate::stdio::Ended>>,
) {
    let Some(max) = link.upgrade().map(|link| link.settings.limits.max_unasked) else { return };
    let mut useless = Useless { pace: Pace::new(max), garbage: 0, refused: None };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = ended.wait_for(Option::is_some) => break,
        };
        let Ok(Some(line)) = line else { break };
        let Some(link) = link.upgrade() else { return };
        if let Err(error) = hear(&link, line, &mut useless).await {
            link.hearing.fail(error);
            link.process.stop();
            return;
        }
        drop(link);
        if let Some(until) = useless.pace.enough() {
            tokio::select! {
                () = sleep_until(until) => {}
                _ = ended.wait_for(Option::is_some) => break,
            }
        }
    }
    last_words(&link, &mut lines, &mut useless).await;
    // The program closed its output; its exit status follows in a moment.
    drop(timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await);
    if let Some(link) = link.upgrade() {
        drop(timeout(LAST_LINES, link.process.stderr.whole()).await);
        let error = link.end("it closed its output");
        link.hearing.fail(error);
        link.process.stop();
    }
}

/// Reads the lines that the program wrote before it exited.
async fn last_words(link: &Weak<PipeLink>, lines: &mut Lines, useless: &mut Useless) {
    let rest = async {
        while let (Ok(Some(line)), Some(link)) = (lines.next().await, link.upgrade()) {
            if hear(&link, line, useless).await.is_err() {
                return;
            }
        }
    };
    drop(timeout(LAST_WORDS, rest).await);
}

async fn hear(link: &Arc<PipeLink>, line: Line<'_>, useless: &mut Useless) -> Result<(), McpError> {
    let limits = &link.settings.limits;
    let mut length = 0;
    let message = match line {
        Line::Whole(line) if line.is_blank() => {
            useless.pace.count();
            return Ok(());
        }
        Line::Whole(line) => {
            length = line.len();
            message::read(line, limits.message()).await
        }
        Line::TooMuch(too_much, begin) => {
            let refused = NoMessage::refused(too_much, begin);
            useless.refused = Some(refused);
            Err(refused)
        }
        Line::WasTooMuch(end) => {
            let Some(refused) = useless.refused.take() else { return Ok(()) };
            let ended = refused.ended(end);
            if ended == refused {
                return Ok(());
            }
            Err(ended)
        }
    };
    let next = match message {
        Ok(message) => {
            useless.garbage = 0;
            link.hearing.hear(message, Stream::Shared)
        }
        Err(no_message) => {
            useless.garbage += 1;
            link.hearing.garbage(&no_message);
            if limits.max_garbage < useless.garbage {
                return Err(McpError::Garbage { limit: limits.max_garbage });
            }
            Next::Nothing
        }
    };
    if !matches!(next, Next::Taken) {
        useless.pace.count();
        // Questions may be long without counting as a flood.
        let is_asked = matches!(next, Next::Ask(_));
        useless.pace.count_bytes(if is_asked { 0 } else { length });
    }
    link.react(next);
    Ok(())
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation.
struct Running<'a> {
    link: &'a Arc<PipeLink>,
    id: u64,
    tells: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.link.hearing.give_up(self.id) && self.tells {
            let params = Map::from_iter([("requestId".to_owned(), json!(self.id))]);
            drop(self.link.notify("notifications/cancelled", &params));
        }
    }
}

impl Drop for PipeLink {
    fn drop(&mut self) {
        self.process.stop();
    }
}
