//! What one agent sees: the only way to list, find, search or call tools for an agent.
//!
//! A view is taken for one request: what the catalog has is answered from one snapshot, and what providers have when they
//! are asked. A tool that is not granted and a tool that does not exist look the same.

mod beside;
mod call;
mod complete;
mod custom;
mod follow;
mod meta;
mod offers;
mod primitives;
mod ready;
mod scopes;
mod search;
mod since;
mod tool;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use catalog::tool_set::Slot;
use catalog::{CataloguedTool, Snapshot};
use model::{Agent, Execution, GroupId, Kind, ToolId, Visibility};

use crate::crib::Toolcrib;
use crate::identity::CameWith;
use crate::provided::Provided;
use crate::provider::{Lists as _, ProvidedTool, RequestProviders, ToolProvider};
use crate::record::Via;
use crate::toolset::Toolset;

pub use beside::Beside;
use call::Nested;
pub use call::{Called, Done, ReadsOn, ToolAnswer};
pub use meta::MetaTool;
pub use primitives::Got;
pub(crate) use ready::{Ready, origin};
pub(crate) use search::index_of;
pub(crate) use search::rounded;
pub use search::{Hit, OfferHit};
pub use since::Changed;
use tool::Origin;
pub use tool::ViewedTool;

/// How much of a name is repeated that nobody has, in characters.
const SHOWN: usize = 200;

/// What one agent sees.
#[derive(Clone)]
pub struct AgentView {
    crib: Toolcrib,
    snapshot: Arc<Snapshot>,
    agent: Agent,
    toolset: Arc<Toolset>,
    provided: Arc<Provided>,
    /// For this request only; what the catalog has comes first, then the providers of the crib, then these.
    own_providers: Vec<Arc<dyn ToolProvider>>,
    /// One group of it, without the tools of providers.
    is_narrowed: bool,
    /// The list has only `tool_search`, `execute_tool` and these.
    by_search: Option<Arc<Beside>>,
    /// By which way the agent comes, for the record.
    via: Via,
    /// For upstreams that are called.
    came_with: CameWith,
    /// How long the agent waits for what it calls.
    patience: Option<Duration>,
    /// How it gets to the rest of what is too long.
    reads_on: ReadsOn,
    /// The workflow whose step it calls for, if it is one.
    within: Option<Arc<Nested>>,
}

