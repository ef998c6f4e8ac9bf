//! What a request says about itself, in the member `_meta` of its parameters. What nobody here reads is not kept.

use model::strict_json::{Members, Strict};
use serde::de::MapAccess;
use serde_json::Value;

/// What a request says about itself, as it came.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    /// A request that says it is one of the newer era.
    pub(crate) version: Option<Value>,
    pub(crate) capabilities: Option<Value>,
    pub(crate) log_level: Option<Value>,
    pub(crate) progress_token: Option<Value>,
}

impl<'de> Members<'de> for Meta {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, meta: &mut A) -> Result<bool, A::Error> {
        let place = match name {
            "io.modelcontextprotocol/protocolVersion" => &mut self.version,
            "io.modelcontextprotocol/clientCapabilities" => &mut self.capabilities,
            "io.modelcontextprotocol/logLevel" => &mut self.log_level,
            "progressToken" => &mut self.progress_token,
            _ => return Ok(false),
        };
        *place = Some(meta.next_value_seed(Strict::default())?);
        Ok(true)
    }
}
