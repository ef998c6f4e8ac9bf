//! A conversation: the user asks, the model wants calls, and gets their results until it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::model::{Model, ModelError, Said, Wanted};
use super::toolbox::Toolbox;
use super::tools::Tools;

/// How often a model may want calls before it must have answered.
const ROUNDS: u32 = 10;
/// How many calls a model may want at once.
const AT_ONCE: usize = 16;
/// How many questions are remembered, each with all that led to its answer.
const REMEMBERED: usize = 20;

/// A conversation with a model that has tools.
pub(crate) struct Conversation {
    model: Model,
    toolbox: Arc<Toolbox>,
    /// The messages of each question that was answered.
    turns: VecDeque<Vec<Value>>,
}

/// Why a question has no answer.
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

    /// A question that is not answered is forgotten, so that the next one begins as if it had not been.
    pub(crate) async fn ask(&mut self, question: &str) -> Result<String, AskError> {
        let mut turn = vec![json!({"role": "user", "content": question})];
        for _ in 0..ROUNDS {
            // Each round has the tools of its moment.
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

    /// All calls at once. Each gets an answer, or the model would be refused.
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
