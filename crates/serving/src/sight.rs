//! What of its tools a caller wants to see: all or one group of them, the tools themselves or a way to search them.

use model::{Agent, GroupId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::AgentView;

use crate::app::App;
use crate::format::Format;

/// How long a list may be before it is searched instead, in tokens.
pub(crate) const BUDGET: u64 = 20_000;
/// How many bytes make a token, about.
const TOKEN: u64 = 4;

/// Whether tools are listed or searched (requirement A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// The tools.
    #[default]
    List,
    /// Nothing but `tool_search` and `execute_tool`, which reach the rest.
    Search,
    /// The tools, unless the list is longer than the budget.
    Auto,
}

/// What of its tools a caller wants to see.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// Only what is in this group.
    pub(crate) group: Option<GroupId>,
    pub(crate) mode: Mode,
    /// What the list is written in, and measured by.
    pub(crate) format: Format,
    /// For `auto`, in tokens.
    pub(crate) budget: u64,
}

impl Sight {
    /// What an agent sees of its tools now; none if it does not have the group.
    pub(crate) fn of(&self, app: &App, agent: &Agent) -> Option<AgentView> {
        self.within(app, app.crib.view(agent))
    }

    /// What is left of a view.
    pub(crate) fn within(&self, app: &App, view: AgentView) -> Option<AgentView> {
        let view = match &self.group {
            Some(group) => view.narrowed(group)?,
            None => view,
        };
        let is_long = |view: &AgentView| {
            let bytes = self.format.list(app, view).bytes.len();
            self.budget.saturating_mul(TOKEN) < bytes as u64
        };
        let by_search = match self.mode {
            Mode::List => false,
            Mode::Search => true,
            Mode::Auto => is_long(&view),
        };
        Some(if by_search { view.by_search() } else { view })
    }
}
