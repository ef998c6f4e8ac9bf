//! The crib: one catalog with everything that works on it. What doors and embedders hold.

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

/// How many events are folded while somebody waits for an answer.
const SOON: u64 = 10_000;

/// One catalog with everything that works on it; cheap to clone.
#[derive(Clone)]
pub struct Toolcrib(Arc<Inner>);

/// A crib that may be gone.
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
    /// Whoever holds it looks back: that folds the journal from its start, and one at a time is enough.
    looking_back: tokio::sync::Mutex<()>,
}

/// How a crib behaves.
#[derive(Clone, Default)]
pub struct Options {
    /// Whether a caller that shows nothing gets in, with the claims `{"anonymous": true}`.
    pub anonymous: bool,
    /// Turns tokens into agents; without it, no token is taken.
    pub authenticator: Option<Arc<Authenticator>>,
    /// How long resolved toolsets are kept.
    pub cache: CacheLimits,
    /// How many calls each agent may make, whatever they are of; without a limit if not said.
    pub per_agent: Limit,
    /// Reads the secrets that sources refer to.
    pub secrets: Option<Arc<Secrets>>,
    /// Where programs that speak MCP are started.
    pub programs: ProgramHost,
    /// Folders whose files may be resources; without any, none is.
    pub resource_folders: Folders,
    /// Code whose tools, prompts and resources every agent has, whatever it was granted.
    pub registry: Registry,
    /// Records calls; without it, none is.
    pub recorder: Option<Arc<Recorder>>,
    /// Whether an agent finds sooner what it executed after similar questions.
    pub learns: bool,
    /// Where vectors of texts come from; without it, tools are searched by words alone.
    pub embeddings: Option<Embeddings>,
    /// Takes spans of calls; without it, there are none, and traces are passed on as they came.
    pub tracer: Option<Arc<Tracer>>,
}

impl Toolcrib {
    /// Over a catalog; everything is fetched through this client.
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

    /// Nothing but what is registered, for everybody, in memory: no file, no policy, no credential. Where others can
    /// reach it, [`Self::new`] says who may come in.
    pub async fn of(registry: Registry) -> Result<Self, JournalError> {
        let journal = JournalPlace::Memory.open(SystemClock).await?;
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
        let options = Options { anonymous: true, registry, ..Options::default() };
        Ok(Self::new(catalog, client, SystemClock, options))
    }

    /// Everything known, and the way to change it.
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Waits until upstreams were told of all work that is not wanted any more. Whoever stops drops its calls first.
    pub async fn settle(&self) {
        self.0.last_words.said().await;
    }

    pub(crate) fn last_words(&self) -> &LastWords<SourceId> {
        &self.0.last_words
    }

    /// Asks sources what they offer.
    pub fn refresher(&self) -> &Refresher {
        &self.0.refresher
    }

    /// Refreshes every source when it is due, for as long as it is polled: [`Refresher::keep_fresh`].
    pub async fn keep_fresh(&self) {
        self.0.refresher.keep_fresh().await;
    }

    /// Indexes what changes for as long as it is polled, so that no search has much left to do.
    pub async fn keep_searchable(&self) {
        let meaning = async {
            if let Some(meaning) = self.meaning() {
                meaning.keep_up(&self.0.catalog).await;
            }
        };
        tokio::join!(self.0.finder.keep_up(&self.0.catalog), meaning);
    }

    /// What texts mean, if somebody can say.
    pub(crate) fn meaning(&self) -> Option<&Meaning> {
        self.0.meaning.as_ref()
    }

    /// Looks up the most used tools now and then for as long as it is polled; without a record, there are none.
    pub async fn keep_counting(&self) {
        if let Some(recorder) = self.recorder() {
            self.0.most_used.keep_up(recorder).await;
        }
    }

    /// Looks them up now.
    pub async fn count_usage(&self) {
        if let Some(recorder) = self.recorder() {
            recorder.flush().await;
            self.0.most_used.look_up(recorder).await;
        }
    }

    /// What agents executed after searches, if that is to make a difference.
    pub(crate) fn hints(&self) -> Option<&Hints> {
        self.0.options.learns.then_some(&self.0.hints)
    }

    pub(crate) fn most_used(&self) -> Arc<Ranking> {
        self.0.most_used.now()
    }

    pub(crate) fn finder(&self) -> &Finder {
        &self.0.finder
    }

    /// Code whose tools, prompts and resources every agent has. What is registered there is theirs at once.
    pub fn registry(&self) -> &Registry {
        &self.0.options.registry
    }

