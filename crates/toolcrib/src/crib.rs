//! [`Toolcrib`]: one catalog together with everything that works on it; endpoints and embedders hold it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use calls::call_recorder::CallRecorder;
use calls::compiled_tool_cache::CompiledToolCache;
use calls::identity::{AuthMethod, AuthenticationError, CallerIdentity};
use calls::journal_location::JournalLocation;
use calls::secrets::SecretStore;
use calls::source_gates::{GateState, SourceGates};
use calls::telemetry::{CredentialKind, METRICS, MetricsSnapshot, SpanTracer, ToolcribTelemetry};
use calls::upstream_connections::{ProgramHost, UpstreamConnections};
use calls::upstream_credentials::UpstreamKeyring;
use catalog::clock::{Clock, SystemClock};
use catalog::journal::{JournalError, Position};
use catalog::{Catalog, CataloguedSource, CataloguedTool, JournalMoment, Snapshot};
use execution::{ArgumentValidator, CANCEL_DEADLINE};
use jiff::Timestamp;
use model::{Agent, CallFailure, CallLimit, GroupId, SourceId};
use provider::{ProvidedTool, Registry};
use upstream::CancelNotices;
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;
use upstream::readable_folders::ReadableFolders;

use crate::authenticate::Authenticator;
use crate::key_authentication;
use crate::metric_readings::{add_call_log_metrics, add_catalog_metrics, add_gate_metrics};
use crate::provider_snapshot::ProviderSnapshot;
use crate::recent_snapshots::RecentSnapshots;
use crate::refresh::SourceRefresher;
use crate::search_index_cache::SearchIndexCache;
use crate::semantic_search::{EmbeddingOptions, SemanticIndex};
use crate::stored_results::StoredResults;
use crate::toolset::Toolset;
use crate::toolset_resolver::{
    ToolsetCacheLimits, ToolsetResolver, resolve_uncached, resolve_with_unserved,
};
use crate::upstream_subscriptions::UpstreamSubscriptions;
use crate::usage_hints::UsageHints;
use crate::usage_ranking::{CurrentRanking, UsageRanking};
use crate::view::{AgentView, CompiledTool};

/// The most events to fold while a caller waits for an answer.
const MAX_REPLAYED_EVENTS: u64 = 10_000;

/// One catalog with everything that works on it; cheap to clone.
#[derive(Clone)]
pub struct Toolcrib(Arc<ToolcribInner>);

/// A weak handle to a [`Toolcrib`] that may have been dropped.
pub(crate) struct WeakToolcrib(Weak<ToolcribInner>);

impl WeakToolcrib {
    pub(crate) fn upgrade(&self) -> Option<Toolcrib> {
        self.0.upgrade().map(Toolcrib)
    }
}

struct ToolcribInner {
    catalog: Arc<Catalog>,
    refresher: SourceRefresher,
    client: HttpClient,
    resolver: ToolsetResolver,
    finder: SearchIndexCache,
    most_used: CurrentRanking,
    hints: UsageHints,
    meaning: Option<SemanticIndex>,
    ready: CompiledToolCache,
    upstreams: Arc<UpstreamConnections>,
    subscriptions: Arc<UpstreamSubscriptions>,
    gates: SourceGates,
    keyring: Arc<UpstreamKeyring>,
    telemetry: Arc<ToolcribTelemetry>,
    clock: Arc<dyn Clock>,
    options: ToolcribOptions,
    provided: ArcSwapOption<ProviderSnapshot>,
    recent: RecentSnapshots,
    stored_results: StoredResults,
    cancel_notices: CancelNotices<SourceId>,
    /// Serialises reads of the past: each one folds the journal from its start, so one at a time is enough.
    history_lock: tokio::sync::Mutex<()>,
}

