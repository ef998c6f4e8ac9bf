//! An agent that calls an echo tool with unique texts and checks that it gets its own text back.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::bench::doors::wire::{self, Connection};

/// Longer than any text of our agents.
const LONG: usize = 64 * 1024;

pub(crate) struct Caller {
    address: SocketAddr,
    key: String,
    tool: String,
    name: String,
    connection: Option<Connection>,
    turn: u64,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Own,
    Error,
    /// The text of another caller, or any other text.
    Mixed,
}

impl Caller {
    /// The name must be unique among the callers.
    pub(crate) fn new(address: SocketAddr, key: &str, tool: &str, name: &str) -> Self {
        let (key, tool, name) = (key.to_owned(), tool.to_owned(), name.to_owned());
        Self { address, key, tool, name, connection: None, turn: 0 }
    }

    pub(crate) async fn call(&mut self) -> Came {
        self.turn += 1;
        let text = format!("{} {}", self.name, self.turn);
        match self.ask(&text).await {
            // Parsing it would take long and delay the other calls.
            Ok(answer) if LONG < answer.len() => Came::Mixed,
            Ok(answer) => wire::json_of(answer).map_or(Came::Error, |it| came(&it, &text)),
            Err(_) => {
                self.connection = None;
                Came::Error
            }
        }
    }

    async fn ask(&mut self, text: &str) -> anyhow::Result<&[u8]> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            empty => empty.insert(Connection::open(self.address).await?),
        };
        let request = wire::call(&self.key, &self.tool, json!({"text": text}));
        connection.ask(&request).await
    }
}

fn came(answer: &Value, text: &str) -> Came {
    let result = &answer["result"];
    if result.is_null() || result["isError"] == true {
        return Came::Error;
    }
    if result["content"][0]["text"] == text { Came::Own } else { Came::Mixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_answer_is_distinguished_from_an_error() {
        let said = |text: &str| json!({"result": {"content": [{"type": "text", "text": text}]}});
        assert_eq!(came(&said("north 1"), "north 1"), Came::Own);
        assert_eq!(came(&said("south 1"), "north 1"), Came::Mixed);
        assert_eq!(came(&said(""), "north 1"), Came::Mixed);
        assert_eq!(came(&json!({"error": {"code": 1}}), "north 1"), Came::Error);
        let failed = json!({"result": {"isError": true, "content": [{"text": "it ended"}]}});
        assert_eq!(came(&failed, "north 1"), Came::Error);
    }
}
