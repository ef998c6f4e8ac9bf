//! What a request says about itself, in the member `_meta` of its parameters. What nobody here reads is not kept.

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
            _ => return Ok(false),
        };
        *place = Some(meta.next_value_seed(Strict::default())?);
        Ok(true)
    }
}