/// How a [`Toolcrib`] behaves.
#[derive(Clone, Default)]
pub struct ToolcribOptions {
    /// Whether a caller without a credential is accepted, with the claims `{"anonymous": true}`.
    pub anonymous: bool,
    /// Turns tokens into agents; without it, every token is rejected.
    pub authenticator: Option<Arc<Authenticator>>,
    /// Limits of the cache of resolved toolsets.
    pub cache: ToolsetCacheLimits,
    /// How many calls each agent may make over all sources; unlimited if not set.
    pub per_agent: CallLimit,
    /// Reads the secrets that sources refer to.
    pub secrets: Option<Arc<SecretStore>>,
    /// Where programs that speak MCP are started.
    pub programs: ProgramHost,
    /// Folders whose files may be served as resources; none by default.
    pub resource_folders: ReadableFolders,
    /// Code whose tools, prompts and resources every agent has, regardless of its grant.
    pub registry: Registry,
    /// Records calls in the call log; without it, calls are not recorded.
    pub recorder: Option<Arc<CallRecorder>>,
    /// Whether search ranks tools higher that the agent executed after similar queries.
    pub learns_from_usage: bool,
    /// Where text embeddings come from; without it, search is by words only.
    pub embeddings: Option<EmbeddingOptions>,
    /// Records spans of calls; without it there are none, and incoming traces are passed on unchanged.
    pub tracer: Option<Arc<SpanTracer>>,
}

impl Toolcrib {
    /// Works on this catalog and sends every request through this client.
    pub fn new(
        catalog: Arc<Catalog>,
        client: HttpClient,
        clock: impl Clock + 'static,
        options: ToolcribOptions,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let upstreams =
            Arc::new(UpstreamConnections::new(client.clone(), options.programs.clone()));
        let telemetry = ToolcribTelemetry::new(options.tracer.clone());
        let keyring =
            UpstreamKeyring::new(client.clone(), Arc::clone(&clock), Arc::clone(&telemetry));
        let keyring = Arc::new(keyring);
        let refresher = SourceRefresher::from_parts(
            Arc::clone(&catalog),
            client.clone(),
            Arc::clone(&upstreams),
            (Arc::clone(&keyring), options.secrets.clone()),
            (Arc::clone(&clock), Arc::clone(&telemetry)),
        );
        let meaning = options.embeddings.clone();
        let meaning = meaning.map(|it| SemanticIndex::new(it, &client, options.secrets.clone()));
        let resolver = ToolsetResolver::new(options.cache);
        let looking_back = tokio::sync::Mutex::default();
        let (ready, provided) = (CompiledToolCache::empty(), ArcSwapOption::empty());
        let inner = ToolcribInner {
            catalog,
            refresher,
            client,
            resolver,
            finder: SearchIndexCache::default(),
            most_used: CurrentRanking::default(),
            hints: UsageHints::default(),
            meaning,
            ready,
            upstreams,
            subscriptions: Arc::default(),
            gates: SourceGates::new(Arc::clone(&telemetry), options.per_agent),
            keyring,
            telemetry,
            clock,
            options,
            provided,
            recent: RecentSnapshots::default(),
            stored_results: StoredResults::default(),
            cancel_notices: CancelNotices::with_deadline(CANCEL_DEADLINE),
            history_lock: looking_back,
        };
        Self(Arc::new(inner))
    }

    /// Serves only the given registry, to every caller, in memory: no file, no policy, no credential. If others can
    /// reach the process, use [`Self::new`] and decide which callers to accept.
    pub async fn from_registry(registry: Registry) -> Result<Self, JournalError> {
        let journal = JournalLocation::Memory.open(SystemClock).await?;
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let options = ToolcribOptions { anonymous: true, registry, ..ToolcribOptions::default() };
        Ok(Self::new(catalog, client, SystemClock, options))
    }

    /// The catalog: everything known, and the way to change it.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Waits until every pending cancellation notice was sent to its upstream. Drop the calls before you wait.
    pub async fn wait_for_cancellations(&self) {
        self.0.cancel_notices.wait_until_sent().await;
    }

