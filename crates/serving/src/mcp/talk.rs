//! A running call: the messages that the tool sends on the way, then the answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use model::ToolId;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use toolcrib::Said;

use super::Mcp;
use super::answer::Sent;
use super::era::Era;
use super::error::RpcError;
use super::message::Id;

/// The future of a call: its result as JSON, or an error.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<String, RpcError>> + Send>>;

/// A running call. Dropping it aborts the call.
pub(crate) struct Talk {
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) era: Era,
    pub(crate) id: Id,
    /// The principal that may answer the call's questions.
    pub(crate) principal: Arc<str>,
    /// Namespace of the request id; `None` if the client can cancel only by disconnecting.
    pub(crate) stoppable_by: Option<Box<str>>,
    pub(crate) stopped: Option<oneshot::Receiver<()>>,
    pub(crate) progress_token: Option<Value>,
    /// `None` after the end of the call.
    pub(crate) running: Option<Running>,
    /// The called tool; `None` if it belongs to no source.
    pub(crate) tool: Option<ToolId>,
    /// Messages of the tool; `None` if the tool sends none.
    pub(crate) heard: Option<mpsc::Receiver<Said>>,
    pub(crate) ready: VecDeque<Sent>,
    /// Ids of unanswered questions.
    pub(crate) open: Vec<String>,
}

enum Heard {
    Said(Said),
    Ended(Result<String, RpcError>),
    Stopped,
}

impl Talk {
    /// The next message; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            match self.hear().await? {
                Heard::Said(said) => self.take(said),
                Heard::Ended(ended) => {
                    // Clear first: a finished call must not become a task because of an earlier, still queued message.
                    self.running = None;
                    while let Some(said) =
                        self.heard.as_mut().and_then(|heard| heard.try_recv().ok())
                    {
                        self.take(said);
                    }
                    self.ready.push_back(self.answer(ended));
                }
                Heard::Stopped => {
                    self.running = None;
                    self.ready.push_back(self.answer(Err(RpcError::cancelled())));
                }
            }
        }
    }

    async fn hear(&mut self) -> Option<Heard> {
        let running = self.running.as_mut()?;
        let slot = &mut self.stopped;
        let stopped = async {
            if let Some(stopped) = slot {
                let is_stopped = stopped.await.is_ok();
                *slot = None;
                if is_stopped {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            ended = running => Some(Heard::Ended(ended)),
            Some(said) = said(&mut self.heard) => Some(Heard::Said(said)),
            () = stopped => Some(Heard::Stopped),
        }
    }

    fn answer(&self, ended: Result<String, RpcError>) -> Sent {
        match ended {
            Ok(result) => Sent::result(&self.id, result),
            Err(error) => Sent::error(Some(&self.id), &self.era.told(error)),
        }
    }

    fn take(&mut self, said: Said) {
        match said {
            Said::Progress(progress) => {
                let Some(token) = &self.progress_token else { return };
                let mut params =
                    json!({"progressToken": token, "progress": number(progress.progress)});
                if let Some(total) = progress.total {
                    params["total"] = number(total);
                }
                if let Some(message) = progress.message {
                    params["message"] = Value::from(&*message);
                }
                self.ready.push_back(Sent::notification("notifications/progress", params));
            }
            Said::Log { level, logger, data } => {
                let mut params = json!({"level": level, "data": data});
                if let Some(logger) = logger {
                    params["logger"] = Value::from(&*logger);
                }
                self.ready.push_back(Sent::notification("notifications/message", params));
            }
            Said::Asks { question, reply, .. } => {
                let id = self.mcp.asked.put(&self.principal, reply);
                let sent = Sent::request(&id, question.method(), question.params());
                self.open.push(id);
                self.ready.push_back(sent);
            }
            Said::GoesOn => {
                let Some(running) = self.running.take() else { return };
                let Some(heard) = self.heard.take() else { return };
                let begun = self.mcp.tasks.begin(
                    &self.mcp.work,
                    (&self.principal, self.tool.take()),
                    running,
                    heard,
                );
                let begun = begun.map(|task: Map<String, Value>| self.era.dressed(task, "task"));
                self.ready.push_back(self.answer(begun));
            }
        }
    }
}

/// An integral number as a JSON integer, as MCP servers write it.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.fract() == 0.0 && value.abs() < EXACT {
        true => Value::from(value as i64),
        false => Value::from(value),
    }
}

async fn said(heard: &mut Option<mpsc::Receiver<Said>>) -> Option<Said> {
    match heard {
        Some(heard) => heard.recv().await,
        None => None,
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        for id in &self.open {
            self.mcp.asked.forget(id);
        }
        self.stopped = None;
        if let Some(whose) = &self.stoppable_by {
            self.mcp.stoppable.end(whose, &self.id);
        }
    }
}
