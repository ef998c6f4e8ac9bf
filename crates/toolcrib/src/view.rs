//! `AgentView`: the only way to list, find, search or call tools for an agent.
//!
//! A view serves one request. Catalog tools come from one snapshot; provider tools come from the providers at the time
//! of the request. A tool that is not granted and a tool that does not exist look the same.

mod call;
mod catalog_offers;
mod completion;
mod custom_offers;
mod list_changes;
mod meta_tools;
mod pinned_tools;
mod prompts_and_resources;
mod resource_subscription;
mod scope_check;
mod search;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use calls::call_recorder::CallOrigin;
use calls::identity::RequestCredentials;
use catalog::tool_set::Slot;
use catalog::{CataloguedTool, Snapshot};
use model::{Agent, Execution, GroupId, SourceKind, ToolId, Visibility};
use provider::{GuardedLists as _, ProvidedTool, RequestProviders, ToolProvider};

use crate::crib::Toolcrib;
use crate::provider_snapshot::ProviderSnapshot;
use crate::toolset::Toolset;

pub use crate::meta_tool::MetaTool;
pub use crate::search_hit::ToolHit;
use crate::viewed_tool::ToolOrigin;
pub use crate::viewed_tool::ViewedTool;
use call::WorkflowNesting;
pub use call::{CallResult, CompletedCall, ContinuationSupport, ToolAnswer};
pub(crate) use calls::compiled_tool::CompiledTool;
pub use list_changes::ListChange;
pub use pinned_tools::PinnedTools;
pub use prompts_and_resources::OfferResult;
pub use search::OfferHit;

/// Maximum length of an unknown tool name that an error repeats, in characters.
const MAX_ECHOED_NAME: usize = 200;

/// Everything that one agent can list, find, search and call.
#[derive(Clone)]
pub struct AgentView {
    crib: Toolcrib,
    snapshot: Arc<Snapshot>,
    agent: Agent,
    toolset: Arc<Toolset>,
    provided: Arc<ProviderSnapshot>,
    /// Providers of this request only. Lookup order: catalog, then shared providers, then these.
    own_providers: Vec<Arc<dyn ToolProvider>>,
    /// The view is restricted to one group and excludes the tools of shared providers.
    is_narrowed: bool,
    /// If set, the list holds only `tool_search`, `execute_tool` and these tools.
    pinned_tools: Option<Arc<PinnedTools>>,
    /// The endpoint and trace of the request, for the call log.
    via: CallOrigin,
    /// Credentials and headers of the request, for upstreams that use the agent's own rights.
    request_credentials: RequestCredentials,
    /// How long the client waits for a call.
    client_timeout: Option<Duration>,
    /// How the client can read the rest of a truncated result.
    continuation: ContinuationSupport,
    /// The workflow whose step makes the call, if any.
    parent_workflow: Option<Arc<WorkflowNesting>>,
}

/// Cache key of a view: two views with equal stamps show the agent the same tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewStamp {
    toolset: u64,
    provided: u64,
    pinned_tools: Option<u64>,
}

