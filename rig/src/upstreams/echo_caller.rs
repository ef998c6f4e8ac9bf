//! An agent that calls an echo tool with unique texts and checks that it gets its own text back.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::bench::endpoints::wire;
use crate::bench::endpoints::wire::BenchConnection;

/// Longer than any text of our agents.
const MAX_OWN_ANSWER: usize = 64 * 1024;

pub(crate) struct EchoCaller {
    address: SocketAddr,
    key: String,
    tool: String,
    name: String,
    connection: Option<BenchConnection>,
    turn: u64,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EchoOutcome {
    OwnText,
    Error,
    /// The text of another caller, or any other text.
    ForeignText,
}

impl EchoCaller {
    /// The name must be unique among the callers.
    pub(crate) fn new(address: SocketAddr, key: &str, tool: &str, name: &str) -> Self {
        let (key, tool, name) = (key.to_owned(), tool.to_owned(), name.to_owned());
        Self { address, key, tool, name, connection: None, turn: 0 }
    }

    pub(crate) async fn call(&mut self) -> EchoOutcome {
        self.turn += 1;
        let text = format!("{} {}", self.name, self.turn);
        match self.send_text(&text).await {
            // Parsing it would take long and delay the other calls.
            Ok(answer) if MAX_OWN_ANSWER < answer.len() => EchoOutcome::ForeignText,
            Ok(answer) => wire::parse_json_body(answer)
                .map_or(EchoOutcome::Error, |it| classify_answer(&it, &text)),
            Err(_) => {
                self.connection = None;
                EchoOutcome::Error
            }
        }
    }

    async fn send_text(&mut self, text: &str) -> anyhow::Result<&[u8]> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(BenchConnection::open(self.address).await?),
        };
        let request = wire::call_request(&self.key, &self.tool, json!({"text": text}));
        connection.send_request(&request).await
    }
}

fn classify_answer(answer: &Value, text: &str) -> EchoOutcome {
    let result = &answer["result"];
    if result.is_null() || result["isError"] == true {
        return EchoOutcome::Error;
    }
    if result["content"][0]["text"] == text {
        EchoOutcome::OwnText
    } else {
        EchoOutcome::ForeignText
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_answer_is_distinguished_from_an_error() {
        let said = |text: &str| json!({"result": {"content": [{"type": "text", "text": text}]}});
        assert_eq!(classify_answer(&said("north 1"), "north 1"), EchoOutcome::OwnText);
        assert_eq!(classify_answer(&said("south 1"), "north 1"), EchoOutcome::ForeignText);
        assert_eq!(classify_answer(&said(""), "north 1"), EchoOutcome::ForeignText);
        assert_eq!(classify_answer(&json!({"error": {"code": 1}}), "north 1"), EchoOutcome::Error);
        let failed = json!({"result": {"isError": true, "content": [{"text": "it ended"}]}});
        assert_eq!(classify_answer(&failed, "north 1"), EchoOutcome::Error);
    }
}
