//! The state shared by all request handlers: the crib, the options and the resources beside it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tokio::sync::watch;
use tokio::task::AbortHandle;
use toolcrib::telemetry::Exporter;
use toolcrib::{Seal, Snapshot, Toolcrib};

use crate::agents::pending::PendingCalls;
use crate::health::Health;
use crate::mcp::Mcp;
use crate::metrics::doors::Doors;
use crate::names::Names;
use crate::prepared::PreparedLists;
use crate::protected_resource::ProtectedResource;
use crate::seats::{Seat, Seats};
use crate::serve::follow::State;
use crate::serve::pressure::Pressure;
use crate::sight::Chosen;
use crate::work::Work;

/// Most streams open at once. Below the connection limit, so that a server full of streams still accepts requests.
const STREAMS: usize = 12_288;
/// How many of these streams one caller cannot take, so that other callers still get one.
const FOR_OTHERS: usize = 1_024;

/// Handle to the shared state; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The state behind [`App`].
pub struct Shared {
    pub(crate) crib: Toolcrib,
    pub(crate) options: Options,
    /// Tool lists of agents, already serialized.
    pub(crate) prepared: PreparedLists,
    /// Per agent: the tools that stay in a list too long to be sent whole.
    pub(crate) chosen: Chosen,
    pub(crate) mcp: Arc<Mcp>,
    /// False if the server offers MCP alone, without the REST API for agents.
    pub(crate) has_rest: bool,
    /// REST calls that outlived their request.
    pub(crate) pending: PendingCalls,
    background: Work,
    draining: watch::Sender<bool>,
    pub(crate) health: Health,
    streams: Arc<Seats>,
    /// Counters and durations of requests.
    pub(crate) doors: Doors,
    /// Load shedding: the calls that wait for a permit.
    pub(crate) pressure: Arc<Pressure>,
    /// State of the followed configuration file, if the server follows one.
    pub(crate) followed: OnceLock<State>,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// How the server behaves.
#[derive(Clone, Default)]
pub struct Options {
    /// Accept callers without a credential only because just this machine can reach the server.
    pub anonymous_is_local: bool,
    /// Whether admins may register sources that start a child process.
    pub allow_stdio: bool,
    /// Encrypts state that clients hold for the server. Without it, a random key of this process is used.
    pub seal: Option<Seal>,
    /// Host names and origins that the server accepts.
    pub names: Names,
    /// The audience of tokens for this server, and their issuers.
    pub resource: ProtectedResource,
    /// Pushes telemetry, if export is configured.
    pub exporter: Option<Arc<Exporter>>,
}

impl Options {
    /// Options for programs and pages on this machine, which need no credential if the crib accepts anonymous callers.
    /// Requests from browser pages or proxies elsewhere are rejected by their headers. Requests from other machines are
    /// rejected by their address, if the server passes it as `ConnectInfo<SocketAddr>`; bind to loopback all the same.
    pub fn local() -> Self {
        Self { anonymous_is_local: true, ..Self::default() }
    }
}

impl App {
    /// Sets the state of the followed configuration file; only the first call has an effect.
    pub(crate) fn follow(&self, state: State) {
        drop(self.followed.set(state));
    }

    pub(crate) fn new(crib: Toolcrib, options: Options, doors: Doors, has_rest: bool) -> Self {
        let seal = options.seal.clone().unwrap_or_else(Seal::random);
        let pressure = Pressure::telling(crib.crowd());
        Self(Arc::new(Shared {
            crib,
            options,
            prepared: PreparedLists::default(),
            chosen: Chosen::default(),
            mcp: Arc::new(Mcp::new(seal)),
            has_rest,
            pending: PendingCalls::default(),
            background: Work::default(),
            draining: watch::Sender::new(false),
            health: Health::default(),
            streams: Seats::new(STREAMS, FOR_OTHERS),
            doors,
            pressure: Arc::new(pressure),
            followed: OnceLock::new(),
        }))
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.crib.catalog().snapshot()
    }

    /// Runs work in the background, after the answer and until the server stops.
    pub(crate) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.begin(work);
    }

    /// Like [`Self::later`], with a handle to cancel the work earlier.
    pub(crate) fn go_on(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.background.begin(work)
    }

    /// A permit for one open stream; `None` if the server or this caller has too many.
    pub(crate) fn seat_for_stream(&self, principal: &str) -> Option<Seat> {
        self.streams.take(principal)
    }

    /// Number of open streams.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.in_use()
    }

    /// Announces that the server is about to stop.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the server is about to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Completes when the server is about to stop, so that a stream can send its final event.
    pub async fn draining(&self) {
        let mut draining = self.draining.subscribe();
        draining.wait_for(|draining| *draining).await.expect("the sender is held here");
    }

    /// Aborts background work, and notifies upstreams of the calls that end with it.
    pub async fn stop(&self) {
        self.background.stop().await;
        self.mcp.stop().await;
        self.crib.settle().await;
    }
}
