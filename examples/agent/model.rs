//! A chat model behind any endpoint that implements `POST /v1/chat/completions`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib::upstream::http::header::RETRY_AFTER;
use toolcrib::upstream::http::{Answer, HttpError, Method};

use super::pace::Pace;
use super::remote::Remote;

/// Longest part of an error response that is shown, in characters.
const REPEATED: usize = 300;

/// Chat model on a server, with the timing of retries.
pub(crate) struct Model {
    server: Remote,
    name: String,
    pace: Pace,
}

/// Message of the model: text, tool calls, or both.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Said {
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool_calls: Option<Vec<Wanted>>,
}

/// Tool call requested by the model.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Wanted {
    pub(crate) id: String,
    #[serde(default = "function")]
    r#type: String,
    pub(crate) function: Function,
}

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: String,
}

fn function() -> String {
    "function".to_owned()
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Said,
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

impl Model {
    pub(crate) fn new(server: Remote, name: &str, pace: Pace) -> Self {
        Self { server, name: name.to_owned(), pace }
    }

    /// Sends the conversation and returns the model's message. Temporary failures are retried: repeating it is safe.
    pub(crate) async fn answer(
        &self,
        messages: &[Value],
        functions: &[Value],
    ) -> Result<Said, ModelError> {
        let mut body = json!({"model": self.name, "messages": messages});
        if !functions.is_empty() {
            body["tools"] = functions.into();
        }
        let url = self.server.at("/chat/completions");
        let mut tries = 0;
        loop {
            tries += 1;
            let answer = self.server.send(Method::POST, url.clone(), Some(&body)).await;
            let is_last = self.pace.tries <= tries;
            let wished = match answer {
                Ok(answer) if answer.status == 200 => return read(&answer),
                Ok(answer) if is_last || !may_help(answer.status) => {
                    let said = String::from_utf8_lossy(&answer.body);
                    let said = said.chars().take(REPEATED).collect();
                    return Err(ModelError::Status { status: answer.status, tries, said });
                }
                Ok(answer) => wished(&answer),
                Err(source) if is_last => return Err(ModelError::Unreachable { tries, source }),
                Err(_) => None,
            };
            let rest = self.pace.rest(tries);
            let rest =
                wished.map_or(rest, |wished| wished.clamp(rest, self.pace.longest.max(rest)));
            tracing::info!(tries, "the model did not answer; it is asked again in {rest:?}");
            tokio::time::sleep(rest).await;
        }
    }
}

/// Whether the same request may succeed later.
fn may_help(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..)
}

/// Delay requested by the server in `Retry-After`.
fn wished(answer: &Answer) -> Option<Duration> {
    answer.headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

fn read(answer: &Answer) -> Result<Said, ModelError> {
    let completion: Completion = serde_json::from_slice(&answer.body)?;
    completion.choices.into_iter().next().map(|choice| choice.message).ok_or(ModelError::Empty)
}
