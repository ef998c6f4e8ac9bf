//! The stdio transport: the server is a child process, and one line is one message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use upstream::stdio::{
    ChildProcess, OutputLine, OutputLines, ProgramLimits, ProgramSpec, StdinQueueError,
};

use super::connection_settings::{ConnectionSettings, McpCallOptions};
use super::dispatch::{CallRecipient, DispatchStep, MessageDispatcher, MessageStream};
use super::json_rpc::{BrokenMessage, McpAnswer};
use super::unsolicited_rate::UnsolicitedRate;
use super::{McpError, call_meta, json_rpc};

/// How long the rest of a program's output is read after its exit.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// The same for standard error, which a descendant may keep open.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(50);
/// How many lines of standard error are reported when the program exits.
const REPORTED_STDERR_LINES: usize = 10;

pub(crate) struct StdioLink {
    process: ChildProcess,
    settings: ConnectionSettings,
    pub(super) dispatcher: Arc<MessageDispatcher>,
    is_modern: AtomicBool,
}

impl StdioLink {
    pub(crate) async fn start_server(
        program: &ProgramSpec,
        settings: ConnectionSettings,
    ) -> Result<Arc<Self>, McpError> {
        let limits = ProgramLimits {
            max_line: settings.limits.max_message_bytes,
            max_values: settings.limits.max_values,
            max_queue: settings.limits.max_queue,
            max_stderr: settings.limits.max_stderr,
            grace: settings.limits.grace,
        };
        let started = ChildProcess::start_process(program, limits).await;
        let (process, lines) = started.map_err(|source| McpError::ProgramNotStarted {
            program: program.command.display().to_string().into(),
            source: Arc::new(source),
        })?;
        let link = Arc::new(Self {
            process,
            settings,
            dispatcher: Arc::default(),
            is_modern: AtomicBool::new(true),
        });
        let ended = link.process.exit.clone();
        tokio::spawn(read_lines(Arc::downgrade(&link), lines, ended));
        Ok(link)
    }

    pub(crate) fn set_modern(&self, is_modern: bool) {
        self.is_modern.store(is_modern, Ordering::Relaxed);
    }

    pub(crate) async fn send_call(
        self: &Arc<Self>,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        let (id, answer) = self.dispatcher.register_call(call, whose)?;
        let _running = StdioCallGuard { link: self, id, notify_on_drop: method != "initialize" };
        call_meta::add_meta(
            params,
            whose.progress_token(id),
            self.is_modern.load(Ordering::Relaxed),
            &self.settings,
            call,
        );
        self.send_line(json_rpc::encode_request(id, method, params))?;
        answer.await.unwrap_or(Err(McpError::Closed)).map_err(|error| error.with_method(method))
    }

    pub(crate) fn send_notification(
        &self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<(), McpError> {
        self.send_line(json_rpc::encode_notification(method, params))
    }

    fn send_line(&self, mut line: Vec<u8>) -> Result<(), McpError> {
        line.push(b'\n');
        self.process.outbox.send_line(line).map_err(|not_taken| match not_taken {
            StdinQueueError::Full => McpError::NotReading,
            StdinQueueError::Closed => self.end_error("it closed its input"),
        })
    }

    /// Why the connection has ended. A program that closed its input or output without exiting has ended it too.
    fn end_error(&self, otherwise: &str) -> McpError {
        let ended = self.process.exit.borrow().clone();
        let (how, at) = match ended {
            Some(ended) => (ended.status.into(), ended.at),
            None => (otherwise.into(), Instant::now()),
        };
        let stderr = &self.process.stderr;
        let (stderr_lines, stderr) =
            (stderr.line_count(), stderr.last_lines(REPORTED_STDERR_LINES).into());
        self.dispatcher.end_reason().unwrap_or(McpError::ProgramEnded {
            how,
            stderr_lines,
            stderr,
            at,
        })
    }

    fn send_reply(self: &Arc<Self>, next: DispatchStep) {
        match next {
            DispatchStep::Delivered | DispatchStep::Ignored | DispatchStep::Answered(_) => {}
            // If the program does not read, it gets no replies; the next call reports that.
            DispatchStep::Reply(reply) => drop(self.send_line(reply)),
            DispatchStep::AwaitReply(asked) => {
                let (link, call, id) = (self.clone(), asked.call, asked.id.clone());
                let task =
                    tokio::spawn(async move { drop(link.send_line(asked.await_reply().await)) });
                self.dispatcher.bind_question(call, id, task.abort_handle());
            }
        }
    }

    pub(crate) fn stderr_text(&self) -> String {
        self.process.stderr.printable_text()
    }

    pub(crate) fn close(&self) {
        self.dispatcher.fail_all(McpError::Closed);
        self.process.stop();
    }
}

/// Bounds the useless output of a program.
struct UselessOutput {
    unsolicited_rate: UnsolicitedRate,
    /// Consecutive lines that are not messages.
    garbage: u32,
    /// The line that exceeds a limit, with the call it was meant to answer if known.
    oversized: Option<BrokenMessage>,
}

/// Reads until the program exits or writes too much that is not MCP.
async fn read_lines(
    link: Weak<StdioLink>,
    mut lines: OutputLines,
    mut ended: tokio::sync::watch::Receiver<Option<upstream::stdio::ProgramExit>>,
) {
    let Some(max) = link.upgrade().map(|link| link.settings.limits.max_unsolicited) else { return };
    let mut useless =
        UselessOutput { unsolicited_rate: UnsolicitedRate::new(max), garbage: 0, oversized: None };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            _ = ended.wait_for(Option::is_some) => break,
        };
        let Ok(Some(line)) = line else { break };
        let Some(link) = link.upgrade() else { return };
        if let Err(error) = handle_line(&link, line, &mut useless).await {
            link.dispatcher.fail_all(error);
            link.process.stop();
            return;
        }
        drop(link);
        if let Some(until) = useless.unsolicited_rate.paused_until() {
            tokio::select! {
                () = sleep_until(until) => {}
                _ = ended.wait_for(Option::is_some) => break,
            }
        }
    }
    read_remaining_lines(&link, &mut lines, &mut useless).await;
    // The program closed its output; its exit status follows in a moment.
    drop(timeout(DRAIN_TIMEOUT, ended.wait_for(Option::is_some)).await);
    if let Some(link) = link.upgrade() {
        drop(timeout(STDERR_DRAIN_TIMEOUT, link.process.stderr.wait_until_complete()).await);
        let error = link.end_error("it closed its output");
        link.dispatcher.fail_all(error);
        link.process.stop();
    }
}

