//! Capabilities of a caller, parsed from MCP's client capabilities.

use model::strict_json::{Members, Object};
use serde::de::{DeserializeSeed as _, MapAccess};
use serde_json::{Value, json};

/// What a caller supports when a tool needs input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
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
pub enum Ability {
    Elicitation,
    ElicitationByUrl,
    Sampling,
    Roots,
    Tasks,
}

impl Abilities {
    /// Parses the `capabilities` of an MCP client; `None` if they are not an object.
    pub fn of(capabilities: &Value) -> Option<Self> {
        Object::default().deserialize(capabilities).ok()?
    }

    /// Whether the caller has this capability.
    pub fn have(self, ability: Ability) -> bool {
        match ability {
            Ability::Elicitation => self.elicitation,
            Ability::ElicitationByUrl => self.elicitation_by_url,
            Ability::Sampling => self.sampling,
            Ability::Roots => self.roots,
            Ability::Tasks => self.tasks,
        }
    }
}

/// Reads the `capabilities` object of MCP.
impl<'de> Members<'de> for Abilities {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, said: &mut A) -> Result<bool, A::Error> {
        match name {
            "elicitation" => {
                let modes: Option<Modes> = said.next_value_seed(Object::default())?;
                // An empty object means forms: the only mode before others were introduced.
                self.elicitation = modes.as_ref().is_some_and(|modes| modes.form || !modes.any);
                self.elicitation_by_url = modes.is_some_and(|modes| modes.url);
            }
            "sampling" => self.sampling = is_object(said)?,
            "roots" => self.roots = is_object(said)?,
            "extensions" => {
                let known: Option<Extensions> = said.next_value_seed(Object::default())?;
                self.tasks = known.is_some_and(|known| known.tasks);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn is_object<'de, A: MapAccess<'de>>(said: &mut A) -> Result<bool, A::Error> {
    said.next_value_seed(Object::<()>::default()).map(|object| object.is_some())
}

/// The elicitation modes of a client.
#[derive(Default)]
struct Modes {
    any: bool,
    form: bool,
    url: bool,
}

impl<'de> Members<'de> for Modes {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, _: &mut A) -> Result<bool, A::Error> {
        self.any = true;
        self.form |= name == "form";
        self.url |= name == "url";
        Ok(false)
    }
}

/// The MCP extensions of a client.
#[derive(Default)]
struct Extensions {
    tasks: bool,
}

impl<'de> Members<'de> for Extensions {
    fn take<A: MapAccess<'de>>(&mut self, name: &str, known: &mut A) -> Result<bool, A::Error> {
        if name != TASKS {
            return Ok(false);
        }
        self.tasks = is_object(known)?;
        Ok(true)
    }
}

/// The MCP extension for tasks: calls that continue after the response.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

impl Ability {
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
            Self::Tasks => json!({"extensions": {TASKS: {}}}),
        }
    }
}
