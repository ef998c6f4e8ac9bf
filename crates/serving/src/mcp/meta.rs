//! What a request says about itself, in the member `_meta` of its parameters. What nobody here reads is not kept.

use model::TraceContext;
use model::strict_json::{Members, Object, Strict};
use serde::de::MapAccess;
use serde_json::Value;
use toolcrib::Abilities;

/// What a request says about itself, as it came.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// A request that says it is one of the newer era.
    pub(crate) version: Option<Value>,
    /// What its client can do.
    pub(crate) abilities: Option<Abilities>,
    pub(crate) log_level: Option<Value>,
    pub(crate) progress_token: Option<Value>,
    /// The trace it is part of (SEP-414).
    trace_parent: Option<Value>,
    trace_state: Option<Value>,
}

impl Meta {
    /// The trace it is part of, if it says so well.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        let state = self.trace_state.as_ref().and_then(Value::as_str);
        TraceContext::read(self.trace_parent.as_ref()?.as_str()?, state)
    }
}

impl<'de> Members<'de> for Meta {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, meta: &mut A) -> Result<bool, A::Error> {
        let place = match name {
            "io.modelcontextprotocol/protocolVersion" => &mut self.version,
            "io.modelcontextprotocol/clientCapabilities" => {
                self.abilities = meta.next_value_seed(Object::default())?;
                return Ok(true);
            }
            "io.modelcontextprotocol/logLevel" => &mut self.log_level,
            "progressToken" => &mut self.progress_token,
            "traceparent" => &mut self.trace_parent,
            "tracestate" => &mut self.trace_state,
            _ => return Ok(false),
        };
        *place = Some(meta.next_value_seed(Strict::default())?);
        Ok(true)
    }
}
