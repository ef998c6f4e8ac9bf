//! Messages of JSON-RPC: read once, into values that are handed on as they are; written once.
//!
//! No member may stand there twice, as two readers could take different ones. What is no message is not guessed at.

use model::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A message that came.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// To something we asked. Its number is ours if it is one.
    Answer { id: Value, answer: Answer },
    /// Something we are asked.
    Request { id: Value, method: String, params: Map<String, Value> },
    /// Something we are told.
    Notification { method: String, params: Map<String, Value> },
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The result, as it came.
    Result(Map<String, Value>),
    /// The error, as it came.
    Error(RpcError),
}

/// An error of JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// Its number.
    pub code: i64,
    /// All of it: `code`, `message`, `data` and what else there is.
    pub raw: Map<String, Value>,
}

/// Why bytes are no message. It may still be clear to whom they were meant to answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoMessage {
    pub(crate) answers: Option<u64>,
}

/// Method not found.
pub(crate) const NO_METHOD: i64 = -32601;
/// Something went wrong inside.
pub(crate) const INTERNAL: i64 = -32603;

impl RpcError {
    /// One of our own.
    pub fn new(code: i64, message: &str) -> Self {
        let mut raw = Map::new();
        raw.insert("code".to_owned(), json!(code));
        raw.insert("message".to_owned(), json!(message));
        Self { code, raw }
    }

    /// What it says for people. It comes from outside.
    pub fn message(&self) -> &str {
        self.raw.get("message").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Reads a message of at most `max_parts` values, each of which takes many times its text.
pub(crate) fn read(bytes: &[u8], max_parts: usize) -> Result<Incoming, NoMessage> {
    let few = bytes.len() <= max_parts || strict_json::parts(bytes) <= max_parts;
    let message = if few { strict_json::object(bytes).ok() } else { None };
    message.and_then(sort).ok_or_else(|| NoMessage { answers: whom_it_answers(bytes) })
}

fn sort(mut message: Map<String, Value>) -> Option<Incoming> {
    if message.get("jsonrpc")? != "2.0" {
        return None;
    }
    let id = message.swap_remove("id");
    if let Some(method) = message.swap_remove("method") {
        let Value::String(method) = method else { return None };
        let params = match message.swap_remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return None,
        };
        return Some(match id {
            None => Incoming::Notification { method, params },
            Some(id @ (Value::Number(_) | Value::String(_))) => {
                Incoming::Request { id, method, params }
            }
            Some(_) => return None,
        });
    }
    let answer = match (message.swap_remove("result"), message.swap_remove("error")) {
        (Some(Value::Object(result)), None) => Answer::Result(result),
        (None, Some(Value::Object(raw))) => {
            let answer = Answer::Error(RpcError { code: raw.get("code")?.as_i64()?, raw });
            // To what could not be read, so that even its number is not known.
            return Some(Incoming::Answer { id: id.unwrap_or(Value::Null), answer });
        }
        _ => return None,
    };
    Some(Incoming::Answer { id: id?, answer })
}

/// The number in an answer that is unreadable otherwise, so that its call need not wait for the deadline.
fn whom_it_answers(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Only {
        id: u64,
        method: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Only>(bytes).ok().filter(|it| it.method.is_none()).map(|it| it.id)
}

#[derive(Serialize)]
struct Outgoing<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a Map<String, Value>,
}

/// A request, on one line without its end.
pub(crate) fn request(id: u64, method: &str, params: &Map<String, Value>) -> Vec<u8> {
    written(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params })
}

/// A notification, on one line without its end.
pub(crate) fn notification(method: &str, params: &Map<String, Value>) -> Vec<u8> {
    written(&Outgoing { jsonrpc: "2.0", id: None, method, params })
}

/// Our answer to a question.
pub(crate) fn reply(id: &Value, answer: &Result<Map<String, Value>, RpcError>) -> Vec<u8> {
    match answer {
        Ok(result) => written(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(error) => written(&json!({"jsonrpc": "2.0", "id": id, "error": error.raw})),
    }
}

fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("values of JSON can be written")
}
