//! The `_meta` of a request's parameters. Unknown keys are dropped.

use json::strict_json::{KnownFields, KnownFieldsSeed, StrictValueSeed};
use model::TraceContext;
use serde::de::MapAccess;
use serde_json::Value;
use toolcrib::CallerCapabilities;

/// The known keys of `_meta`, mostly unvalidated.
#[derive(Debug, Default)]
pub(crate) struct RequestMeta {
    /// The protocol version; present in requests of the modern era.
    pub(crate) version: Option<Value>,
    /// The client's capabilities.
    pub(crate) abilities: Option<CallerCapabilities>,
    pub(crate) log_level: Option<Value>,
    pub(crate) progress_token: Option<Value>,
    /// The W3C trace context (SEP-414).
    trace_parent: Option<Value>,
    trace_state: Option<Value>,
}

impl RequestMeta {
    /// The trace context, if it is well-formed.
    pub(crate) fn trace_context(&self) -> Option<TraceContext> {
        let state = self.trace_state.as_ref().and_then(Value::as_str);
        TraceContext::from_headers(self.trace_parent.as_ref()?.as_str()?, state)
    }
}

impl<'de> KnownFields<'de> for RequestMeta {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        meta: &mut A,
    ) -> Result<bool, A::Error> {
        let place = match name {
            "io.modelcontextprotocol/protocolVersion" => &mut self.version,
            "io.modelcontextprotocol/clientCapabilities" => {
                self.abilities = meta.next_value_seed(KnownFieldsSeed::default())?;
                return Ok(true);
            }
            "io.modelcontextprotocol/logLevel" => &mut self.log_level,
            "progressToken" => &mut self.progress_token,
            "traceparent" => &mut self.trace_parent,
            "tracestate" => &mut self.trace_state,
            _ => return Ok(false),
        };
        *place = Some(meta.next_value_seed(StrictValueSeed::default())?);
        Ok(true)
    }
}