    pub(crate) fn cancel_notices(&self) -> &CancelNotices<SourceId> {
        &self.0.cancel_notices
    }

    /// Discovers and refreshes sources.
    pub fn refresher(&self) -> &SourceRefresher {
        &self.0.refresher
    }

    /// Refreshes every source when it is due, for as long as it is polled: [`SourceRefresher::keep_fresh`].
    pub async fn keep_fresh(&self) {
        self.0.refresher.keep_fresh().await;
    }

    /// Indexes changes for as long as it is polled, so that a search has little left to index.
    pub async fn keep_searchable(&self) {
        let meaning = async {
            if let Some(meaning) = self.meaning() {
                meaning.follow_catalog(&self.0.catalog).await;
            }
        };
        tokio::join!(self.0.finder.follow_catalog(&self.0.catalog), meaning);
    }

    /// Semantic search, if embeddings are configured.
    pub(crate) fn meaning(&self) -> Option<&SemanticIndex> {
        self.0.meaning.as_ref()
    }

    /// Refreshes the list of most used tools regularly, for as long as it is polled; without a call log the list is
    /// empty.
    pub async fn keep_usage_updated(&self) {
        if let Some(recorder) = self.recorder() {
            self.0.most_used.refresh_periodically(recorder).await;
        }
    }

    /// Refreshes the list of most used tools now.
    pub async fn count_usage(&self) {
        if let Some(recorder) = self.recorder() {
            recorder.flush().await;
            self.0.most_used.refresh_ranking(recorder).await;
        }
    }

    /// Tools that agents executed after searches, if the options enable learning from usage.
    pub(crate) fn hints(&self) -> Option<&UsageHints> {
        self.0.options.learns_from_usage.then_some(&self.0.hints)
    }

    pub(crate) fn most_used(&self) -> Arc<UsageRanking> {
        self.0.most_used.current_ranking()
    }

    pub(crate) fn finder(&self) -> &SearchIndexCache {
        &self.0.finder
    }

    /// Code whose tools, prompts and resources every agent has. A registration takes effect at once.
    pub fn registry(&self) -> &Registry {
        &self.0.options.registry
    }

    /// The tools, prompts and resources that the registered providers offer now.
    pub(crate) fn provider_listing(&self) -> Arc<ProviderSnapshot> {
        let providers = self.registry().provider_list();
        let kept = self.0.provided.load_full();
        if let Some(kept) = kept.filter(|kept| kept.is_current(&providers)) {
            return kept;
        }
        let fresh = Arc::new(ProviderSnapshot::capture(providers));
        self.0.provided.store(Some(Arc::clone(&fresh)));
        fresh
    }

    /// Results that were too long to send at once.
    pub(crate) fn stored_results(&self) -> &StoredResults {
        &self.0.stored_results
    }

    pub(crate) fn ready_tool(
        &self,
        entry: &Arc<CataloguedTool>,
        source: &Arc<CataloguedSource>,
    ) -> Result<Arc<CompiledTool>, CallFailure> {
        self.0.ready.catalog_tool(entry, source, &self.0.client)
    }

    pub(crate) fn provided_tool_arguments(
        &self,
        tool: &Arc<ProvidedTool>,
    ) -> Arc<ArgumentValidator> {
        self.0.ready.provider_arguments(tool)
    }

    pub(crate) fn narrow_toolset(
        &self,
        snapshot: &Snapshot,
        toolset: &Arc<Toolset>,
        group: &GroupId,
    ) -> Option<Arc<Toolset>> {
        self.0.resolver.narrow_to_group(snapshot, toolset, group)
    }

    /// The trusted issuers, if there are any.
    pub fn authenticator(&self) -> Option<&Authenticator> {
        self.0.options.authenticator.as_deref()
    }

    /// Folders whose files may be served as resources.
    pub fn resource_folders(&self) -> &ReadableFolders {
        &self.0.options.resource_folders
    }

