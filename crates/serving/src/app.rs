//! What every handler can reach: the crib, and what is shared beside it.

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

/// How many streams stay open at once: fewer than there may be connections, so that others still get in.
const STREAMS: usize = 12_288;
/// How many of them are kept from any one caller for the others.
const FOR_OTHERS: usize = 1_024;

/// What every handler can reach; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// What is shared.
pub struct Shared {
    pub(crate) crib: Toolcrib,
    pub(crate) options: Options,
    /// Lists of agents that are written already.
    pub(crate) prepared: PreparedLists,
    /// Which of their tools are in lists that would be too long.
    pub(crate) chosen: Chosen,
    pub(crate) mcp: Arc<Mcp>,
    /// Whether there is the API for agents, and not MCP alone.
    pub(crate) has_rest: bool,
    /// Calls over REST that go on.
    pub(crate) pending: PendingCalls,
    background: Work,
    draining: watch::Sender<bool>,
    pub(crate) health: Health,
    streams: Arc<Seats>,
    /// What is measured at the doors.
    pub(crate) doors: Doors,
    /// Of calls that wait for their turn.
    pub(crate) pressure: Arc<Pressure>,
    /// The configuration file, if there is one.
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
    /// Callers without a credential are let in only because nobody else can reach this machine.
    pub anonymous_is_local: bool,
    /// Whether sources may be registered that start a child process.
    pub allow_stdio: bool,
    /// Seals what clients keep for us; without it, with a key of this process alone.
    pub seal: Option<Seal>,
    /// Which names it answers to.
    pub names: Names,
    /// What tokens are for, and who issues them.
    pub resource: ProtectedResource,
    /// Pushes what is measured, if somebody wants it.
    pub exporter: Option<Arc<Exporter>>,
}

impl Options {
    /// For programs and pages on this machine, which are let in without a credential if the crib lets anybody in so.
    /// What a browser or a proxy brings from elsewhere is refused by its headers, and other machines by their address if the
    /// server tells it with `ConnectInfo<SocketAddr>`; bind the listener to this machine all the same.
    pub fn local() -> Self {
        Self { anonymous_is_local: true, ..Self::default() }
    }
}

impl App {
    /// Tells of a configuration file; there is one at most.
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

    /// Goes on with something after the answer, until the server stops.
    pub(crate) fn later(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.begin(work);
    }

    /// The same for what may have to be stopped before.
    pub(crate) fn go_on(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.background.begin(work)
    }

    /// For a stream that stays open; none if there are too many, or too many of the same caller.
    pub(crate) fn seat_for_stream(&self, principal: &str) -> Option<Seat> {
        self.streams.take(principal)
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.in_use()
    }

    /// Says to all that the server is about to stop.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Whether the server is about to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Ends when the server is about to stop: then a stream says its last word.
    pub async fn draining(&self) {
        let mut draining = self.draining.subscribe();
        draining.wait_for(|draining| *draining).await.expect("the sender is held here");
    }

    /// Drops what still goes on, and says so where work goes on for it.
    pub async fn stop(&self) {
        self.background.stop().await;
        self.mcp.stop().await;
        self.crib.settle().await;
    }
}
