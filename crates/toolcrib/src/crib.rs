//! [`Toolcrib`]: one catalog together with everything that works on it; endpoints and embedders hold it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use catalog::clock::{Clock, SystemClock};
use catalog::journal::{JournalError, Position};
use catalog::{Catalog, CataloguedSource, CataloguedTool, Moment, Snapshot};
use execution::{Arguments, CANCEL_DEADLINE};
use jiff::Timestamp;
use model::{Agent, Failure, GroupId, Limit, SourceId};
use upstream::LastWords;
use upstream::egress::Egress;
use upstream::files::Folders;
use upstream::http::HttpClient;

use crate::api_key;
use crate::authenticate::Authenticator;
use crate::credentials::Keyring;
use crate::finder::Finder;
use crate::gates::{GateState, Gates};
use crate::hints::Hints;
use crate::identity::{Identity, Means, NotIdentified};
use crate::kept_results::KeptResults;
use crate::meaning::{Embeddings, Meaning};
use crate::most_used::{MostUsed, Ranking};
use crate::place::JournalPlace;
use crate::provided::Provided;
use crate::provider::ProvidedTool;
use crate::ready::ReadyTools;
use crate::recent::Recent;
use crate::record::Recorder;
use crate::refresh::Refresher;
use crate::registry::Registry;
use crate::resolver::{CacheLimits, Resolver, resolve, resolve_with_unserved};
use crate::secrets::Secrets;
use crate::telemetry::{METRICS, Reading, Telemetry, Tracer, read_catalog, read_record};
use crate::toolset::Toolset;
use crate::upstreams::{ProgramHost, Upstreams};
use crate::view::{AgentView, Ready};

/// The most events to fold while a caller waits for an answer.
const SOON: u64 = 10_000;

/// One catalog with everything that works on it; cheap to clone.
#[derive(Clone)]
pub struct Toolcrib(Arc<Inner>);

/// A weak handle to a [`Toolcrib`] that may have been dropped.
pub(crate) struct WeakCrib(Weak<Inner>);

impl WeakCrib {
    pub(crate) fn upgrade(&self) -> Option<Toolcrib> {
        self.0.upgrade().map(Toolcrib)
    }
}

struct Inner {
    catalog: Arc<Catalog>,
    refresher: Refresher,
    client: HttpClient,
    resolver: Resolver,
    finder: Finder,
    most_used: MostUsed,
    hints: Hints,
    meaning: Option<Meaning>,
    ready: ReadyTools,
    upstreams: Arc<Upstreams>,
    gates: Gates,
    keyring: Arc<Keyring>,
    telemetry: Arc<Telemetry>,
    clock: Arc<dyn Clock>,
    options: Options,
    provided: ArcSwapOption<Provided>,
    recent: Recent,
    results: KeptResults,
    last_words: LastWords<SourceId>,
    /// Serialises reads of the past: each one folds the journal from its start, so one at a time is enough.
    looking_back: tokio::sync::Mutex<()>,
}

/// How a [`Toolcrib`] behaves.
#[derive(Clone, Default)]
pub struct Options {
    /// Whether a caller without a credential is accepted, with the claims `{"anonymous": true}`.
    pub anonymous: bool,
    /// Turns tokens into agents; without it, every token is rejected.
    pub authenticator: Option<Arc<Authenticator>>,
    /// Limits of the cache of resolved toolsets.
    pub cache: CacheLimits,
    /// How many calls each agent may make over all sources; unlimited if not set.
    pub per_agent: Limit,
    /// Reads the secrets that sources refer to.
    pub secrets: Option<Arc<Secrets>>,
    /// Where programs that speak MCP are started.
    pub programs: ProgramHost,
    /// Folders whose files may be served as resources; none by default.
    pub resource_folders: Folders,
    /// Code whose tools, prompts and resources every agent has, regardless of its grant.
    pub registry: Registry,
    /// Records calls in the call log; without it, calls are not recorded.
    pub recorder: Option<Arc<Recorder>>,
    /// Whether search ranks tools higher that the agent executed after similar queries.
    pub learns: bool,
    /// Where text embeddings come from; without it, search is by words only.
    pub embeddings: Option<Embeddings>,
    /// Records spans of calls; without it there are none, and incoming traces are passed on unchanged.
    pub tracer: Option<Arc<Tracer>>,
}

