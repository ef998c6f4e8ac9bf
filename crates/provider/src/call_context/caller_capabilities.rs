//! Capabilities of a caller, parsed from MCP's client capabilities.

use json::strict_json::{KnownFields, KnownFieldsSeed};
use serde::de::{DeserializeSeed as _, MapAccess};
use serde_json::{Value, json};

/// What a caller supports when a tool needs input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerCapabilities {
    /// The user can fill in a form.
    pub elicitation: bool,
    /// The user can open a URL.
    pub elicitation_by_url: bool,
    /// The caller's model can generate a completion.
    pub sampling: bool,
    /// The caller can list its folders.
    pub roots: bool,
    /// The caller can fetch the result of a detached call later.
    pub tasks: bool,
}

/// One capability of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum CallerCapability {
    Elicitation,
    ElicitationByUrl,
    Sampling,
    Roots,
    Tasks,
}

impl CallerCapabilities {
    /// Parses the `capabilities` of an MCP client; `None` if they are not an object.
    pub fn from_client(capabilities: &Value) -> Option<Self> {
        KnownFieldsSeed::default().deserialize(capabilities).ok()?
    }

    /// Whether the caller has this capability.
    pub fn supports(self, ability: CallerCapability) -> bool {
        match ability {
            CallerCapability::Elicitation => self.elicitation,
            CallerCapability::ElicitationByUrl => self.elicitation_by_url,
            CallerCapability::Sampling => self.sampling,
            CallerCapability::Roots => self.roots,
            CallerCapability::Tasks => self.tasks,
        }
    }
}

/// Reads the `capabilities` object of MCP.
impl<'de> KnownFields<'de> for CallerCapabilities {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        said: &mut A,
    ) -> Result<bool, A::Error> {
        match name {
            "elicitation" => {
                let modes: Option<ElicitationModes> =
                    said.next_value_seed(KnownFieldsSeed::default())?;
                // An empty object means forms: the only mode before others were introduced.
                self.elicitation = modes.as_ref().is_some_and(|modes| modes.form || !modes.any);
                self.elicitation_by_url = modes.is_some_and(|modes| modes.url);
            }
            "sampling" => self.sampling = is_object(said)?,
            "roots" => self.roots = is_object(said)?,
            "extensions" => {
                let known: Option<ClientExtensions> =
                    said.next_value_seed(KnownFieldsSeed::default())?;
                self.tasks = known.is_some_and(|known| known.tasks);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn is_object<'de, A: MapAccess<'de>>(said: &mut A) -> Result<bool, A::Error> {
    said.next_value_seed(KnownFieldsSeed::<()>::default()).map(|object| object.is_some())
}

/// The elicitation modes of a client.
#[derive(Default)]
struct ElicitationModes {
    any: bool,
    form: bool,
    url: bool,
}

impl<'de> KnownFields<'de> for ElicitationModes {
    fn take_field<A: MapAccess<'de>>(&mut self, name: &str, _: &mut A) -> Result<bool, A::Error> {
        self.any = true;
        self.form |= name == "form";
        self.url |= name == "url";
        Ok(false)
    }
}

/// The MCP extensions of a client.
#[derive(Default)]
struct ClientExtensions {
    tasks: bool,
}

impl<'de> KnownFields<'de> for ClientExtensions {
    fn take_field<A: MapAccess<'de>>(
        &mut self,
        name: &str,
        known: &mut A,
    ) -> Result<bool, A::Error> {
        if name != TASKS_EXTENSION {
            return Ok(false);
        }
        self.tasks = is_object(known)?;
        Ok(true)
    }
}

/// The MCP extension for tasks: calls that continue after the response.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

impl CallerCapability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::ElicitationByUrl => "elicitation by url",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
            Self::Tasks => "tasks",
        }
    }

    /// The capability in the shape of MCP's client capabilities.
    pub fn to_capabilities(self) -> Value {
        match self {
            Self::Elicitation => json!({"elicitation": {}}),
            Self::ElicitationByUrl => json!({"elicitation": {"url": {}}}),
            Self::Sampling => json!({"sampling": {}}),
            Self::Roots => json!({"roots": {}}),
            Self::Tasks => json!({"extensions": {TASKS_EXTENSION: {}}}),
        }
    }
}
