//! Incoming JSON-RPC messages, parsed strictly: no duplicate field at any depth, no number that would lose precision,
//! and an id that can be returned unchanged.

use endpoint::json_body::large_json;
use json::strict_json;
use json::strict_json::{KnownFields, KnownFieldsSeed, StrictValueSeed};
use serde::de::MapAccess;
use serde_json::{Map, Value};

use super::error_response::RpcErrorResponse;
use super::request_meta::RequestMeta;

/// A message from a client.
#[derive(Debug)]
pub(crate) enum IncomingMessage {
    /// Expects an answer.
    Request(IncomingRequest),
    /// Expects no answer.
    Notification { method: String, params: Map<String, Value>, meta: Option<RequestMeta> },
    /// Answers a request of the server.
    Response { id: JsonRpcId, outcome: Result<Value, Value> },
}

#[derive(Debug)]
pub(crate) struct IncomingRequest {
    pub(crate) id: JsonRpcId,
    pub(crate) method: String,
    /// All parameters except `_meta`.
    pub(crate) params: Map<String, Value>,
    /// The request's `_meta`, if there is one.
    pub(crate) meta: Option<RequestMeta>,
}

/// The id of a request: a string or an integer, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JsonRpcId(Box<str>);

/// Maximum length of an id and of a method name, in bytes.
const MAX_ID_BYTES: usize = 1024;

/// A rejected message, with its id if the id is valid.
#[derive(Debug)]
pub(crate) struct InvalidMessage {
    pub(crate) id: Option<JsonRpcId>,
    pub(crate) error: RpcErrorResponse,
}

impl JsonRpcId {
    /// The id as JSON text.
    pub(crate) fn as_json(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let is_good = match value {
            Value::String(text) => text.len() <= MAX_ID_BYTES,
            Value::Number(number) => number.is_i64() || number.is_u64(),
            _ => false,
        };
        is_good.then(|| Self(value.to_string().into()))
    }
}

impl IncomingMessage {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidMessage> {
        match MessageEnvelope::from_bytes(bytes) {
            Ok(Some(envelope)) => envelope.into_message(),
            Ok(None) => {
                let why = "a message is one JSON object; batches are not taken";
                Err(InvalidMessage { id: None, error: RpcErrorResponse::invalid_request(why) })
            }
            Err(error) => Err(InvalidMessage { id: None, error }),
        }
    }
}

/// The fields of a message before validation.
#[derive(Default)]
struct MessageEnvelope {
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    /// The inner option is `None` if `params` is not an object.
    params: Option<Option<MessageParams>>,
    result: Option<Value>,
    error: Option<Value>,
}

/// The parameters of a method, with `_meta` apart.
#[derive(Default)]
struct MessageParams {
    members: Map<String, Value>,
    meta: Option<RequestMeta>,
}

impl MessageEnvelope {
    /// Parses the JSON strictly; `None` if it is not an object.
    fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, RpcErrorResponse> {
        if large_json::exceeds_value_limit(bytes, large_json::MAX_AGENT_VALUES) {
            let why = format!(
                "{}: send less at once",
                large_json::describe_limit(large_json::MAX_AGENT_VALUES)
            );
            return Err(RpcErrorResponse::parse_error(why));
        }
        let envelope = strict_json::parse_known_fields(bytes).map_err(|error| {
            RpcErrorResponse::parse_error(format!("the body is not JSON as it must be: {error}"))
        })?;
        match strict_json::find_rounded_number(bytes) {
            None => Ok(envelope),
            Some(number) => {
                let number: String = number.chars().take(80).collect();
                let why =
                    format!("the number `{number}` cannot be kept as it is: send it as a text");
                Err(RpcErrorResponse::parse_error(why))
            }
        }
    }

    fn into_message(self) -> Result<IncomingMessage, InvalidMessage> {
        let id = self.id.as_ref().and_then(JsonRpcId::from_value);
        self.build_message(id.clone())
            .map_err(|why| InvalidMessage { id, error: RpcErrorResponse::invalid_request(why) })
    }

    fn build_message(self, id: Option<JsonRpcId>) -> Result<IncomingMessage, &'static str> {
        if self.jsonrpc.is_none_or(|version| version != "2.0") {
            return Err("`jsonrpc` must be \"2.0\"");
        }
        if self.id.is_some() && id.is_none() {
            return Err("`id` must be a text of at most 1 KiB or a whole number");
        }
        let MessageParams { members: params, meta } = match self.params {
            None => MessageParams::default(),
            Some(Some(params)) => params,
            Some(None) => return Err("`params` must be an object"),
        };
        match (self.method, id) {
            (Some(Value::String(method)), _) if MAX_ID_BYTES < method.len() => {
                Err("`method` is too long")
            }
            (Some(Value::String(method)), Some(id)) => {
                Ok(IncomingMessage::Request(IncomingRequest { id, method, params, meta }))
            }
            (Some(Value::String(method)), None) => {
                Ok(IncomingMessage::Notification { method, params, meta })
            }
            (Some(_), _) => Err("`method` must be a text"),
            (None, Some(id)) => match (self.result, self.error) {
                (Some(result), None) => Ok(IncomingMessage::Response { id, outcome: Ok(result) }),
                (None, Some(error)) => Ok(IncomingMessage::Response { id, outcome: Err(error) }),
                _ => Err("a message has a `method`, a `result` or an `error`"),
            },
            (None, None) => Err("a message has a `method`, or answers with an `id`"),
        }
    }
}

impl<'de> KnownFields<'de> for MessageEnvelope {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        message: &mut A,
    ) -> Result<bool, A::Error> {
        let place = match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "result" => &mut self.result,
            "error" => &mut self.error,
            "params" => {
                self.params = Some(message.next_value_seed(KnownFieldsSeed::default())?);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *place = Some(message.next_value_seed(StrictValueSeed::default())?);
        Ok(true)
    }
}

impl<'de> KnownFields<'de> for MessageParams {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        params: &mut A,
    ) -> Result<bool, A::Error> {
        if name == "_meta" {
            self.meta = params.next_value_seed(KnownFieldsSeed::default())?;
        } else {
            let value = params.next_value_seed(StrictValueSeed::default())?;
            self.members.insert(name.to_owned(), value);
        }
        Ok(true)
    }
}