    /// What they offer now.
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

    /// What was too long to be handed out at once.
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

    /// The issuers whose tokens are taken, if there are any.
    pub fn authenticator(&self) -> Option<&Authenticator> {
        self.0.options.authenticator.as_deref()
    }

    /// Folders whose files may be resources.
    pub fn resource_folders(&self) -> &Folders {
        &self.0.options.resource_folders
    }

    pub(crate) fn keyring(&self) -> &Keyring {
        &self.0.keyring
    }

    /// Records calls, if that is wanted.
    pub fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.0.options.recorder.as_ref()
    }

    /// Whether nothing may be called, since it could not be recorded.
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

    /// Takes spans, if they are exported.
    pub fn tracer(&self) -> Option<&Arc<Tracer>> {
        self.0.options.tracer.as_ref()
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.telemetry
    }

    /// What was measured so far.
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

    /// How calls to a source are doing; none if there were none yet.
    pub fn gate_of(&self, source: &SourceId) -> Option<GateState> {
        self.0.gates.state(source)
    }

    /// Where a server says whether it has time for all who come: while it has not, more calls wait for a place at a source.
    pub fn crowd(&self) -> Arc<AtomicBool> {
        self.0.gates.crowd()
    }

    /// Has a source called again that was left alone.
    pub fn reset_gate(&self, source: &SourceId) {
        self.0.gates.reset(source);
    }

    pub(crate) fn downgrade(&self) -> WeakCrib {
        WeakCrib(Arc::downgrade(&self.0))
    }

    pub(crate) fn upstreams(&self) -> &Arc<Upstreams> {
        &self.0.upstreams
    }

    /// The last that the program of a source said on the side, if it is one. No secret of ours is in it.
    pub fn stderr_of(&self, source: &SourceId) -> Option<String> {
        let text = self.0.upstreams.stderr(source)?;
        Some(self.secrets().map_or(text.clone(), |secrets| secrets.redact(&text)))
    }

    /// The secrets that sources refer to, if they can be read here.
    pub fn secrets(&self) -> Option<&Secrets> {
        self.0.options.secrets.as_deref()
    }

    /// Everything that was known at an earlier moment.
    pub(crate) async fn snapshot_at(&self, moment: Moment) -> Result<Snapshot, JournalError> {
        let _turn = self.0.looking_back.lock().await;
        self.0.catalog.snapshot_at(moment).await
    }

    /// Keeps what a view was answered from for a while, for who comes back to it.
    pub fn keep(&self, view: &AgentView) {
        self.0.recent.keep(view.snapshot());
    }

    /// What an agent would have seen a little while ago: at this position, or shortly before.
    pub fn recent_view(&self, agent: &Agent, position: Position) -> Option<AgentView> {
        let snapshot = self.0.recent.at(position)?;
        let toolset = Arc::new(resolve(&snapshot, &agent.claims));
        Some(AgentView::new(self.clone(), snapshot, agent.clone(), toolset))
    }

    /// What an agent would have seen at an earlier position, if that can be said soon. Only the beginning of a journal
    /// is folded for it, and by one caller at a time.
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

    /// What an agent sees now.
    pub fn view(&self, agent: &Agent) -> AgentView {
        let start = Instant::now();
        let snapshot = self.0.catalog.snapshot();
        let toolset = self.0.resolver.toolset(&snapshot, &agent.claims);
        self.0.telemetry.resolved(&toolset, start.elapsed());
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// The same, with what came along for this request.
    pub fn view_of(&self, identity: &Identity) -> AgentView {
        self.view(&identity.agent).with_providers(&identity.providers)
    }

    /// What somebody sees who shows nothing: what is registered, and what policies grant to everybody. For code that
    /// calls tools itself.
    pub fn anyone(&self) -> AgentView {
        self.view(&Identity::anonymous().agent)
    }

    /// The same, decided anew: nothing that is kept is used.
    pub fn fresh_view(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// The same with those tools of the agent's groups that are not served. For an admin to look at, not to call.
    pub fn view_with_unserved(&self, agent: &Agent) -> AgentView {
        let snapshot = self.0.catalog.snapshot();
        let toolset = Arc::new(resolve_with_unserved(&snapshot, &agent.claims));
        AgentView::new(self.clone(), snapshot, agent.clone(), toolset)
    }

    /// Who shows this bearer credential, or nothing.
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

    /// Whether the caller may administer. Nobody is an admin without showing a credential.
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