impl Toolcrib {
    /// Works on this catalog and sends every request through this client.
    pub fn new(
        catalog: Arc<Catalog>,
        client: HttpClient,
        clock: impl Clock + 'static,
        options: Options,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let upstreams = Arc::new(Upstreams::new(client.clone(), options.programs.clone()));
        let telemetry = Telemetry::new(options.tracer.clone());
        let keyring = Keyring::new(client.clone(), Arc::clone(&clock), Arc::clone(&telemetry));
        let keyring = Arc::new(keyring);
        let refresher = Refresher::over(
            Arc::clone(&catalog),
            client.clone(),
            Arc::clone(&upstreams),
            (Arc::clone(&keyring), options.secrets.clone()),
            (Arc::clone(&clock), Arc::clone(&telemetry)),
        );
        let meaning = options.embeddings.clone();
        let meaning = meaning.map(|it| Meaning::new(it, &client, options.secrets.clone()));
        let resolver = Resolver::new(options.cache);
        let looking_back = tokio::sync::Mutex::default();
        let (ready, provided) = (ReadyTools::new(), ArcSwapOption::empty());
        let inner = Inner {
            catalog,
            refresher,
            client,
            resolver,
            finder: Finder::default(),
            most_used: MostUsed::default(),
            hints: Hints::default(),
            meaning,
            ready,
            upstreams,
            gates: Gates::new(Arc::clone(&telemetry), options.per_agent),
            keyring,
            telemetry,
            clock,
            options,
            provided,
            recent: Recent::default(),
            results: KeptResults::default(),
            last_words: LastWords::within(CANCEL_DEADLINE),
            looking_back,
        };
        Self(Arc::new(inner))
    }

    /// Serves only the given registry, to every caller, in memory: no file, no policy, no credential. If others can
    /// reach the process, use [`Self::new`] and decide which callers to accept.
    pub async fn of(registry: Registry) -> Result<Self, JournalError> {
        let journal = JournalPlace::Memory.open(SystemClock).await?;
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
        let options = Options { anonymous: true, registry, ..Options::default() };
        Ok(Self::new(catalog, client, SystemClock, options))
    }

    /// The catalog: everything known, and the way to change it.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Waits until every pending cancellation notice was sent to its upstream. Drop the calls before you wait.
    pub async fn settle(&self) {
        self.0.last_words.said().await;
    }

    pub(crate) fn last_words(&self) -> &LastWords<SourceId> {
        &self.0.last_words
    }

    /// Discovers and refreshes sources.
    pub fn refresher(&self) -> &Refresher {
        &self.0.refresher
    }

    /// Refreshes every source when it is due, for as long as it is polled: [`Refresher::keep_fresh`].
    pub async fn keep_fresh(&self) {
        self.0.refresher.keep_fresh().await;
    }

    /// Indexes changes for as long as it is polled, so that a search has little left to index.
    pub async fn keep_searchable(&self) {
        let meaning = async {
            if let Some(meaning) = self.meaning() {
                meaning.keep_up(&self.0.catalog).await;
            }
        };
        tokio::join!(self.0.finder.keep_up(&self.0.catalog), meaning);
    }

    /// Semantic search, if embeddings are configured.
    pub(crate) fn meaning(&self) -> Option<&Meaning> {
        self.0.meaning.as_ref()
    }

    /// Refreshes the list of most used tools regularly, for as long as it is polled; without a call log the list is
    /// empty.
    pub async fn keep_counting(&self) {
        if let Some(recorder) = self.recorder() {
            self.0.most_used.keep_up(recorder).await;
        }
    }

    /// Refreshes the list of most used tools now.
    pub async fn count_usage(&self) {
        if let Some(recorder) = self.recorder() {
            recorder.flush().await;
            self.0.most_used.look_up(recorder).await;
        }
    }

    /// Tools that agents executed after searches, if the options enable learning from usage.
    pub(crate) fn hints(&self) -> Option<&Hints> {
        self.0.options.learns.then_some(&self.0.hints)
    }

    pub(crate) fn most_used(&self) -> Arc<Ranking> {
        self.0.most_used.now()
    }

