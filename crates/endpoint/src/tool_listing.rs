//! The part of its tools that a caller wants to see: all or one group, listed or behind a search tool.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use api_types::problem::Problem;
use model::GroupId;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::{AgentView, CallerIdentity, PinnedTools};

use crate::app_state::AppState;
use crate::tool_format::ToolFormat;

/// Default for `budget`, in tokens.
const DEFAULT_TOKEN_BUDGET: u64 = 20_000;
/// Approximate number of bytes per token.
const BYTES_PER_TOKEN: u64 = 4;

/// Whether tools are listed or searched (requirement A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Mode")]
pub enum ListMode {
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
#[schemars(rename = "Wanted")]
pub struct ListQuery {
    /// Ready-made function definitions instead of all that is known.
    #[serde(default)]
    format: Option<ToolFormat>,
    /// `list`: the tools. `search`: only `tool_search` and `execute_tool`, which reach the rest. `auto`: `list`, unless
    /// it is longer than the budget; then `search`, and the most used tools that fit into the budget.
    #[serde(default)]
    mode: Option<ListMode>,
    /// How long the list may be before `auto` searches, in tokens of four bytes; 20,000 if it is left out.
    #[serde(default)]
    budget: Option<u64>,
    /// Only what is in this group.
    #[serde(default)]
    group: Option<String>,
}

impl ListQuery {
    pub fn to_list_options(&self) -> Result<ListOptions, Problem> {
        let group =
            self.group.as_deref().map(|text| text.parse().map_err(|_| self.group_not_found()));
        Ok(ListOptions {
            group: group.transpose()?,
            mode: self.mode.unwrap_or_default(),
            format: self.format.unwrap_or_default(),
            budget: self.budget.unwrap_or(DEFAULT_TOKEN_BUDGET),
        })
    }

    /// The error for a group that is unknown or not granted: the caller cannot tell which.
    pub fn group_not_found(&self) -> Problem {
        Problem::not_found("group of yours:", self.group.as_deref().unwrap_or_default())
    }
}

/// Options of a tool list: group, mode, format and budget.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Limits the list to this group.
    pub group: Option<GroupId>,
    pub(crate) mode: ListMode,
    /// The format of the list, which also determines its size.
    pub format: ToolFormat,
    /// Budget of `auto`, in tokens.
    pub(crate) budget: u64,
}

impl ListOptions {
    /// Options for MCP, which has one format.
    pub fn for_mcp(group: Option<GroupId>, mode: ListMode) -> Self {
        Self { group, mode, format: ToolFormat::Mcp, budget: DEFAULT_TOKEN_BUDGET }
    }

    /// The agent's current view with these options; `None` if it does not have the group.
    pub fn current_view(&self, app: &AppState, identity: &CallerIdentity) -> Option<AgentView> {
        self.apply_to(app, app.crib.view_for_identity(identity))
    }

    /// Applies the options to a view.
    pub fn apply_to(&self, app: &AppState, view: AgentView) -> Option<AgentView> {
        let view = self.narrow_to_group(view)?;
        Some(match self.select_pinned_tools(app, &view) {
            Some(beside) => view.search_only_with_pinned(beside),
            None => view,
        })
    }

    /// The agent's current view. If the tools are those of `before`, the pinned tools are reused instead of measuring the
    /// list again.
    pub(crate) fn current_view_like(
        &self,
        app: &AppState,
        identity: &CallerIdentity,
        before: &AgentView,
    ) -> Option<AgentView> {
        let view = self.narrow_to_group(app.crib.view_for_identity(identity))?;
        let searches = match view.has_same_tools(before) {
            true => before.pinned_tools().cloned(),
            false => self.select_pinned_tools(app, &view),
        };
        Some(match searches {
            Some(beside) => view.search_only_with_pinned(beside),
            None => view,
        })
    }

    fn narrow_to_group(&self, view: AgentView) -> Option<AgentView> {
        match &self.group {
            Some(group) => view.narrow_to_group(group),
            None => Some(view),
        }
    }

    /// The tools pinned beside the two search tools; `None` if the whole list is shown.
    fn select_pinned_tools(&self, app: &AppState, view: &AgentView) -> Option<Arc<PinnedTools>> {
        match self.mode {
            ListMode::List => None,
            ListMode::Search => Some(PinnedTools::empty()),
            ListMode::Auto => {
                let bytes = self.format.cached_list(&app.list_cache, view).bytes.len() as u64;
                let room = self.budget.saturating_mul(BYTES_PER_TOKEN);
                (room < bytes).then(|| {
                    app.pinned_tools.get_or_select(view, self.format, room, || {
                        let two = self
                            .format
                            .cached_list(&app.list_cache, &view.clone().search_only())
                            .bytes
                            .len() as u64;
                        view.most_used_tools(room.saturating_sub(two), |tool| {
                            self.format.serialized_size(view, tool)
                        })
                    })
                })
            }
        }
    }
}
