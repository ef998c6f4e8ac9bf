//! The state shared by all request handlers: the crib, the options and the resources beside it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use api_types::config_status::FollowerState;
use api_types::server_names::ServerNames;
use axum::http::Extensions;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use toolcrib::telemetry::OtlpExporter;
use toolcrib::{Snapshot, StateCipher, Toolcrib};

use crate::background_tasks::BackgroundTasks;
use crate::endpoint_metrics::EndpointMetrics;
use crate::journal_probe::JournalProbe;
use crate::list_cache::ListCache;
use crate::load_shedding::LoadShedder;
use crate::pinned_tools_cache::PinnedToolsCache;
use crate::protected_resource::ProtectedResource;
use crate::stream_limit::{StreamLimit, StreamPermit};

/// Most streams open at once. Below the connection limit, so that a server full of streams still accepts requests.
const MAX_STREAMS: usize = 12_288;
/// How many of these streams one caller cannot take, so that other callers still get one.
const STREAMS_RESERVED_FOR_OTHERS: usize = 1_024;

/// Handle to the shared state; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<AppStateInner>);

/// The state behind [`AppState`].
pub struct AppStateInner {
    pub crib: Toolcrib,
    pub options: ServerOptions,
    /// Tool lists of agents, already serialized.
    pub list_cache: ListCache,
    /// Per agent: the tools that stay in a list too long to be sent whole.
    pub(crate) pinned_tools: PinnedToolsCache,
    /// State of single endpoints, by type.
    pub extensions: Extensions,
    /// False if the server offers MCP alone, without the REST API for agents.
    pub has_rest: bool,
    background: Arc<BackgroundTasks>,
    draining: watch::Sender<bool>,
    pub journal_probe: JournalProbe,
    streams: Arc<StreamLimit>,
    /// Counters and durations of requests.
    pub endpoint_metrics: EndpointMetrics,
    /// Load shedding: the calls that wait for a permit.
    pub load_shedder: Arc<LoadShedder>,
    /// State of the followed configuration file, if the server follows one.
    pub config_follower: OnceLock<FollowerState>,
}

impl Deref for AppState {
    type Target = AppStateInner;

    fn deref(&self) -> &AppStateInner {
        &self.0
    }
}

/// How the server behaves.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Accept callers without a credential only because just this machine can reach the server.
    pub anonymous_is_local: bool,
    /// Whether admins may register sources that start a child process.
    pub allow_stdio: bool,
    /// Encrypts state that clients hold for the server. Without it, a random key of this process is used.
    pub seal: Option<StateCipher>,
    /// Host names and origins that the server accepts.
    pub names: ServerNames,
    /// The audience of tokens for this server, and their issuers.
    pub resource: ProtectedResource,
    /// Pushes telemetry, if export is configured.
    pub exporter: Option<Arc<OtlpExporter>>,
}

impl ServerOptions {
    /// Options for programs and pages on this machine, which need no credential if the crib accepts anonymous callers.
    /// Requests from browser pages or proxies elsewhere are rejected by their headers. Requests from other machines are
    /// rejected by their address, if the server passes it as `ConnectInfo<SocketAddr>`; bind to loopback all the same.
    pub fn local() -> Self {
        Self { anonymous_is_local: true, ..Self::default() }
    }
}

impl AppState {
    /// Sets the state of the followed configuration file; only the first call has an effect.
    pub fn set_config_follower(&self, state: FollowerState) {
        drop(self.config_follower.set(state));
    }

    /// Builds the state. `register_endpoints` adds the state of single endpoints.
    pub(crate) fn new(
        crib: Toolcrib,
        options: ServerOptions,
        endpoint_metrics: EndpointMetrics,
        has_rest: bool,
        register_endpoints: impl FnOnce(&mut Extensions, StateCipher, &Arc<BackgroundTasks>),
    ) -> Self {
        let seal = options.seal.clone().unwrap_or_else(StateCipher::with_random_key);
        let background = Arc::new(BackgroundTasks::default());
        let mut extensions = Extensions::new();
        register_endpoints(&mut extensions, seal, &background);
        let load_shedder = LoadShedder::reporting_overload_to(crib.overload_flag());
        Self(Arc::new(AppStateInner {
            crib,
            options,
            list_cache: ListCache::default(),
            pinned_tools: PinnedToolsCache::default(),
            extensions,
            has_rest,
            background,
            draining: watch::Sender::new(false),
            journal_probe: JournalProbe::default(),
            streams: StreamLimit::new(MAX_STREAMS, STREAMS_RESERVED_FOR_OTHERS),
            endpoint_metrics,
            load_shedder: Arc::new(load_shedder),
            config_follower: OnceLock::new(),
        }))
    }

    /// State with default options, for tests without any route.
    #[cfg(test)]
    pub(crate) fn without_endpoints(crib: Toolcrib) -> Self {
        let metrics = EndpointMetrics::new([].into_iter());
        Self::new(crib, ServerOptions::default(), metrics, true, |_, _, _| {})
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.crib.catalog().snapshot()
    }

    /// Runs work in the background, after the answer and until the server stops.
    pub fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn_task(work);
    }

    /// Like [`Self::spawn_background`], with a handle to cancel the work earlier.
    pub fn spawn_cancellable(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        self.background.spawn_task(work)
    }

    /// A permit for one open stream; `None` if the server or this caller has too many.
    pub fn acquire_stream_permit(&self, principal: &str) -> Option<StreamPermit> {
        self.streams.try_acquire(principal)
    }

    /// Number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.in_use()
    }

    /// Announces that the server is about to stop.
    pub fn start_draining(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the server is about to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Completes when the server is about to stop, so that a stream can send its final event.
    pub async fn wait_for_draining(&self) {
        let mut draining = self.draining.subscribe();
        draining.wait_for(|draining| *draining).await.expect("the sender is held here");
    }

    /// Aborts background work, and notifies upstreams of the calls that end with it.
    pub async fn stop(&self) {
        self.background.abort_all().await;
        self.crib.wait_for_cancellations().await;
    }
}
