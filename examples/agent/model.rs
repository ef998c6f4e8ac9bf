//! A chat model behind any endpoint that implements `POST /v1/chat/completions`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use upstream::http::header::RETRY_AFTER;
use upstream::http::{HttpError, Method, UpstreamResponse};

use super::pace::RetryTiming;
use super::remote::RemoteServer;

/// Longest part of an error response that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 300;

/// Chat model on a server, with the timing of retries.
pub(crate) struct ChatModel {
    server: RemoteServer,
    name: String,
    pace: RetryTiming,
}

/// Message of the model: text, tool calls, or both.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct ModelMessage {
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_calls: Option<Vec<ToolCallRequest>>,
}

/// Tool call requested by the model.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct ToolCallRequest {
    pub(crate) id: String,
    #[serde(default = "function")]
    r#type: String,
    pub(crate) function: FunctionCall,
}

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct FunctionCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: String,
}

fn function() -> String {
    "function".to_owned()
}

#[derive(Deserialize)]
struct ChatCompletion {
    choices: Vec<CompletionChoice>,
}

#[derive(Deserialize)]
struct CompletionChoice {
    message: ModelMessage,
}

/// Error of a request to the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ModelError {
    #[error("the model was asked {tries} times")]
    Unreachable { tries: u32, source: HttpError },
    #[error("the model answered with status {status}, asked {tries} times: {said}")]
    Status { status: u16, tries: u32, said: String },
    #[error("the model answered with something that is no completion: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the model answered with no choice at all")]
    Empty,
}

impl ChatModel {
    pub(crate) fn new(server: RemoteServer, name: &str, pace: RetryTiming) -> Self {
        Self { server, name: name.to_owned(), pace }
    }

    /// Sends the conversation and returns the model's message. Temporary failures are retried: repeating it is safe.
    pub(crate) async fn request_answer(
        &self,
        messages: &[Value],
        functions: &[Value],
    ) -> Result<ModelMessage, ModelError> {
        let mut body = json!({"model": self.name, "messages": messages});
        if !functions.is_empty() {
            body["tools"] = functions.into();
        }
        let url = self.server.url_below("/chat/completions");
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.server.send_json(Method::POST, url.clone(), Some(&body)).await;
            let is_last = self.pace.max_attempts <= tries;
            let wished = match answer {
                Ok(answer) if answer.status == 200 => return parse_completion(&answer),
                Ok(answer) if is_last || !is_temporary(answer.status) => {
                    let said = String::from_utf8_lossy(&answer.body);
                    let said = said.chars().take(MAX_SHOWN_CHARS).collect();
                    return Err(ModelError::Status { status: answer.status, tries, said });
                }
                Ok(answer) => retry_after(&answer),
                Err(source) if is_last => return Err(ModelError::Unreachable { tries, source }),
                Err(_) => None,
            };
            let rest = self.pace.retry_delay(tries);
            let rest =
                wished.map_or(rest, |wished| wished.clamp(rest, self.pace.longest_delay.max(rest)));
            tracing::info!(tries, "the model did not answer; it is asked again in {rest:?}");
            tokio::time::sleep(rest).await;
        }
    }
}

/// Whether the same request may succeed later.
fn is_temporary(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..)
}

/// Delay requested by the server in `Retry-After`.
fn retry_after(answer: &UpstreamResponse) -> Option<Duration> {
    answer.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn parse_completion(answer: &UpstreamResponse) -> Result<ModelMessage, ModelError> {
    let completion: ChatCompletion = serde_json::from_slice(&answer.body)?;
    completion.choices.into_iter().next().map(|choice| choice.message).ok_or(ModelError::Empty)
}
