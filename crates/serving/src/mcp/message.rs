//! One JSON-RPC message, read strictly: no member twice at any depth, no number that would be rounded, an id that can be
//! repeated as it came.

use model::strict_json;
use serde_json::{Map, Value};

use super::error::RpcError;

/// What a client sends.
#[derive(Debug)]
pub(crate) enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification { method: String, params: Map<String, Value> },
    /// Answers something we asked.
    Response { id: Id, outcome: Result<Value, Value> },
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

/// A text or a whole number, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(Box<str>);

/// The longest id and the longest name of a method, in bytes.
const LIMIT: usize = 1024;

/// The most values in a message, and a message that cannot have more.
const PARTS: usize = 100_000;
const SMALL: usize = PARTS;

/// A message that cannot be used, with its id if that can.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) id: Option<Id>,
    pub(crate) error: RpcError,
}

impl Id {
    /// As JSON.
    pub(crate) fn as_json(&self) -> &str {
        &self.0
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    pub(crate) fn of(value: &Value) -> Option<Self> {
        let is_good = match value {
            Value::String(text) => text.len() <= LIMIT,
            Value::Number(number) => number.is_i64() || number.is_u64(),
            _ => false,
        };
        is_good.then(|| Self(value.to_string().into()))
    }
}

impl Message {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Unusable> {
        let unusable = |error| Unusable { id: None, error };
        let value = read_value(bytes).map_err(unusable)?;
        Self::of(value)
    }

    pub(crate) fn of(value: Value) -> Result<Self, Unusable> {
        let Value::Object(mut message) = value else {
            let why = "a message is one JSON object; batches are not taken";
            return Err(Unusable { id: None, error: RpcError::invalid_request(why) });
        };
        let given = message.remove("id");
        let id = given.as_ref().and_then(Id::of);
        let mut read = |id: Option<Id>| {
            if message.get("jsonrpc").is_none_or(|version| version != "2.0") {
                return Err("`jsonrpc` must be \"2.0\"");
            }
            if given.is_some() && id.is_none() {
                return Err("`id` must be a text of at most 1 KiB or a whole number");
            }
            let params = match message.remove("params") {
                None => Map::new(),
                Some(Value::Object(params)) => params,
                Some(_) => return Err("`params` must be an object"),
            };
            match (message.remove("method"), id) {
                (Some(Value::String(method)), _) if LIMIT < method.len() => {
                    Err("`method` is too long")
                }
                (Some(Value::String(method)), Some(id)) => {
                    Ok(Self::Request(Request { id, method, params }))
                }
                (Some(Value::String(method)), None) => Ok(Self::Notification { method, params }),
                (Some(_), _) => Err("`method` must be a text"),
                (None, Some(id)) => match (message.remove("result"), message.remove("error")) {
                    (Some(result), None) => Ok(Self::Response { id, outcome: Ok(result) }),
                    (None, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
                    _ => Err("a message has a `method`, a `result` or an `error`"),
                },
                (None, None) => Err("a message has a `method`, or answers with an `id`"),
            }
        };
        read(id.clone()).map_err(|why| Unusable { id, error: RpcError::invalid_request(why) })
    }
}

/// JSON, exactly as it was meant.
pub(crate) fn read_value(bytes: &[u8]) -> Result<Value, RpcError> {
    if SMALL < bytes.len() && PARTS < strict_json::parts(bytes) {
        return Err(RpcError::parse(format!("a message has at most {PARTS} values")));
    }
    let value = strict_json::value(bytes)
        .map_err(|error| RpcError::parse(format!("the body is not JSON as it must be: {error}")))?;
    match strict_json::rounded(bytes) {
        None => Ok(value),
        Some(number) => {
            let number: String = number.chars().take(80).collect();
            let why = format!("the number `{number}` cannot be kept as it is: send it as a text");
            Err(RpcError::parse(why))
        }
    }
}
