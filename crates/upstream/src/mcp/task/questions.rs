//! Questions of a task in the modern era: a status answer contains them, and `tasks/update` carries the replies.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{Begun, LOOK};
use crate::mcp::McpError;
use crate::mcp::hearing::Heard;
use crate::mcp::message::{Answer, INTERNAL, RpcError};

/// The questions of one task: concurrently, and in total.
const AT_ONCE: usize = 16;
const EVER: usize = 1_000;

/// The keys of questions that were asked. Each key is used once, so that no question is repeated.
#[derive(Default)]
pub(super) struct Asked(BTreeSet<String>);

impl Begun<'_> {
    /// Asks the caller the new questions. Returns an error if the task cannot continue without a missing reply.
    pub(super) async fn answer(&mut self, asked: &mut Asked) -> Result<Option<RpcError>, McpError> {
        let open = self.task.raw.shift_remove("inputRequests");
        let open = open.as_ref().and_then(Value::as_object).into_iter().flatten();
        let open = open.filter(|(key, _)| !asked.0.contains(*key)).take(AT_ONCE);
        let mut waiting = Vec::new();
        for (key, question) in open {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = question.get("params").and_then(Value::as_object).cloned();
            waiting.push((key.clone(), method.to_owned(), self.asks(method, params).await));
        }
        if waiting.is_empty() {
            return Ok(None);
        }
        let mut answers = Map::new();
        for (key, method, answer) in waiting {
            let nobody = || RpcError::new(INTERNAL, "nobody answered the question");
            let answer = answer.await.unwrap_or_else(|_| Err(nobody()));
            match answer {
                Ok(answer) => answers.insert(key.clone(), Value::Object(answer)),
                // The user may leave a form unanswered.
                Err(_) if method == "elicitation/create" => {
                    answers.insert(key.clone(), json!({"action": "cancel"}))
                }
                Err(error) => return Ok(Some(error)),
            };
            asked.0.insert(key);
        }
        if EVER < asked.0.len() {
            return Ok(Some(RpcError::new(INTERNAL, "the task asks again and again")));
        }
        let params = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
        match self.ask("tasks/update", params, self.part_within(LOOK)).await? {
            Answer::Result(_) => Ok(None),
            Answer::Error(error) => Ok(Some(error)),
        }
    }

    async fn asks(
        &self,
        method: &str,
        params: Option<Map<String, Value>>,
    ) -> oneshot::Receiver<Result<Map<String, Value>, RpcError>> {
        let (reply, answer) = oneshot::channel();
        if let Some(heard) = &self.call.heard {
            let params = params.unwrap_or_default();
            // If the caller does not listen, the send fails and drops the question, which declines it.
            drop(heard.send(Heard::Asks { method: method.into(), params, reply }).await);
        }
        answer
    }
}
