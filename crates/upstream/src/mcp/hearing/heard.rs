//! What a call hears on the way, and what is counted.

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::mcp::message::RpcError;

/// What a call hears on the way.
#[derive(Debug)]
pub enum Heard {
    /// How far it is: the parameters of `notifications/progress` without the token, which was ours.
    Progress(Map<String, Value>),
    /// A log line: the parameters of `notifications/message`.
    Log(Map<String, Value>),
    /// It became a task of the server, which goes on and is waited for.
    GoesOn,
    /// Something else the server tells.
    Told {
        /// Which notification.
        method: Box<str>,
        /// As they came.
        params: Map<String, Value>,
    },
    /// A question. Dropping `reply` refuses it.
    Asks {
        /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
        method: Box<str>,
        /// As they came.
        params: Map<String, Value>,
        /// Takes the answer.
        reply: oneshot::Sender<Reply>,
    },
}

/// The answer to a question: a result, or why there is none.
pub type Reply = Result<Map<String, Value>, RpcError>;

/// How much was heard that is of no use. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers to nothing we asked, or to what is over.
    pub unknown_answers: u64,
    /// Lines and events that are no messages.
    pub garbage: u64,
    /// What was said to a call that did not listen fast enough, or was too long to be kept for it.
    pub unheard: u64,
    /// Questions that were refused, as it was not clear whose they were.
    pub refused: u64,
}