    pub(crate) fn keyring(&self) -> &UpstreamKeyring {
        &self.0.keyring
    }

    /// The recorder of the call log, if calls are recorded.
    pub fn recorder(&self) -> Option<&Arc<CallRecorder>> {
        self.0.options.recorder.as_ref()
    }

    /// Whether every call must be rejected because it could not be recorded.
    pub(crate) fn refuses_calls(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.refuses_calls())
    }

    pub(crate) fn records_strictly(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.is_strict())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn gates(&self) -> &SourceGates {
        &self.0.gates
    }

    /// Begins spans, if spans are exported.
    pub fn tracer(&self) -> Option<&Arc<SpanTracer>> {
        self.0.options.tracer.as_ref()
    }

    pub(crate) fn telemetry(&self) -> &Arc<ToolcribTelemetry> {
        &self.0.telemetry
    }

    /// All metrics at this moment.
    pub fn read_metrics(&self) -> MetricsSnapshot {
        let (snapshot, mut reading) =
            (self.0.catalog.snapshot(), MetricsSnapshot::with_metrics(METRICS));
        let is_there = |id: &str| id.parse().is_ok_and(|id| snapshot.source(&id).is_some());
        self.0.telemetry.add_metrics(is_there, &mut reading);
        add_gate_metrics(&self.0.telemetry, &self.0.gates, &mut reading);
        add_catalog_metrics(&self.0.catalog, &mut reading);
        if let Some(recorder) = self.recorder() {
            add_call_log_metrics(recorder, &mut reading);
        }
        reading
    }

    /// The state of calls to a source; `None` before the first call.
    pub fn gate_state(&self, source: &SourceId) -> Option<GateState> {
        self.0.gates.gate_state(source)
    }

    /// A flag that the server sets while it is overloaded: while it is set, more calls may queue at a source.
    pub fn overload_flag(&self) -> Arc<AtomicBool> {
        self.0.gates.overload_flag()
    }

    /// Closes the circuit breaker of a source, so that calls reach it again.
    pub fn reset_gate(&self, source: &SourceId) {
        self.0.gates.reset_breaker(source);
    }

    /// The subscriptions to resources of MCP servers.
    pub(crate) fn subscriptions(&self) -> &Arc<UpstreamSubscriptions> {
        &self.0.subscriptions
    }

    pub(crate) fn downgrade(&self) -> WeakToolcrib {
        WeakToolcrib(Arc::downgrade(&self.0))
    }

    pub(crate) fn upstreams(&self) -> &Arc<UpstreamConnections> {
        &self.0.upstreams
    }

    /// The last output on stderr of the program behind a source, with our secrets redacted.
    pub fn source_stderr(&self, source: &SourceId) -> Option<String> {
        let text = self.0.upstreams.program_stderr(source)?;
        Some(self.secrets().map_or(text.clone(), |secrets| secrets.redact(&text)))
    }

    /// The secrets that sources refer to, if they can be read here.
    pub fn secrets(&self) -> Option<&SecretStore> {
        self.0.options.secrets.as_deref()
    }

    /// The snapshot at an earlier moment.
    pub(crate) async fn snapshot_at(
        &self,
        moment: JournalMoment,
    ) -> Result<Snapshot, JournalError> {
        let _turn = self.0.history_lock.lock().await;
        self.0.catalog.snapshot_at(moment).await
    }

    /// Keeps the snapshot of a view for a while, so that the caller can continue with it.
    pub fn retain_snapshot(&self, view: &AgentView) {
        self.0.recent.add_snapshot(view.snapshot());
    }

    /// An agent's view at a recent position, or shortly before it.
    pub fn recent_view(&self, agent: &Agent, position: Position) -> Option<AgentView> {
        let snapshot = self.0.recent.at_or_before(position)?;
        let toolset = Arc::new(resolve_uncached(&snapshot, &agent.claims));
        Some(AgentView::new(self.clone(), snapshot, agent.clone(), toolset))
    }

    /// An agent's view at an earlier position, if it can be computed soon. It folds at most the first
    /// `MAX_REPLAYED_EVENTS` events of the journal, for one caller at a time.
    pub async fn view_at(&self, agent: &Agent, position: Position) -> Option<AgentView> {
        if self.0.catalog.snapshot().position() < position || MAX_REPLAYED_EVENTS < position.0 {
            return None;
        }
        let _turn = self.0.history_lock.try_lock().ok()?;
        let moment = JournalMoment::Position(position);
        let snapshot = Arc::new(self.0.catalog.snapshot_at(moment).await.ok()?);
        let toolset = Arc::new(resolve_uncached(&snapshot, &agent.claims));
        Some(AgentView::new(self.clone(), snapshot, agent.clone(), toolset))
    }

    /// An agent's current view.
    pub fn view(&self, agent: &Agent) -> AgentView {
        let start = Instant::now();
        let snapshot = self.0.catalog.snapshot();
        let toolset = self.0.resolver.resolve_toolset(&snapshot, &agent.claims);
        let groups = toolset.grant().groups.len();
        self.0.telemetry.record_resolution(groups, toolset.tools().len(), start.elapsed());
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// A caller's current view, with the providers that belong to its request.
    pub fn view_for_identity(&self, identity: &CallerIdentity) -> AgentView {
        self.view(&identity.agent).with_providers(&identity.providers)
    }

    /// The view of an anonymous caller: registered tools, and tools that policies grant to everyone. For code that
    /// calls tools itself.
    pub fn anonymous_view(&self) -> AgentView {
        self.view(&CallerIdentity::anonymous().agent)
    }

    /// An agent's current view, resolved again without the cache.
    pub fn uncached_view(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve_uncached(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// An agent's view that includes the tools of its groups that are not served. For admins to inspect, not to call.
    pub fn view_with_unserved(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve_with_unserved(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// Authenticates a bearer credential; without one, the caller is anonymous if the options allow that.
    pub async fn identify(
        &self,
        bearer: Option<&str>,
    ) -> Result<CallerIdentity, AuthenticationError> {
        let identified = self.resolve_identity(bearer).await;
        let credential = match bearer {
            None => CredentialKind::None,
            Some(bearer) if key_authentication::is_api_key(bearer) => CredentialKind::ApiKey,
            Some(_) => CredentialKind::Token,
        };
        self.0.telemetry.record_authentication(credential, identified.is_ok());
        identified
    }

    async fn resolve_identity(
        &self,
        bearer: Option<&str>,
    ) -> Result<CallerIdentity, AuthenticationError> {
        match bearer {
            None if self.0.options.anonymous => Ok(CallerIdentity::anonymous()),
            None => Err(AuthenticationError::NoCredential),
            Some(bearer) if key_authentication::is_api_key(bearer) => {
                let snapshot = self.0.catalog.snapshot();
                let key = key_authentication::find_valid_key(&snapshot, bearer, self.0.clock.now());
                key.map(CallerIdentity::from_api_key).ok_or(AuthenticationError::Key)
            }
            Some(bearer) => match &self.0.options.authenticator {
                Some(authenticator) => Ok(CallerIdentity::from_token(
                    authenticator.verify_token(bearer).await?,
                    bearer,
                )),
                None => Err(AuthenticationError::NoIssuer),
            },
        }
    }

    /// Whether the caller may administer. An anonymous caller is never an admin.
    pub fn is_admin(&self, identity: &CallerIdentity) -> bool {
        match &identity.auth_method {
            AuthMethod::Anonymous => false,
            AuthMethod::Key { admin: true, .. } => true,
            AuthMethod::Key { admin: false, .. } | AuthMethod::Token => {
                let snapshot = self.0.catalog.snapshot();
                self.0.resolver.resolve_toolset(&snapshot, &identity.agent.claims).grant().admin
            }
        }
    }
}
