//! What a task asks in the modern era: it stands there when the task is looked at, and is answered with `tasks/update`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{Begun, LOOK};
use crate::mcp::McpError;
use crate::mcp::hearing::Heard;
use crate::mcp::message::{Answer, INTERNAL, RpcError};

/// Questions of one task: at a time, and ever.
const AT_ONCE: usize = 16;
const EVER: usize = 1_000;

/// What was asked already: a key is not used twice, and nobody is asked twice.
#[derive(Default)]
pub(super) struct Asked(BTreeSet<String>);

impl Begun<'_> {
    /// Asks the caller what is new. An error if the task cannot go on without an answer that there is not.
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
                // A form can be left alone.
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
            // Whoever does not listen drops it, which refuses it.
            drop(heard.send(Heard::Asks { method: method.into(), params, reply }).await);
        }
        answer
    }
}
