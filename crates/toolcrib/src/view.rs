//! What one agent sees: the only way to list, find, search or call tools for an agent.
//!
//! A view is taken for one request and stays as it is: everything asked of it is answered from one snapshot. A tool that
//! is not granted and a tool that does not exist look the same.

mod call;
mod search;
mod tool;

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{CataloguedTool, Snapshot};
use model::{Agent, ToolId, Visibility};

use crate::crib::Toolcrib;
use crate::provider::ToolProvider;
use crate::toolset::Toolset;

pub use search::Hit;
pub use tool::ViewedTool;

/// What one agent sees.
pub struct AgentView {
    crib: Toolcrib,
    snapshot: Arc<Snapshot>,
    agent: Agent,
    toolset: Arc<Toolset>,
    /// For this request only; what the catalog has comes first, then the first provider.
    providers: Vec<Arc<dyn ToolProvider>>,
}

/// Why there is not exactly one tool of a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// Unknown, or not granted: the agent cannot tell which.
    #[error("Tool not found: {name}")]
    NoSuchTool {
        /// The name.
        name: Box<str>,
    },
    /// Several of the agent's own tools go by it.
    #[error("several tools are called `{name}`: say which, `{}`", names.join("` or `"))]
    Ambiguous {
        /// The name.
        name: Box<str>,
        /// What they are called in the agent's list.
        names: Vec<String>,
    },
}

impl AgentView {
    pub(crate) fn new(
        crib: Toolcrib,
        snapshot: Arc<Snapshot>,
        agent: Agent,
        toolset: Arc<Toolset>,
    ) -> Self {
        Self { crib, snapshot, agent, toolset, providers: Vec::new() }
    }

    /// With the tools of a provider, for this request only.
    pub fn with_provider(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Who sees it.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What it is answered from.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The tools of the catalog that the agent has, as a set.
    pub fn toolset(&self) -> &Arc<Toolset> {
        &self.toolset
    }

    /// The listed tools: those of the catalog in the order of their ids, then those of providers.
    pub fn list(&self) -> Vec<ViewedTool> {
        let listed = self.toolset.list(&self.snapshot);
        let tools = listed.map(|(entry, name)| ViewedTool::catalogued(entry, name.into()));
        tools.chain(self.provided()).collect()
    }

    /// The tool that goes by this name, in the form the agent is shown or in another that is not ambiguous.
    pub fn find(&self, name: &str) -> Result<ViewedTool, NotFound> {
        let found = self.snapshot.tools_called_in(name, self.toolset.tools());
        let mut found: Vec<ViewedTool> = found.map(|entry| self.viewed(entry)).collect();
        match found.len() {
            0 => self.provided_by_name(name).ok_or_else(|| missing(name)),
            1 => Ok(found.remove(0)),
            _ => match found.iter().position(|tool| tool.name() == name) {
                Some(place) => Ok(found.remove(place)),
                None => {
                    let mut names: Vec<_> =
                        found.iter().map(|tool| tool.name().to_owned()).collect();
                    names.sort_unstable();
                    Err(NotFound::Ambiguous { name: name.into(), names })
                }
            },
        }
    }

    /// The tool of the catalog with this id.
    pub fn find_id(&self, id: &ToolId) -> Result<ViewedTool, NotFound> {
        let granted = |entry: &&Arc<CataloguedTool>| self.toolset.tools().contains(entry.slot);
        let found = self.snapshot.tool(id).filter(granted);
        found.map(|entry| self.viewed(entry)).ok_or_else(|| missing(id.as_str()))
    }

    /// Where the agent meets a tool that it found.
    pub fn visibility(&self, tool: &ViewedTool) -> Visibility {
        let slot = tool.entry().map(|entry| entry.slot);
        slot.and_then(|slot| self.toolset.visibility(slot)).unwrap_or_default()
    }

    fn viewed(&self, entry: &Arc<CataloguedTool>) -> ViewedTool {
        ViewedTool::catalogued(entry, self.toolset.name(&self.snapshot, entry))
    }

    /// Asked only for names that no tool of the catalog goes by.
    fn provided_by_name(&self, name: &str) -> Option<ViewedTool> {
        self.providers.iter().find_map(|provider| {
            Some(ViewedTool::provided(provider.get_tool(name)?, Arc::clone(provider)))
        })
    }

    /// What providers add: names that are free, the first provider first.
    fn provided(&self) -> impl Iterator<Item = ViewedTool> {
        let mut taken = HashSet::new();
        let offers = self.providers.iter().flat_map(|provider| {
            let offer = move |tool| ViewedTool::provided(tool, Arc::clone(provider));
            provider.list_tools().into_iter().map(offer)
        });
        offers.filter(move |tool| {
            let name = tool.name();
            let mut mine = self.snapshot.tools_called_in(name, self.toolset.tools());
            let free = mine.next().is_none() && taken.insert(name.to_owned());
            if !free {
                tracing::debug!(name, "a provider's tool `{name}` is shadowed by another");
            }
            free
        })
    }
}

fn missing(name: &str) -> NotFound {
    NotFound::NoSuchTool { name: name.into() }
}
