//! JSON-RPC messages: parsed once into values that are passed on unchanged, and written once.
//!
//! Duplicate members are rejected, because two parsers could read different ones. Invalid messages are not repaired.

use json::strict_json;
use serde::Serialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use upstream::chunked::{MessageBounds, MessageText, MessageTooLarge};

use super::mcp_error::McpError;
use super::sse_parser::SseEvent;

/// A received message.
#[derive(Debug, PartialEq)]
pub(crate) enum ServerMessage {
    /// An answer to one of our requests, if the id is ours.
    Answer { id: Value, answer: McpAnswer },
    /// A request of the server.
    Request { id: Value, method: String, params: Map<String, Value> },
    /// A notification of the server.
    Notification { method: String, params: Map<String, Value> },
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum McpAnswer {
    /// The result as received.
    Result(Map<String, Value>),
    /// The error as received.
    Error(RpcError),
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// The complete error object: `code`, `message`, `data` and other members.
    pub raw: Map<String, Value>,
}

/// An invalid message. The call that it was meant to answer may still be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenMessage {
    pub(crate) target: AnswerTarget,
    /// The exceeded limit, if the message was not parsed for that reason.
    pub(crate) exceeded: Option<MessageTooLarge>,
}

impl BrokenMessage {
    /// A message that exceeds a limit; `begin` is its beginning.
    pub(crate) fn too_large(too_much: MessageTooLarge, begin: &[u8]) -> Self {
        Self { target: find_answer_target(begin), exceeded: Some(too_much) }
    }

    /// Also searches the end of the message for its id, because some servers write the id last.
    pub(crate) fn with_tail(self, end: &[u8]) -> Self {
        let found = find_trailing_id(end).filter(|_| self.target == AnswerTarget::Unknown);
        Self { target: found.map_or(self.target, AnswerTarget::Call), ..self }
    }

    /// The same message on a stream where it cannot answer any call.
    pub(crate) fn without_target(self) -> Self {
        Self { target: AnswerTarget::NotAnAnswer, ..self }
    }

    /// The error for the call that waits for this message. The caller adds the method.
    pub(crate) fn to_error(self) -> McpError {
        match self.exceeded {
            Some(too_much) => McpError::too_much("", too_much),
            None => McpError::unreadable("", "it is no message that can be read"),
        }
    }
}

/// The JSON-RPC code for an unknown method.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The JSON-RPC code for an internal error.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

impl RpcError {
    /// An error created by this client.
    pub fn new(code: i64, message: &str) -> Self {
        let mut raw = Map::new();
        raw.insert("code".to_owned(), json!(code));
        raw.insert("message".to_owned(), json!(message));
        Self { code, raw }
    }

    /// The `message` member. The text is untrusted.
    pub fn message(&self) -> &str {
        self.raw.get("message").and_then(Value::as_str).unwrap_or_default()
    }
}

/// Parses a message, on the low-priority pool if it is long.
pub(crate) async fn parse_message(
    text: MessageText<'_>,
    bounds: MessageBounds,
) -> Result<ServerMessage, BrokenMessage> {
    if let Err(too_much) = text.check_values(bounds) {
        return Err(BrokenMessage::too_large(too_much, text.leading_bytes())
            .with_tail(text.trailing_bytes().bytes()));
    }
    text.parse_with(parse_inline).await
}

/// Parses the message of an event.
pub(crate) async fn parse_event(
    event: SseEvent,
    bounds: MessageBounds,
) -> Result<ServerMessage, BrokenMessage> {
    parse_message(event.data?.into(), bounds).await
}

pub(super) fn parse_inline(bytes: &[u8]) -> Result<ServerMessage, BrokenMessage> {
    let message = strict_json::parse_object(bytes).ok().and_then(classify_message);
    message.ok_or_else(|| BrokenMessage { target: find_answer_target(bytes), exceeded: None })
}

fn classify_message(mut message: Map<String, Value>) -> Option<ServerMessage> {
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
            None => ServerMessage::Notification { method, params },
            Some(id @ (Value::Number(_) | Value::String(_))) => {
                ServerMessage::Request { id, method, params }
            }
            Some(_) => return None,
        });
    }
    let answer = match (message.swap_remove("result"), message.swap_remove("error")) {
        (Some(Value::Object(result)), None) => McpAnswer::Result(result),
        (None, Some(Value::Object(raw))) => {
            let answer = McpAnswer::Error(RpcError { code: raw.get("code")?.as_i64()?, raw });
            // The server could not parse the request, so it may not know its id.
            return Some(ServerMessage::Answer { id: id.unwrap_or(Value::Null), answer });
        }
        _ => return None,
    };
    Some(ServerMessage::Answer { id: id?, answer })
}

/// The call that an invalid or incomplete message was meant to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerTarget {
    Call(u64),
    /// The message is a request or a notification.
    NotAnAnswer,
    /// The parsed part contains no id.
    Unknown,
}

impl AnswerTarget {
    pub(crate) fn call_id(self) -> Option<u64> {
        match self {
            Self::Call(id) => Some(id),
            Self::NotAnAnswer | Self::Unknown => None,
        }
    }
}

/// Finds the id in an answer that is unreadable otherwise, so that its call fails before its deadline.
pub(crate) fn find_answer_target(bytes: &[u8]) -> AnswerTarget {
    let mut found = AnswerTarget::Unknown;
    let looks = AnswerTargetVisitor(&mut found);
    // Parsing is expected to fail; only the findings up to that point matter.
    drop(serde_json::Deserializer::from_slice(bytes).deserialize_map(looks));
    found
}