/// Why a name does not resolve to exactly one tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolLookupError {
    /// Unknown, or not granted: the agent cannot tell which.
    #[error("Tool not found: {name}")]
    NoSuchTool {
        /// The name that was looked up.
        name: Box<str>,
    },
    /// Several of the agent's tools match the name.
    #[error("several tools are called `{name}`: say which, `{}`", names.join("` or `"))]
    Ambiguous {
        /// The name that was looked up.
        name: Box<str>,
        /// The names of the matching tools in the agent's list.
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
        let (provided, own_providers) = (crib.provider_listing(), Vec::new());
        Self {
            crib,
            snapshot,
            agent,
            toolset,
            provided,
            own_providers,
            is_narrowed: false,
            pinned_tools: None,
            via: CallOrigin::default(),
            request_credentials: RequestCredentials::default(),
            client_timeout: None,
            continuation: ContinuationSupport::default(),
            parent_workflow: None,
        }
    }

    /// Limits how long the client waits for a call. Sources may have less time, never more.
    pub fn with_client_timeout(self, patience: Option<Duration>) -> Self {
        Self { client_timeout: patience, ..self }
    }

    /// Sets how the client can read the rest of truncated results.
    pub fn with_continuation(self, reads_on: ContinuationSupport) -> Self {
        Self { continuation: reads_on, ..self }
    }

    /// Whether results may be truncated, with the rest readable as a resource. This applies to tools of sources.
    pub fn may_truncate_results(&self) -> bool {
        !self.toolset.tools().is_empty()
    }

    /// Sets the endpoint and trace of the request, for the call log.
    pub fn with_via(self, via: CallOrigin) -> Self {
        Self { via, ..self }
    }

    /// Adds the credentials of the request. Without them, upstreams that use the agent's own rights are not called.
    pub fn with_request_credentials(mut self, came_with: &RequestCredentials) -> Self {
        self.request_credentials = came_with.clone();
        self
    }

    /// Adds the tools of a provider, for this request only.
    pub fn with_provider(mut self, provider: Arc<dyn ToolProvider>) -> Self {
        self.own_providers.push(provider);
        self
    }

    /// Adds the tools of several providers, for this request only.
    pub fn with_providers(mut self, providers: &RequestProviders) -> Self {
        self.own_providers.extend(providers.iter().cloned());
        self
    }

    /// Restricts the view to one group; `None` if the agent does not have that group.
    pub fn narrow_to_group(self, group: &GroupId) -> Option<Self> {
        let toolset = self.crib.narrow_toolset(&self.snapshot, &self.toolset, group)?;
        Some(Self { toolset, is_narrowed: true, ..self })
    }

    /// Reduces the list to `tool_search` and `execute_tool`, which reach all other tools (requirement A6).
    pub fn search_only(self) -> Self {
        self.search_only_with_pinned(PinnedTools::empty())
    }

    /// Reduces the list to `tool_search`, `execute_tool` and a few pinned tools.
    pub fn search_only_with_pinned(self, beside: Arc<PinnedTools>) -> Self {
        Self { pinned_tools: Some(beside), ..self }
    }

    /// The pinned tools, if the list is reduced to search.
    pub fn pinned_tools(&self) -> Option<&Arc<PinnedTools>> {
        self.pinned_tools.as_ref()
    }

    /// All providers of the view: the shared ones first, then those of this request.
    fn tool_providers(&self) -> impl Iterator<Item = &Arc<dyn ToolProvider>> {
        let of_all = self.provided.providers.iter().filter(|_| !self.is_narrowed);
        of_all.chain(&self.own_providers)
    }

    /// The cache key of this view; `None` if providers of this request make it uncacheable.
    pub fn stamp(&self) -> Option<ViewStamp> {
        let provided = if self.is_narrowed { 0 } else { self.provided.serial };
        let by_search = self.pinned_tools.as_ref().map(|beside| beside.serial());
        let stamp = ViewStamp { toolset: self.toolset.serial(), provided, pinned_tools: by_search };
        self.own_providers.is_empty().then_some(stamp)
    }

    /// Whether the agent has the tools `tool_search` and `execute_tool`.
    pub fn has_search(&self) -> bool {
        let is_searched = |provider: &Arc<dyn ToolProvider>| {
            let tools = provider.tools_or_empty();
            tools.iter().any(|tool| tool.visibility == Visibility::Searchable)
        };
        self.pinned_tools.is_some()
            || !self.toolset.searchable().is_empty()
            || (self.provided.is_searched && !self.is_narrowed)
            || self.own_providers.iter().any(is_searched)
    }

    /// Whether a call may continue after the client received its response.
    pub fn may_outlive_request(&self) -> bool {
        let mut provided = self.tool_providers().flat_map(|provider| provider.tools_or_empty());
        provided.any(|tool| tool.may_outlive_request) || self.has_mcp_tools()
    }

    /// An MCP server decides itself whether a call becomes a task, so any of its tools may.
    fn has_mcp_tools(&self) -> bool {
        let is_of_server = |tool: &Arc<CataloguedTool>| {
            let manifest = tool.tool.served_manifest();
            manifest.is_some_and(|manifest| manifest.execution == Execution::McpCall)
        };
        let mut sources = self.snapshot.sources();
        // Without MCP sources, skip the scan over all tools.
        let has_servers = sources.any(|it| it.source.profile.settings.kind() == SourceKind::Mcp);
        let mut tools = self.toolset.tools().iter();
        has_servers && tools.any(|slot| self.snapshot.tool_at(slot).is_some_and(is_of_server))
    }

    /// The agent that this view belongs to.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The catalog snapshot that this view reads.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The catalog tools that the agent is granted.
    pub fn toolset(&self) -> &Arc<Toolset> {
        &self.toolset
    }

    /// The listed tools: meta tools, then catalog tools by id, then provider tools.
    pub fn list(&self) -> Vec<ViewedTool> {
        let meta = self.has_search().then(|| MetaTool::ALL.map(ViewedTool::from_meta));
        let meta = meta.into_iter().flatten();
        let listed = self.toolset.listed_tools(&self.snapshot);
        if let Some(beside) = &self.pinned_tools {
            let few = listed.filter(|(entry, _)| beside.contains(entry.slot));
            let few = few.map(|(entry, name)| ViewedTool::from_catalog(entry, name.into()));
            return meta.chain(few).collect();
        }
        let tools = listed.map(|(entry, name)| ViewedTool::from_catalog(entry, name.into()));
        let provided =
            self.provided_tools().filter(|tool| self.visibility_of(tool) == Visibility::Listed);
        meta.chain(tools).chain(provided).collect()
    }

    /// Finds a tool by its listed name, or by another of its names if that is unambiguous.
    pub fn find(&self, name: &str) -> Result<ViewedTool, ToolLookupError> {
        if let Some(meta) = MetaTool::find_by_name(name).filter(|_| self.has_search()) {
            return Ok(ViewedTool::from_meta(meta));
        }
        let found = self.snapshot.tools_named_within(name, self.toolset.tools());
        let mut found: Vec<ViewedTool> = found.map(|entry| self.to_viewed_tool(entry)).collect();
        match found.len() {
            0 => self.find_provided(name).ok_or_else(|| no_such_tool(name)),
            1 => Ok(found.remove(0)),
            _ => match found
                .iter()
                .position(|tool| tool.name() == name)
                .or_else(|| position_by_unique_name(&found, name))
            {
                Some(place) => Ok(found.remove(place)),
                None => {
                    let mut names: Vec<_> =
                        found.iter().map(|tool| tool.name().to_owned()).collect();
                    names.sort_unstable();
                    Err(ToolLookupError::Ambiguous { name: name.into(), names })
                }
            },
        }
    }

    /// Finds a catalog tool by id.
    pub fn find_by_id(&self, id: &ToolId) -> Result<ViewedTool, ToolLookupError> {
        let granted = |entry: &&Arc<CataloguedTool>| self.toolset.tools().contains(entry.slot);
        let found = self.snapshot.tool(id).filter(granted);
        found.map(|entry| self.to_viewed_tool(entry)).ok_or_else(|| no_such_tool(id.as_str()))
    }

    /// Whether the agent sees the tool in lists, by search only, or not at all.
    pub fn visibility_of(&self, tool: &ViewedTool) -> Visibility {
        match &tool.origin {
            ToolOrigin::Catalog(entry) => self.toolset.visibility(entry.slot).unwrap_or_default(),
            ToolOrigin::Provider(tool, _) => tool.visibility,
            ToolOrigin::Meta(_) => Visibility::Listed,
        }
    }

    fn to_viewed_tool(&self, entry: &Arc<CataloguedTool>) -> ViewedTool {
        ViewedTool::from_catalog(entry, self.toolset.name_for_agent(&self.snapshot, entry))
    }

    /// Finds a provider tool. Called only for names that no catalog tool has.
    fn find_provided(&self, name: &str) -> Option<ViewedTool> {
        if MetaTool::find_by_name(name).is_some() {
            return None;
        }
        let by_name = self.tool_providers().find_map(|provider| {
            Some(ViewedTool::from_provider(provider.get_tool(name)?, Arc::clone(provider)))
        });
        by_name.or_else(|| self.provided_tools().find(|tool| tool.portable_name() == name))
    }

    /// The provider tools that agents can find: names that are not taken yet, the first provider wins.
    fn provided_tools(&self) -> impl Iterator<Item = ViewedTool> {
        let of_all =
            self.shared_provided_slots().filter_map(|slot| self.provided.viewed_tool_at(slot));
        of_all.chain(self.request_provided_tools())
    }

    /// Slots of the shared provider tools. Allocates and copies nothing, because every request runs it.
    fn shared_provided_slots(&self) -> impl Iterator<Item = Slot> {
        let all = (0..).zip(&self.provided.tools).filter(|_| !self.is_narrowed);
        all.filter(|(_, (tool, _))| self.is_findable_provided(tool, true)).map(|(slot, _)| slot)
    }

    /// The provider tools of this request only.
    fn request_provided_tools(&self) -> impl Iterator<Item = ViewedTool> {
        let is_taken_before = !self.is_narrowed && !self.own_providers.is_empty();
        let before = self.provided.tools.iter().filter(|_| is_taken_before);
        let before: HashSet<&str> = before.map(|(tool, _)| &*tool.name).collect();
        let mut taken = HashSet::new();
        let own = self.own_providers.iter();
        let own = own.flat_map(|by| by.tools_or_empty().into_iter().map(move |tool| (tool, by)));
        let free = own.filter(move |(tool, _)| {
            let is_first = !before.contains(&*tool.name) && taken.insert(tool.name.clone());
            self.is_findable_provided(tool, is_first)
        });
        free.map(|(tool, by)| ViewedTool::from_provider(tool, Arc::clone(by)))
    }

    /// Whether agents can find a provider tool: catalog tools and meta tools of the same name win, and so does an
    /// earlier one.
    fn is_findable_provided(&self, tool: &ProvidedTool, is_first: bool) -> bool {
        let name = &*tool.name;
        let mut mine = self.snapshot.tools_named_within(name, self.toolset.tools());
        let is_free = is_first && mine.next().is_none() && MetaTool::find_by_name(name).is_none();
        if !is_free {
            tracing::debug!(name, "a provider's tool `{name}` is shadowed by another");
        }
        is_free && tool.visibility != Visibility::Hidden
    }
}

/// The tool whose globally unique name this is: it wins over other tools with the same listed name.
fn position_by_unique_name(found: &[ViewedTool], name: &str) -> Option<usize> {
    let unique = |tool: &ViewedTool| tool.catalog_entry().map(|entry| entry.tool.unique_name());
    found.iter().position(|tool| unique(tool).is_some_and(|unique| unique == name))
}

/// Repeats the name in the error, truncated to `MAX_ECHOED_NAME`.
fn no_such_tool(name: &str) -> ToolLookupError {
    let name: String = name.chars().take(MAX_ECHOED_NAME).collect();
    ToolLookupError::NoSuchTool { name: name.into() }
}
