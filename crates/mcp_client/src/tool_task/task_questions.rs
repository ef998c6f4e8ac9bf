//! Questions of a task in the modern era: a status answer contains them, and `tasks/update` carries the replies.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::{POLL_DEADLINE, ServerTask};
use crate::McpError;
use crate::dispatch::CallNotification;
use crate::json_rpc::{INTERNAL_ERROR, McpAnswer, RpcError};

/// The questions of one task: concurrently, and in total.
const MAX_CONCURRENT_QUESTIONS: usize = 16;
const MAX_QUESTIONS_PER_TASK: usize = 1_000;

/// The keys of questions that were asked. Each key is used once, so that no question is repeated.
#[derive(Default)]
pub(super) struct AskedQuestions(BTreeSet<String>);

impl ServerTask<'_> {
    /// Asks the caller the new questions. Returns an error if the task cannot continue without a missing reply.
    pub(super) async fn answer_questions(
        &mut self,
        asked: &mut AskedQuestions,
    ) -> Result<Option<RpcError>, McpError> {
        let open = self.snapshot.raw.shift_remove("inputRequests");
        let open = open.as_ref().and_then(Value::as_object).into_iter().flatten();
        let open = open.filter(|(key, _)| !asked.0.contains(*key)).take(MAX_CONCURRENT_QUESTIONS);
        let mut waiting = Vec::new();
        for (key, question) in open {
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let params = question.get("params").and_then(Value::as_object).cloned();
            waiting.push((key.clone(), method.to_owned(), self.ask_caller(method, params).await));
        }
        if waiting.is_empty() {
            return Ok(None);
        }
        let mut answers = Map::new();
        for (key, method, answer) in waiting {
            let nobody = || RpcError::new(INTERNAL_ERROR, "nobody answered the question");
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
        if MAX_QUESTIONS_PER_TASK < asked.0.len() {
            return Ok(Some(RpcError::new(INTERNAL_ERROR, "the task asks again and again")));
        }
        let params = Map::from_iter([("inputResponses".to_owned(), Value::Object(answers))]);
        match self
            .send_task_request("tasks/update", params, self.follow_up_options(POLL_DEADLINE))
            .await?
        {
            McpAnswer::Result(_) => Ok(None),
            McpAnswer::Error(error) => Ok(Some(error)),
        }
    }

    async fn ask_caller(
        &self,
        method: &str,
        params: Option<Map<String, Value>>,
    ) -> oneshot::Receiver<Result<Map<String, Value>, RpcError>> {
        let (reply, answer) = oneshot::channel();
        if let Some(heard) = &self.call.notifications {
            let params = params.unwrap_or_default();
            // If the caller does not listen, the send fails and drops the question, which declines it.
            drop(
                heard
                    .send(CallNotification::Question { method: method.into(), params, reply })
                    .await,
            );
        }
        answer
    }
}