fn find_trailing_id(end: &[u8]) -> Option<u64> {
    const ID: &[u8] = b"\"id\":";
    let end = end.trim_ascii_end().strip_suffix(b"}")?;
    let at = memchr::memmem::rfind(end, ID)?;
    let (before, number) = (end.get(..at)?, end.get(at + ID.len()..)?);
    let number = std::str::from_utf8(number).ok().filter(|_| !before.ends_with(b"\\"));
    number?.trim().parse().ok()
}

struct AnswerTargetVisitor<'a>(&'a mut AnswerTarget);

impl<'de> Visitor<'de> for AnswerTargetVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "method" | "params" => {
                    *self.0 = AnswerTarget::NotAnAnswer;
                    return Ok(());
                }
                // The target is known, and the rest may be long.
                "result" | "error" if self.0.call_id().is_some() => return Ok(()),
                "id" => *self.0 = AnswerTarget::Call(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ClientMessage<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a Map<String, Value>,
}

/// A request on one line, without a line feed.
pub(crate) fn encode_request(id: u64, method: &str, params: &Map<String, Value>) -> Vec<u8> {
    to_json(&ClientMessage { jsonrpc: "2.0", id: Some(id), method, params })
}

/// A notification on one line, without a line feed.
pub(crate) fn encode_notification(method: &str, params: &Map<String, Value>) -> Vec<u8> {
    to_json(&ClientMessage { jsonrpc: "2.0", id: None, method, params })
}

/// The reply to a request of the server.
pub(crate) fn encode_reply(id: &Value, answer: &Result<Map<String, Value>, RpcError>) -> Vec<u8> {
    match answer {
        Ok(result) => to_json(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
        Err(error) => to_json(&json!({"jsonrpc": "2.0", "id": id, "error": error.raw})),
    }
}

fn to_json(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("values of JSON can be written")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn kind(text: &str) -> String {
        let bounds = MessageBounds { bytes: 1000, values: 100 };
        let read = parse_message(MessageText::Short(text.as_bytes()), bounds);
        match read.now_or_never().expect("it is read here") {
            Ok(ServerMessage::Answer { id, answer: McpAnswer::Result(_) }) => {
                format!("result {id}")
            }
            Ok(ServerMessage::Answer { id, answer: McpAnswer::Error(_) }) => format!("error {id}"),
            Ok(ServerMessage::Request { id, method, .. }) => format!("request {id} {method}"),
            Ok(ServerMessage::Notification { method, .. }) => format!("notification {method}"),
            Err(BrokenMessage { target: answers, exceeded: None }) => {
                format!("none {:?}", answers.call_id())
            }
            Err(BrokenMessage { target: answers, .. }) => {
                format!("too much {:?}", answers.call_id())
            }
        }
    }

    #[test]
    fn messages_are_classified() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "result 1"),
            (r#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "result \"1\""),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#, "error 1"),
            (r#"{"jsonrpc":"2.0","error":{"code":-1,"message":""}}"#, "error null"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, "request 1 m"),
            (r#"{"jsonrpc":"2.0","method":"m","params":{}}"#, "notification m"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}"#, "none Some(1)"),
            (r#"{"jsonrpc":"2.0","id":1,"result":[]}"#, "none Some(1)"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}"#, "none Some(1)"),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "none Some(1)"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "none None"),
            (r#"{"jsonrpc":"2.0","method":"m","params":[]}"#, "none None"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#, "none Some(1)"),
            (r#"{"id":1,"method":"m""#, "none None"),
            (r#"{"result":{"id":2},"id":1"#, "none Some(1)"),
            (r#"{"id":1,"result":{"text":"and so on"#, "none Some(1)"),
            ("[]", "none None"),
            ("log line", "none None"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn the_end_of_a_message_may_contain_its_id() {
        for (end, expected) in [
            (r#"and so on"}]},"jsonrpc":"2.0","id":7}"#, Some(7)),
            ("\"id\": 7 }\r", Some(7)),
            (r#"\"id\":7}"#, None),
            (r#""id":"7"}"#, None),
            (r#""id":7}]}"#, None),
            (r#""id":7"#, None),
        ] {
            assert_eq!(find_trailing_id(end.as_bytes()), expected, "{end}");
        }
    }

    #[test]
    fn a_message_with_too_many_values_is_not_parsed() {
        let parts = vec!["1"; 200].join(",");
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":[{parts}]}}}}"#);
        assert_eq!(kind(&text), "too much Some(1)");
        let text = format!(r#"{{"jsonrpc":"2.0","result":{{"a":[{parts}]}},"id":2}}"#);
        assert_eq!(kind(&text), "too much Some(2)");
        for asked in [
            format!(r#"{{"method":"m","params":{{"a":[{parts}]}},"jsonrpc":"2.0","id":2}}"#),
            format!(r#"{{"id":2,"params":{{"a":[{parts}]}},"method":"m"}}"#),
        ] {
            assert_eq!(kind(&asked), "too much None");
        }
    }

    #[test]
    fn objects_count_for_more_than_other_values() {
        let result = |one: &str| {
            let all = vec![one; 30].join(",");
            kind(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":[{all}]}}}}"#))
        };
        assert_eq!(result("1"), "result 1");
        assert_eq!(result(r#"{"a":1}"#), "too much Some(1)");
    }
}