/// Reads the lines that the program wrote before it exited.
async fn read_remaining_lines(
    link: &Weak<StdioLink>,
    lines: &mut OutputLines,
    useless: &mut UselessOutput,
) {
    let rest = async {
        while let (Ok(Some(line)), Some(link)) = (lines.next().await, link.upgrade()) {
            if handle_line(&link, line, useless).await.is_err() {
                return;
            }
        }
    };
    drop(timeout(DRAIN_TIMEOUT, rest).await);
}

async fn handle_line(
    link: &Arc<StdioLink>,
    line: OutputLine<'_>,
    useless: &mut UselessOutput,
) -> Result<(), McpError> {
    let limits = &link.settings.limits;
    let mut length = 0;
    let message = match line {
        OutputLine::Whole(line) if line.is_blank() => {
            useless.unsolicited_rate.count_message();
            return Ok(());
        }
        OutputLine::Whole(line) => {
            length = line.byte_len();
            json_rpc::parse_message(line, limits.message_bounds()).await
        }
        OutputLine::TooLong(too_much, begin) => {
            let refused = BrokenMessage::too_large(too_much, begin);
            useless.oversized = Some(refused);
            Err(refused)
        }
        OutputLine::TooLongEnd(end) => {
            let Some(refused) = useless.oversized.take() else { return Ok(()) };
            let ended = refused.with_tail(end);
            if ended == refused {
                return Ok(());
            }
            Err(ended)
        }
    };
    let next = match message {
        Ok(message) => {
            useless.garbage = 0;
            link.dispatcher.dispatch(message, MessageStream::Shared)
        }
        Err(no_message) => {
            useless.garbage += 1;
            link.dispatcher.record_garbage(&no_message);
            if limits.max_garbage < useless.garbage {
                return Err(McpError::TooMuchGarbage { limit: limits.max_garbage });
            }
            DispatchStep::Ignored
        }
    };
    if !matches!(next, DispatchStep::Delivered) {
        useless.unsolicited_rate.count_message();
        // Questions may be long without counting as a flood.
        let is_asked = matches!(next, DispatchStep::AwaitReply(_));
        useless.unsolicited_rate.count_bytes(if is_asked { 0 } else { length });
    }
    link.send_reply(next);
    Ok(())
}

/// A call in progress. If it is dropped before its answer, it sends a cancellation.
struct StdioCallGuard<'a> {
    link: &'a Arc<StdioLink>,
    id: u64,
    notify_on_drop: bool,
}

impl Drop for StdioCallGuard<'_> {
    fn drop(&mut self) {
        if self.link.dispatcher.abandon_call(self.id) && self.notify_on_drop {
            let params = Map::from_iter([("requestId".to_owned(), json!(self.id))]);
            drop(self.link.send_notification("notifications/cancelled", &params));
        }
    }
}

impl Drop for StdioLink {
    fn drop(&mut self) {
        self.process.stop();
    }
}
