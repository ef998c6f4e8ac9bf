//! Notifications and questions that a call receives, and counters of unusable messages.

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::json_rpc::RpcError;

/// A notification or question that arrives during a call.
#[derive(Debug)]
pub enum CallNotification {
    /// The parameters of `notifications/progress` without the progress token, which this client had chosen.
    Progress(Map<String, Value>),
    /// The parameters of `notifications/message`.
    Log(Map<String, Value>),
    /// The call became a task of the server, which continues and is polled.
    BecameTask,
    Other {
        method: Box<str>,
        params: Map<String, Value>,
    },
    /// A question. Dropping `reply` declines it.
    Question {
        /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
        method: Box<str>,
        params: Map<String, Value>,
        reply: oneshot::Sender<QuestionReply>,
    },
}

/// The reply to a question: a result or an error.
pub type QuestionReply = Result<Map<String, Value>, RpcError>;

/// Counts of received messages that could not be used. The numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchCounts {
    /// Answers to requests that are unknown or already over.
    pub unknown_answers: u64,
    /// Lines and events that are not messages.
    pub garbage: u64,
    /// Notifications that a caller received too slowly, or that were too long.
    pub dropped_notifications: u64,
    /// Questions refused because the call they belong to was unclear.
    pub refused_questions: u64,
}