    pub(crate) fn finder(&self) -> &Finder {
        &self.0.finder
    }

    /// Code whose tools, prompts and resources every agent has. A registration takes effect at once.
    pub fn registry(&self) -> &Registry {
        &self.0.options.registry
    }

    /// The tools, prompts and resources that the registered providers offer now.
    pub(crate) fn provided(&self) -> Arc<Provided> {
        let providers = self.registry().providers();
        let kept = self.0.provided.load_full();
        if let Some(kept) = kept.filter(|kept| kept.is_all_of(&providers)) {
            return kept;
        }
        let fresh = Arc::new(Provided::of(providers));
        self.0.provided.store(Some(Arc::clone(&fresh)));
        fresh
    }

    /// Results that were too long to send at once.
    pub(crate) fn results(&self) -> &KeptResults {
        &self.0.results
    }

    pub(crate) fn ready(
        &self,
        entry: &Arc<CataloguedTool>,
        source: &Arc<CataloguedSource>,
    ) -> Result<Arc<Ready>, Failure> {
        self.0.ready.catalogued(entry, source, &self.0.client)
    }

    pub(crate) fn arguments_of_provided(&self, tool: &Arc<ProvidedTool>) -> Arc<Arguments> {
        self.0.ready.provided(tool)
    }

    pub(crate) fn narrowed(
        &self,
        snapshot: &Snapshot,
        toolset: &Arc<Toolset>,
        group: &GroupId,
    ) -> Option<Arc<Toolset>> {
        self.0.resolver.narrowed(snapshot, toolset, group)
    }

    /// The trusted issuers, if there are any.
    pub fn authenticator(&self) -> Option<&Authenticator> {
        self.0.options.authenticator.as_deref()
    }

    /// Folders whose files may be served as resources.
    pub fn resource_folders(&self) -> &Folders {
        &self.0.options.resource_folders
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    /// The recorder of the call log, if calls are recorded.
    pub fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.0.options.recorder.as_ref()
    }

