//! A conversation: the user asks a question, the model requests tool calls, and their results go back to the model
//! until it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::model::{Model, ModelError, Said, Wanted};
use super::toolbox::Toolbox;
use super::tools::Tools;

/// Most rounds of tool calls before the model must answer.
const ROUNDS: u32 = 10;
/// Most tool calls that are carried out in one round.
const AT_ONCE: usize = 16;
/// Most questions that are remembered, each with all messages that led to its answer.
const REMEMBERED: usize = 20;

/// Conversation with a model that can call tools.
pub(crate) struct Conversation {
    model: Model,
    toolbox: Arc<Toolbox>,
    /// Messages of each answered question, oldest first.
    turns: VecDeque<Vec<Value>>,
}

/// Error that leaves a question without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("the model wanted calls {ROUNDS} times and did not answer")]
    Endless,
}

impl Conversation {
    pub(crate) fn new(model: Model, toolbox: Arc<Toolbox>) -> Self {
        Self { model, toolbox, turns: VecDeque::new() }
    }

    /// Asks a question. If it fails, its messages are dropped, so that they do not affect the next question.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, AskError> {
        let mut turn = vec![json!({"role": "user", "content": question})];
        for _ in 0..ROUNDS {
            // Use the latest tools in every round.
            let tools = self.toolbox.tools();
            let messages: Vec<Value> = self.turns.iter().flatten().chain(&turn).cloned().collect();
            let said = self.model.answer(&messages, &tools.functions).await?;
            turn.push(message(&said));
            let Some(wanted) = said.tool_calls.filter(|wanted| !wanted.is_empty()) else {
                self.remember(turn);
                return Ok(said.content.unwrap_or_default());
            };
            turn.extend(self.carry_out(&tools, &wanted).await);
        }
        Err(AskError::Endless)
    }

    /// Carries out all calls concurrently. Every call gets a result, because models reject a conversation without one.
    async fn carry_out(&self, tools: &Tools, wanted: &[Wanted]) -> Vec<Value> {
        let results = wanted.iter().enumerate().map(async |(number, wanted)| {
            let function = &wanted.function;
            let told = match number < AT_ONCE {
                true => self.toolbox.call(tools, &function.name, &function.arguments).await,
                false => format!("Error: only {AT_ONCE} calls are carried out at once"),
            };
            json!({"role": "tool", "tool_call_id": wanted.id, "content": told})
        });
        join_all(results).await
    }

    fn remember(&mut self, turn: Vec<Value>) {
        if self.turns.len() == REMEMBERED {
            self.turns.pop_front();
        }
        self.turns.push_back(turn);
    }
}

fn message(said: &Said) -> Value {
    let mut message = serde_json::to_value(said).unwrap_or_default();
    message["role"] = "assistant".into();
    message
}
