//! Outgoing messages: a request leads to one or several, the last of which is the answer.

use axum::body::Bytes;
use axum::http::header::HeaderValue;
use limits::MAX_INLINE_BYTES;
use serde_json::{Value, json};

use super::error_response::RpcErrorResponse;
use super::incoming_message::JsonRpcId;

/// A JSON-RPC message as consecutive segments, so that a cached list is not copied.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingMessage {
    pub(crate) segments: Vec<Bytes>,
    /// No message follows.
    pub(crate) is_last: bool,
    /// HTTP status, where the era uses statuses for answers.
    pub(crate) status: u16,
    /// The `WWW-Authenticate` value, if the client's token lacks scopes and the era has a header for it.
    pub(crate) challenge: Option<Box<HeaderValue>>,
}

impl OutgoingMessage {
    fn final_message(pieces: Vec<Bytes>, status: u16) -> Self {
        Self { segments: pieces, is_last: true, status, challenge: None }
    }

    /// A message that others follow.
    fn intermediate_message(message: &Value) -> Self {
        let pieces = vec![message.to_string().into()];
        Self { segments: pieces, is_last: false, status: 200, challenge: None }
    }

    /// No message at all.
    pub(crate) fn empty_message() -> Self {
        Self::final_message(Vec::new(), 200)
    }

    /// The response to a request, with the result as JSON.
    pub(crate) fn result_response(id: &JsonRpcId, result: String) -> Self {
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":"#, id.as_json());
        if MAX_INLINE_BYTES < result.len() {
            let end = Bytes::from_static(b"}");
            return Self::final_message(vec![text.into(), result.into(), end], 200);
        }
        text.extend([result.as_str(), "}"]);
        Self::final_message(vec![text.into()], 200)
    }

    /// The response to a list request. If a page follows, `end` closes the result; otherwise `list` includes its end.
    pub(crate) fn list_response(
        id: &JsonRpcId,
        member: &str,
        list: Bytes,
        end: Option<String>,
    ) -> Self {
        let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"{member}":"#, id.as_json());
        let mut pieces = vec![start.into(), list];
        pieces.extend(end.map(Bytes::from));
        Self::final_message(pieces, 200)
    }

    /// An error response. The id is omitted if the request's id was invalid.
    pub(crate) fn error_response(id: Option<&JsonRpcId>, error: &RpcErrorResponse) -> Self {
        let id = id.map(|id| format!(r#""id":{},"#, id.as_json())).unwrap_or_default();
        let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{}}}"#, error.to_value());
        let challenge = error.challenge.clone();
        Self { challenge, ..Self::final_message(vec![text.into()], error.status) }
    }

    pub(crate) fn notification(method: &str, params: Value) -> Self {
        Self::intermediate_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
    }

    /// A request from the server to the client.
    pub(crate) fn request(id: &str, method: &str, params: Value) -> Self {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Self::intermediate_message(&message)
    }

    /// The message as one buffer.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match self.segments.as_slice() {
            [one] => one.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_the_same_in_one_segment_and_in_several() {
        let id = JsonRpcId::from_value(&json!(7)).unwrap();
        for length in [0, MAX_INLINE_BYTES - 2, MAX_INLINE_BYTES - 1, MAX_INLINE_BYTES] {
            let result = "x".repeat(length);
            let sent = OutgoingMessage::result_response(&id, format!("\"{result}\""));
            let read: Value = serde_json::from_slice(&sent.to_bytes()).unwrap();
            assert_eq!(read, json!({"jsonrpc": "2.0", "id": 7, "result": result}));
        }
    }
}