/// Names what an agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    toolset: u64,
    provided: u64,
    by_search: Option<u64>,
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
        let (provided, own_providers) = (crib.provided(), Vec::new());
        Self {
            crib,
            snapshot,
            agent,
            toolset,
            provided,
            own_providers,
            is_narrowed: false,
            by_search: None,
            via: Via::default(),
            came_with: CameWith::default(),
            patience: None,
            reads_on: ReadsOn::default(),
            within: None,
        }
    }

    /// For an agent that waits so long for what it calls. Sources may have less time, and never more.
    pub fn within(self, patience: Option<Duration>) -> Self {
        Self { patience, ..self }
    }

    /// For an agent that reads the rest of answers that are too long in these ways.
    pub fn reading_on(self, reads_on: ReadsOn) -> Self {
        Self { reads_on, ..self }
    }

    /// Whether answers may be cut, so that the rest of them is a resource: those of sources are.
    pub fn may_be_cut(&self) -> bool {
        !self.toolset.tools().is_empty()
    }

    /// Says by which way the agent comes, for the record of its calls.
    pub fn via(self, via: Via) -> Self {
        Self { via, ..self }
    }

    /// With what came with the request. Without it, upstreams that want the agent's own rights are not called.
    pub fn came_with(mut self, came_with: &CameWith) -> Self {
        self.came_with = came_with.clone();
        self
    }

    /// With the tools of a provider, for this request only.
    pub fn with_provider(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.own_providers.push(provider);
        self
    }

    /// The same of several.
    pub fn with_providers(mut self, providers: &RequestProviders) -> Self {
        self.own_providers.extend(providers.iter().cloned());
        self
    }

    /// What is left of it in one group; none if the agent does not have that group.
    pub fn narrowed(self, group: &GroupId) -> Option<Self> {
        let toolset = self.crib.narrowed(&self.snapshot, &self.toolset, group)?;
        Some(Self { toolset, is_narrowed: true, ..self })
    }

    /// With a list of nothing but `tool_search` and `execute_tool`, which reach the rest (requirement A6).
    pub fn by_search(self) -> Self {
        self.by_search_beside(Beside::nothing())
    }

    /// The same with a few tools beside those two.
    pub fn by_search_beside(self, beside: Arc<Beside>) -> Self {
        Self { by_search: Some(beside), ..self }
    }

    /// What is beside those two, if its list is of that kind.
    pub fn beside(&self) -> Option<&Arc<Beside>> {
        self.by_search.as_ref()
    }

    /// Where the agent gets its tools besides the catalog.
    fn providers(&self) -> impl Iterator<Item = &Arc<dyn ToolProvider>> {
        let of_all = self.provided.providers.iter().filter(|_| !self.is_narrowed);
        of_all.chain(&self.own_providers)
    }

    /// Names what the agent sees: what is made from two views of one stamp is the same. None if nobody can say.
    pub fn stamp(&self) -> Option<Stamp> {
        let provided = if self.is_narrowed { 0 } else { self.provided.serial };
        let by_search = self.by_search.as_ref().map(|beside| beside.number());
        let stamp = Stamp { toolset: self.toolset.serial(), provided, by_search };
        self.own_providers.is_empty().then_some(stamp)
    }

    /// Whether `tool_search` and `execute_tool` are among the agent's tools.
    pub fn has_search(&self) -> bool {
        let is_searched = |provider: &Arc<dyn ToolProvider>| {
            let tools = provider.tools();
            tools.iter().any(|tool| tool.visibility == Visibility::Searchable)
        };
        self.by_search.is_some()
            || !self.toolset.searchable().is_empty()
            || (self.provided.is_searched && !self.is_narrowed)
            || self.own_providers.iter().any(is_searched)
    }

    /// Whether a call may go on after the caller was answered.
    pub fn may_go_on(&self) -> bool {
        let mut provided = self.providers().flat_map(|provider| provider.tools());
        provided.any(|tool| tool.may_go_on) || self.has_tools_of_servers()
    }

    /// What an MCP server does about a call is up to it.
    fn has_tools_of_servers(&self) -> bool {
        let is_of_server = |tool: &Arc<CataloguedTool>| {
            let manifest = tool.tool.served_manifest();
            manifest.is_some_and(|manifest| manifest.execution == Execution::McpCall)
        };
        let mut sources = self.snapshot.sources();
        // Where there are none, there is no need to look at every tool.
        let has_servers = sources.any(|it| it.source.profile.settings.kind() == Kind::Mcp);
        let mut tools = self.toolset.tools().iter();
        has_servers && tools.any(|slot| self.snapshot.tool_at(slot).is_some_and(is_of_server))
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

    /// The listed tools: those about tools, those of the catalog in the order of their ids, those of providers.
    pub fn list(&self) -> Vec<ViewedTool> {
        let meta = self.has_search().then(|| MetaTool::ALL.map(ViewedTool::meta));
        let meta = meta.into_iter().flatten();
        let listed = self.toolset.list(&self.snapshot);
        if let Some(beside) = &self.by_search {
            let few = listed.filter(|(entry, _)| beside.has(entry.slot));
            let few = few.map(|(entry, name)| ViewedTool::catalogued(entry, name.into()));
            return meta.chain(few).collect();
        }
        let tools = listed.map(|(entry, name)| ViewedTool::catalogued(entry, name.into()));
        let provided = self.provided().filter(|tool| self.visibility(tool) == Visibility::Listed);
        meta.chain(tools).chain(provided).collect()
    }

    /// The tool that goes by this name, in the form the agent is shown or in another that is not ambiguous.
    pub fn find(&self, name: &str) -> Result<ViewedTool, NotFound> {
        if let Some(meta) = MetaTool::named(name).filter(|_| self.has_search()) {
            return Ok(ViewedTool::meta(meta));
        }
        let found = self.snapshot.tools_called_in(name, self.toolset.tools());
        let mut found: Vec<ViewedTool> = found.map(|entry| self.viewed(entry)).collect();
        match found.len() {
            0 => self.provided_by_name(name).ok_or_else(|| missing(name)),
            1 => Ok(found.remove(0)),
            _ => match found
                .iter()
                .position(|tool| tool.name() == name)
                .or_else(|| last(&found, name))
            {
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
        match &tool.origin {
            Origin::Catalog(entry) => self.toolset.visibility(entry.slot).unwrap_or_default(),
            Origin::Provider(tool, _) => tool.visibility,
            Origin::Meta(_) => Visibility::Listed,
        }
    }

    fn viewed(&self, entry: &Arc<CataloguedTool>) -> ViewedTool {
        ViewedTool::catalogued(entry, self.toolset.name(&self.snapshot, entry))
    }

    /// Asked only for names that no tool of the catalog goes by.
    fn provided_by_name(&self, name: &str) -> Option<ViewedTool> {
        if MetaTool::named(name).is_some() {
            return None;
        }
        let by_name = self.providers().find_map(|provider| {
            Some(ViewedTool::provided(provider.get_tool(name)?, Arc::clone(provider)))
        });
        by_name.or_else(|| self.provided().find(|tool| tool.portable_name() == name))
    }

    /// What providers add for agents to find: names that are free, the first provider first.
    fn provided(&self) -> impl Iterator<Item = ViewedTool> {
        let of_all = self.provided_for_all().filter_map(|slot| self.provided.viewed(slot));
        of_all.chain(self.provided_for_request())
    }

    /// The places of what they have for all agents. Nothing is counted or copied: everybody looks there at once.
    fn provided_for_all(&self) -> impl Iterator<Item = Slot> {
        let all = (0..).zip(&self.provided.tools).filter(|_| !self.is_narrowed);
        all.filter(|(_, (tool, _))| self.is_added(tool, true)).map(|(slot, _)| slot)
    }

    /// What they have for this request only.
    fn provided_for_request(&self) -> impl Iterator<Item = ViewedTool> {
        let is_taken_before = !self.is_narrowed && !self.own_providers.is_empty();
        let before = self.provided.tools.iter().filter(|_| is_taken_before);
        let before: HashSet<&str> = before.map(|(tool, _)| &*tool.name).collect();
        let mut taken = HashSet::new();
        let own = self.own_providers.iter();
        let own = own.flat_map(|by| by.tools().into_iter().map(move |tool| (tool, by)));
        let free = own.filter(move |(tool, _)| {
            let is_first = !before.contains(&*tool.name) && taken.insert(tool.name.clone());
            self.is_added(tool, is_first)
        });
        free.map(|(tool, by)| ViewedTool::provided(tool, Arc::clone(by)))
    }

    /// Whether agents find a provider's tool, the first of its name or not: the catalog and we ourselves come first.
    fn is_added(&self, tool: &ProvidedTool, is_first: bool) -> bool {
        let name = &*tool.name;
        let mut mine = self.snapshot.tools_called_in(name, self.toolset.tools());
        let is_free = is_first && mine.next().is_none() && MetaTool::named(name).is_none();
        if !is_free {
            tracing::debug!(name, "a provider's tool `{name}` is shadowed by another");
        }
        is_free && tool.visibility != Visibility::Hidden
    }
}

/// Whose last form it is. Others may be called so, but it is made for this one.
fn last(found: &[ViewedTool], name: &str) -> Option<usize> {
    let unique = |tool: &ViewedTool| tool.entry().map(|entry| entry.tool.unique_name());
    found.iter().position(|tool| unique(tool).is_some_and(|unique| unique == name))
}

/// Names are repeated, but not at any length.
fn missing(name: &str) -> NotFound {
    let name: String = name.chars().take(SHOWN).collect();
    NotFound::NoSuchTool { name: name.into() }
}
