//! Incoming JSON-RPC messages, parsed strictly: no duplicate field at any depth, no number that would lose precision,
//! and an id that can be returned unchanged.

use model::strict_json::{self, Members, Object, Strict};
use serde::de::MapAccess;
use serde_json::{Map, Value};

use super::error::RpcError;
use super::meta::Meta;
use crate::body::long;

/// A message from a client.
#[derive(Debug)]
pub(crate) enum Message {
    /// Expects an answer.
    Request(Request),
    /// Expects no answer.
    Notification { method: String, params: Map<String, Value>, meta: Option<Meta> },
    /// Answers a request of the server.
    Response { id: Id, outcome: Result<Value, Value> },
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    /// All parameters except `_meta`.
    pub(crate) params: Map<String, Value>,
    /// The request's `_meta`, if there is one.
    pub(crate) meta: Option<Meta>,
}

/// The id of a request: a string or an integer, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(Box<str>);

/// Maximum length of an id and of a method name, in bytes.
const LIMIT: usize = 1024;

/// A rejected message, with its id if the id is valid.
#[derive(Debug)]
pub(crate) struct Unusable {
    pub(crate) id: Option<Id>,
    pub(crate) error: RpcError,
}

impl Id {
    /// The id as JSON text.
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
        match Envelope::read(bytes) {
            Ok(Some(envelope)) => envelope.open(),
            Ok(None) => {
                let why = "a message is one JSON object; batches are not taken";
                Err(Unusable { id: None, error: RpcError::invalid_request(why) })
            }
            Err(error) => Err(Unusable { id: None, error }),
        }
    }
}

/// The fields of a message before validation.
#[derive(Default)]
struct Envelope {
    jsonrpc: Option<Value>,
    id: Option<Value>,
    method: Option<Value>,
    /// The inner option is `None` if `params` is not an object.
    params: Option<Option<Params>>,
    result: Option<Value>,
    error: Option<Value>,
}

/// The parameters of a method, with `_meta` apart.
#[derive(Default)]
struct Params {
    members: Map<String, Value>,
    meta: Option<Meta>,
}

impl Envelope {
    /// Parses the JSON strictly; `None` if it is not an object.
    fn read(bytes: &[u8]) -> Result<Option<Self>, RpcError> {
        if long::outweighs(bytes, long::VALUES) {
            let why = format!("{}: send less at once", long::told(long::VALUES));
            return Err(RpcError::parse(why));
        }
        let envelope = strict_json::members(bytes).map_err(|error| {
            RpcError::parse(format!("the body is not JSON as it must be: {error}"))
        })?;
        match strict_json::rounded(bytes) {
            None => Ok(envelope),
            Some(number) => {
                let number: String = number.chars().take(80).collect();
                let why =
                    format!("the number `{number}` cannot be kept as it is: send it as a text");
                Err(RpcError::parse(why))
            }
        }
    }

    fn open(self) -> Result<Message, Unusable> {
        let id = self.id.as_ref().and_then(Id::of);
        self.message(id.clone())
            .map_err(|why| Unusable { id, error: RpcError::invalid_request(why) })
    }

    fn message(self, id: Option<Id>) -> Result<Message, &'static str> {
        if self.jsonrpc.is_none_or(|version| version != "2.0") {
            return Err("`jsonrpc` must be \"2.0\"");
        }
        if self.id.is_some() && id.is_none() {
            return Err("`id` must be a text of at most 1 KiB or a whole number");
        }
        let Params { members: params, meta } = match self.params {
            None => Params::default(),
            Some(Some(params)) => params,
            Some(None) => return Err("`params` must be an object"),
        };
        match (self.method, id) {
            (Some(Value::String(method)), _) if LIMIT < method.len() => Err("`method` is too long"),
            (Some(Value::String(method)), Some(id)) => {
                Ok(Message::Request(Request { id, method, params, meta }))
            }
            (Some(Value::String(method)), None) => {
                Ok(Message::Notification { method, params, meta })
            }
            (Some(_), _) => Err("`method` must be a text"),
            (None, Some(id)) => match (self.result, self.error) {
                (Some(result), None) => Ok(Message::Response { id, outcome: Ok(result) }),
                (None, Some(error)) => Ok(Message::Response { id, outcome: Err(error) }),
                _ => Err("a message has a `method`, a `result` or an `error`"),
            },
            (None, None) => Err("a message has a `method`, or answers with an `id`"),
        }
    }
}

impl<'de> Members<'de> for Envelope {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, message: &mut A) -> Result<bool, A::Error> {
        let place = match name {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "result" => &mut self.result,
            "error" => &mut self.error,
            "params" => {
                self.params = Some(message.next_value_seed(Object::default())?);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        *place = Some(message.next_value_seed(Strict::default())?);
        Ok(true)
    }
}

impl<'de> Members<'de> for Params {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, params: &mut A) -> Result<bool, A::Error> {
        if name == "_meta" {
            self.meta = params.next_value_seed(Object::default())?;
        } else {
            let value = params.next_value_seed(Strict::default())?;
            self.members.insert(name.to_owned(), value);
        }
        Ok(true)
    }
}
