//! A conversation: the user asks a question, the model requests tool calls, and their results go back to the model
//! until it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::model::{ChatModel, ModelError, ModelMessage, ToolCallRequest};
use super::toolbox::Toolbox;
use super::tools::ToolList;

/// Most rounds of tool calls before the model must answer.
const ROUNDS: u32 = 10;
/// Most tool calls that are carried out in one round.
const AT_ONCE: usize = 16;
/// Most questions that are remembered, each with all messages that led to its answer.
const REMEMBERED: usize = 20;

/// Conversation with a model that can call tools.
pub(crate) struct AgentConversation {
    model: ChatModel,
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

impl AgentConversation {
    pub(crate) fn new(model: ChatModel, toolbox: Arc<Toolbox>) -> Self {
        Self { model, toolbox, turns: VecDeque::new() }
    }

    /// Asks a question. If it fails, its messages are dropped, so that they do not affect the next question.
    pub(crate) async fn ask_question(&mut self, question: &str) -> Result<String, AskError> {
        let mut turn = vec![json!({"role": "user", "content": question})];
        for _ in 0..ROUNDS {
            // Use the latest tools in every round.
            let tools = self.toolbox.current_tools();
            let messages: Vec<Value> = self.turns.iter().flatten().chain(&turn).cloned().collect();
            let said = self.model.request_answer(&messages, &tools.functions).await?;
            turn.push(assistant_message(&said));
            let Some(wanted) = said.tool_calls.filter(|wanted| !wanted.is_empty()) else {
                self.remember_turn(turn);
                return Ok(said.content.unwrap_or_default());
            };
            turn.extend(self.call_tools(&tools, &wanted).await);
        }
        Err(AskError::Endless)
    }

    /// Carries out all calls concurrently. Every call gets a result, because models reject a conversation without one.
    async fn call_tools(&self, tools: &ToolList, wanted: &[ToolCallRequest]) -> Vec<Value> {
        let results = wanted.iter().enumerate().map(async |(number, wanted)| {
            let function = &wanted.function;
            let told = match number < AT_ONCE {
                true => {
                    self.toolbox.call_function(tools, &function.name, &function.arguments).await
                }
                false => format!("Error: only {AT_ONCE} calls are carried out at once"),
            };
            json!({"role": "tool", "tool_call_id": wanted.id, "content": told})
        });
        join_all(results).await
    }

    fn remember_turn(&mut self, turn: Vec<Value>) {
        if self.turns.len() == REMEMBERED {
            self.turns.pop_front();
        }
        self.turns.push_back(turn);
    }
}

fn assistant_message(said: &ModelMessage) -> Value {
    let mut message = serde_json::to_value(said).unwrap_or_default();
    message["role"] = "assistant".into();
    message
}
