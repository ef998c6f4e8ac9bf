//! The names of the tools about tools. They are reserved: no other tool is listed under them.

/// A tool that finds or calls other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// `tool_search`: finds tools.
    Search,
    /// `execute_tool`: calls any tool of the agent.
    Execute,
}

impl MetaTool {
    /// Both meta tools.
    pub const ALL: [Self; 2] = [Self::Search, Self::Execute];

    /// The meta tool with this name. The name is reserved: no other tool is listed under it.
    pub fn find_by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => "tool_search",
            Self::Execute => "execute_tool",
        }
    }
}
