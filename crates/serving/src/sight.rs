//! The part of its tools that a caller wants to see: all or one group, listed or behind a search tool.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::{Cache, GroupId};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{AgentView, Beside, Identity, Stamp};

use crate::app::App;
use crate::format::Format;
use crate::problem::Problem;

/// Default for `budget`, in tokens.
const BUDGET: u64 = 20_000;
/// Approximate number of bytes per token.
const TOKEN: u64 = 4;

/// Whether tools are listed or searched (requirement A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// The tools.
    #[default]
    List,
    /// Nothing but `tool_search` and `execute_tool`, which reach the rest.
    Search,
    /// The tools if the list is short enough, else those two and the most used
    Auto,
}

/// What a caller wants to see, and how: query parameters of every route that shows tools.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wanted {
    /// Ready-made function definitions instead of all that is known.
    #[serde(default)]
    format: Option<Format>,
    /// `list`: the tools. `search`: only `tool_search` and `execute_tool`, which reach the rest. `auto`: `list`, unless
    /// it is longer than the budget; then `search`, and the most used tools that fit into the budget.
    #[serde(default)]
    mode: Option<Mode>,
    /// How long the list may be before `auto` searches, in tokens of four bytes; 20,000 if it is left out.
    #[serde(default)]
    budget: Option<u64>,
    /// Only what is in this group.
    #[serde(default)]
    group: Option<String>,
}

impl Wanted {
    pub(crate) fn sight(&self) -> Result<Sight, Problem> {
        let group = self.group.as_deref().map(|text| text.parse().map_err(|_| self.no_group()));
        Ok(Sight {
            group: group.transpose()?,
            mode: self.mode.unwrap_or_default(),
            format: self.format.unwrap_or_default(),
            budget: self.budget.unwrap_or(BUDGET),
        })
    }

    /// The error for a group that is unknown or not granted: the caller cannot tell which.
    pub(crate) fn no_group(&self) -> Problem {
        Problem::not_found("group of yours:", self.group.as_deref().unwrap_or_default())
    }
}

/// Options of a tool list: group, mode, format and budget.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// Limits the list to this group.
    pub(crate) group: Option<GroupId>,
    pub(crate) mode: Mode,
    /// The format of the list, which also determines its size.
    pub(crate) format: Format,
    /// Budget of `auto`, in tokens.
    pub(crate) budget: u64,
}

impl Sight {
    /// Options for MCP, which has one format.
    pub(crate) fn of_mcp(group: Option<GroupId>, mode: Mode) -> Self {
        Self { group, mode, format: Format::Mcp, budget: BUDGET }
    }

    /// The agent's current view with these options; `None` if it does not have the group.
    pub(crate) fn of(&self, app: &App, identity: &Identity) -> Option<AgentView> {
        self.within(app, app.crib.view_of(identity))
    }

    /// Applies the options to a view.
    pub(crate) fn within(&self, app: &App, view: AgentView) -> Option<AgentView> {
        let view = self.narrow(view)?;
        Some(match self.searches(app, &view) {
            Some(beside) => view.by_search_beside(beside),
            None => view,
        })
    }

    /// The agent's current view. If the tools are those of `before`, the pinned tools are reused instead of measuring the
    /// list again.
    pub(crate) fn like(
        &self,
        app: &App,
        identity: &Identity,
        before: &AgentView,
    ) -> Option<AgentView> {
        let view = self.narrow(app.crib.view_of(identity))?;
        let searches = match view.has_the_tools_of(before) {
            true => before.beside().cloned(),
            false => self.searches(app, &view),
        };
        Some(match searches {
            Some(beside) => view.by_search_beside(beside),
            None => view,
        })
    }

    fn narrow(&self, view: AgentView) -> Option<AgentView> {
        match &self.group {
            Some(group) => view.narrowed(group),
            None => Some(view),
        }
    }

    /// The tools pinned beside the two search tools; `None` if the whole list is shown.
    fn searches(&self, app: &App, view: &AgentView) -> Option<Arc<Beside>> {
        match self.mode {
            Mode::List => None,
            Mode::Search => Some(Beside::nothing()),
            Mode::Auto => {
                let bytes = self.format.list(app, view).bytes.len() as u64;
                let room = self.budget.saturating_mul(TOKEN);
                (room < bytes).then(|| {
                    app.chosen.get(view, self.format, room, || {
                        let two =
                            self.format.list(app, &view.clone().by_search()).bytes.len() as u64;
                        view.most_used(room.saturating_sub(two), |tool| {
                            self.format.size(view, tool)
                        })
                    })
                })
            }
        }
    }
}

/// Maximum number of cached selections.
const KEPT: u64 = 4_096;

/// Cache of the pinned tools of `auto` lists. The key covers every input of the selection, so an entry is never stale.
pub(crate) struct Chosen(Cache<By, Arc<Beside>>);

/// Cache key: stamp of the view, usage statistics, format and budget in bytes.
type By = (Stamp, u64, Format, u64);

impl Default for Chosen {
    fn default() -> Self {
        Self(Cache::new(KEPT))
    }
}

impl Chosen {
    fn get(
        &self,
        view: &AgentView,
        format: Format,
        room: u64,
        choose: impl FnOnce() -> Arc<Beside>,
    ) -> Arc<Beside> {
        match view.stamp() {
            Some(stamp) => self.0.get_with((stamp, view.usage_number(), format, room), choose),
            None => choose(),
        }
    }
}