    /// Whether every call must be rejected because it could not be recorded.
    pub(crate) fn refuses_calls(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.refuses())
    }

    pub(crate) fn records_strictly(&self) -> bool {
        self.recorder().is_some_and(|recorder| recorder.is_strict())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    pub(crate) fn gates(&self) -> &Gates {
        &self.0.gates
    }

    /// Begins spans, if spans are exported.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.0.options.tracer.as_ref()
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.telemetry
    }

    /// All metrics at this moment.
    pub fn reading(&self) -> Reading {
        let (snapshot, mut reading) = (self.0.catalog.snapshot(), Reading::of(METRICS));
        let is_there = |id: &str| id.parse().is_ok_and(|id| snapshot.source(&id).is_some());
        self.0.telemetry.read(is_there, &mut reading);
        self.0.telemetry.read_gates(&self.0.gates, &mut reading);
        read_catalog(&self.0.catalog, &mut reading);
        if let Some(recorder) = self.recorder() {
            read_record(recorder, &mut reading);
        }
        reading
    }

    /// The state of calls to a source; `None` before the first call.
    pub fn gate_of(&self, source: &SourceId) -> Option<GateState> {
        self.0.gates.state(source)
    }

    /// A flag that the server sets while it is overloaded: while it is set, more calls may queue at a source.
    pub fn crowd(&self) -> Arc<AtomicBool> {
        self.0.gates.crowd()
    }

    /// Closes the circuit breaker of a source, so that calls reach it again.
    pub fn reset_gate(&self, source: &SourceId) {
        self.0.gates.reset(source);
    }

    pub(crate) fn downgrade(&self) -> WeakCrib {
        WeakCrib(Arc::downgrade(&self.0))
    }

    pub(crate) fn upstreams(&self) -> &Arc<Upstreams> {
        &self.0.upstreams
    }

    /// The last output on stderr of the program behind a source, with our secrets redacted.
    pub fn stderr_of(&self, source: &SourceId) -> Option<String> {
        let text = self.0.upstreams.stderr(source)?;
        Some(self.secrets().map_or(text.clone(), |secrets| secrets.redact(&text)))
    }

    /// The secrets that sources refer to, if they can be read here.
    pub fn secrets(&self) -> Option<&Secrets> {
        self.0.options.secrets.as_deref()
    }

    /// The snapshot at an earlier moment.
    pub(crate) async fn snapshot_at(&self, moment: Moment) -> Result<Snapshot, JournalError> {
        let _turn = self.0.looking_back.lock().await;
        self.0.catalog.snapshot_at(moment).await
    }

    /// Keeps the snapshot of a view for a while, so that the caller can continue with it.
    pub fn keep(&self, view: &AgentView) {
        self.0.recent.keep(view.snapshot());
    }

    /// An agent's view at a recent position, or shortly before it.
    pub fn recent_view(&self, agent: &Agent, position: Position) -> Option<AgentView> {
        let snapshot = self.0.recent.at(position)?;
        let toolset = Arc::new(resolve(&snapshot, &agent.claims));
        Some(AgentView::new(self.clone(), snapshot, agent.clone(), toolset))
    }

    /// An agent's view at an earlier position, if it can be computed soon. It folds at most the first
    /// `MAX_REPLAYED_EVENTS` events of the journal, for one caller at a time.
    pub async fn view_at(&self, agent: &Agent, position: Position) -> Option<AgentView> {
        if self.0.catalog.snapshot().position() < position || SOON < position.0 {
            return None;
        }
        let _turn = self.0.looking_back.try_lock().ok()?;
        let moment = Moment::Position(position);
        let snapshot = Arc::new(self.0.catalog.snapshot_at(moment).await.ok()?);
        let toolset = Arc::new(resolve(&snapshot, &agent.claims));
        Some(AgentView::new(self.clone(), snapshot, agent.clone(), toolset))
    }

    /// An agent's current view.
    pub fn view(&self, agent: &Agent) -> AgentView {
        let start = Instant::now();
        let snapshot = self.0.catalog.snapshot();
        let toolset = self.0.resolver.toolset(&snapshot, &agent.claims);
        self.0.telemetry.resolved(&toolset, start.elapsed());
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// A caller's current view, with the providers that belong to its request.
    pub fn view_of(&self, identity: &Identity) -> AgentView {
        self.view(&identity.agent).with_providers(&identity.providers)
    }

    /// The view of an anonymous caller: registered tools, and tools that policies grant to everyone. For code that
    /// calls tools itself.
    pub fn anyone(&self) -> AgentView {
        self.view(&Identity::anonymous().agent)
    }

    /// An agent's current view, resolved again without the cache.
    pub fn fresh_view(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// An agent's view that includes the tools of its groups that are not served. For admins to inspect, not to call.
    pub fn view_with_unserved(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve_with_unserved(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// Authenticates a bearer credential; without one, the caller is anonymous if the options allow that.
    pub async fn identify(&self, bearer: Option<&str>) -> Result<Identity, NotIdentified> {
        let identified = self.identified(bearer).await;
        self.0.telemetry.authenticated(bearer, identified.is_ok());
        identified
    }

    async fn identified(&self, bearer: Option<&str>) -> Result<Identity, NotIdentified> {
        match bearer {
            None if self.0.options.anonymous => Ok(Identity::anonymous()),
            None => Err(NotIdentified::NoCredential),
            Some(bearer) if api_key::is_key(bearer) => {
                let snapshot = self.0.catalog.snapshot();
                let key = api_key::find(&snapshot, bearer, self.0.clock.now());
                key.map(Identity::of_key).ok_or(NotIdentified::Key)
            }
            Some(bearer) => match &self.0.options.authenticator {
                Some(authenticator) => {
                    Ok(Identity::of_token(authenticator.token(bearer).await?, bearer))
                }
                None => Err(NotIdentified::NoIssuer),
            },
        }
    }

    /// Whether the caller may administer. An anonymous caller is never an admin.
    pub fn is_admin(&self, identity: &Identity) -> bool {
        match &identity.means {
            Means::Nothing => false,
            Means::Key { admin: true, .. } => true,
            Means::Key { admin: false, .. } | Means::Token => {
                let snapshot = self.0.catalog.snapshot();
                self.0.resolver.toolset(&snapshot, &identity.agent.claims).grant().admin
            }
        }
    }
}
