//! A running call: the messages that the tool sends on the way, then the answer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use model::ToolId;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use toolcrib::CallUpdate;

use super::McpEndpoint;
use super::error_response::RpcErrorResponse;
use super::incoming_message::JsonRpcId;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::ProtocolEra;

/// The future of a call: its result as JSON, or an error.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = Result<String, RpcErrorResponse>> + Send>>;

/// A running call. Dropping it aborts the call.
pub(crate) struct RunningCall {
    pub(crate) mcp: Arc<McpEndpoint>,
    pub(crate) era: ProtocolEra,
    pub(crate) id: JsonRpcId,
    /// The principal that may answer the call's questions.
    pub(crate) principal: Arc<str>,
    /// Namespace of the request id; `None` if the client can cancel only by disconnecting.
    pub(crate) stoppable_by: Option<Box<str>>,
    pub(crate) stopped: Option<oneshot::Receiver<()>>,
    pub(crate) progress_token: Option<Value>,
    /// `None` after the end of the call.
    pub(crate) running: Option<CallFuture>,
    /// The called tool; `None` if it belongs to no source.
    pub(crate) tool: Option<ToolId>,
    /// Messages of the tool; `None` if the tool sends none.
    pub(crate) messages: Option<mpsc::Receiver<CallUpdate>>,
    pub(crate) ready: VecDeque<OutgoingMessage>,
    /// Ids of unanswered questions.
    pub(crate) open: Vec<String>,
}

enum RunningCallEvent {
    Said(CallUpdate),
    Ended(Result<String, RpcErrorResponse>),
    Stopped,
}

impl RunningCall {
    /// The next message; `None` after the last.
    pub(crate) async fn next_message(&mut self) -> Option<OutgoingMessage> {
        loop {
            if let Some(sent) = self.ready.pop_front() {
                return Some(sent);
            }
            match self.next_event().await? {
                RunningCallEvent::Said(said) => self.handle_message(said),
                RunningCallEvent::Ended(ended) => {
                    // Clear first: a finished call must not become a task because of an earlier, still queued message.
                    self.running = None;
                    while let Some(said) =
                        self.messages.as_mut().and_then(|heard| heard.try_recv().ok())
                    {
                        self.handle_message(said);
                    }
                    self.ready.push_back(self.build_answer(ended));
                }
                RunningCallEvent::Stopped => {
                    self.running = None;
                    self.ready
                        .push_back(self.build_answer(Err(RpcErrorResponse::request_cancelled())));
                }
            }
        }
    }

    async fn next_event(&mut self) -> Option<RunningCallEvent> {
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
            ended = running => Some(RunningCallEvent::Ended(ended)),
            Some(said) = receive_message(&mut self.messages) => Some(RunningCallEvent::Said(said)),
            () = stopped => Some(RunningCallEvent::Stopped),
        }
    }

    fn build_answer(&self, ended: Result<String, RpcErrorResponse>) -> OutgoingMessage {
        match ended {
            Ok(result) => OutgoingMessage::result_response(&self.id, result),
            Err(error) => {
                OutgoingMessage::error_response(Some(&self.id), &self.era.adapt_error(error))
            }
        }
    }

    fn handle_message(&mut self, said: CallUpdate) {
        match said {
            CallUpdate::Progress(progress) => {
                let Some(token) = &self.progress_token else { return };
                let mut params =
                    json!({"progressToken": token, "progress": number_to_json(progress.progress)});
                if let Some(total) = progress.total {
                    params["total"] = number_to_json(total);
                }
                if let Some(message) = progress.message {
                    params["message"] = Value::from(&*message);
                }
                self.ready
                    .push_back(OutgoingMessage::notification("notifications/progress", params));
            }
            CallUpdate::Log { level, logger, data } => {
                let mut params = json!({"level": level, "data": data});
                if let Some(logger) = logger {
                    params["logger"] = Value::from(&*logger);
                }
                self.ready
                    .push_back(OutgoingMessage::notification("notifications/message", params));
            }
            CallUpdate::InputRequired { question, reply, .. } => {
                let id = self.mcp.questions.register_question(&self.principal, reply);
                let sent = OutgoingMessage::request(&id, question.method(), question.params());
                self.open.push(id);
                self.ready.push_back(sent);
            }
            CallUpdate::Detached => {
                let Some(running) = self.running.take() else { return };
                let Some(heard) = self.messages.take() else { return };
                let begun = self.mcp.tasks.start_task(
                    &self.mcp.background_work,
                    (&self.principal, self.tool.take()),
                    running,
                    heard,
                );
                let begun =
                    begun.map(|task: Map<String, Value>| self.era.typed_result(task, "task"));
                self.ready.push_back(self.build_answer(begun));
            }
        }
    }
}

/// An integral number as a JSON integer, as MCP servers write it.
fn number_to_json(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.fract() == 0.0 && value.abs() < EXACT {
        true => Value::from(value as i64),
        false => Value::from(value),
    }
}

async fn receive_message(heard: &mut Option<mpsc::Receiver<CallUpdate>>) -> Option<CallUpdate> {
    match heard {
        Some(heard) => heard.recv().await,
        None => None,
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        for id in &self.open {
            self.mcp.questions.remove_question(id);
        }
        self.stopped = None;
        if let Some(whose) = &self.stoppable_by {
            self.mcp.cancellable_calls.remove_call(whose, &self.id);
        }
    }
}
