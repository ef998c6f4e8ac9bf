//! Who speaks to us over MCP: the identity, and what of its tools it wants to see.

use model::{GroupId, TraceContext};
use toolcrib::{AgentView, CallDoor, Means, ReadsOn, Via};

use super::era;
use super::error::RpcError;
use crate::app::App;
use crate::coming::Coming;
use crate::sight::{Mode, Sight};
use crate::watching::{Standing, Watching};

/// Who speaks to us. Everything is asked of the catalog anew for each request.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) app: App,
    who: Standing,
    pub(crate) sight: Sight,
    /// By which way it comes, if calls are recorded or part of a trace.
    via: Option<Via>,
    /// How it gets to the rest of answers that are too long.
    reads_on: ReadsOn,
}

impl Peer {
    pub(crate) fn new(app: App, who: Standing, group: Option<GroupId>, mode: Mode) -> Self {
        let reads_on = ReadsOn { links: true, over_rest: app.has_rest };
        Self { app, who, sight: Sight::of_mcp(group, mode), via: None, reads_on }
    }

    /// Says by which way it comes, for the record of its calls and for upstreams.
    pub(crate) fn coming(mut self, door: CallDoor, coming: &Coming) -> Self {
        let is_told = self.app.crib.recorder().is_some() || coming.has_trace();
        self.via = is_told.then(|| coming.via(door, &self.who.identity));
        // Nobody listens there for anything else.
        self.reads_on.over_rest &= door != CallDoor::Stdio;
        self
    }

    /// A message that names its trace itself knows it better than what carries it.
    pub(crate) fn within(mut self, trace: Option<TraceContext>) -> Self {
        if trace.is_some() {
            self.via.get_or_insert_default().trace = trace;
        }
        self
    }

    /// It speaks this version, if that is known.
    pub(crate) fn speaking(mut self, version: Option<&str>) -> Self {
        self.reads_on.links = version.is_some_and(era::knows_links);
        self
    }

    /// Whoever it is: what is handed out to one is no good for another.
    pub(crate) fn principal(&self) -> String {
        self.who.principal()
    }

    /// Whether somebody issues it tokens, and could issue others: whoever shows a key has that and no other.
    pub(crate) fn shows_a_token(&self) -> bool {
        matches!(self.who.identity.means, Means::Token)
    }

    /// What it sees now.
    pub(crate) fn view(&self) -> Result<AgentView, RpcError> {
        let identity = &self.who.identity;
        let view = self.sight.of(&self.app, identity);
        let view = view.map(|view| view.came_with(&identity.came_with).reading_on(self.reads_on));
        let view = view.ok_or_else(|| RpcError::invalid_params("there is no such group"))?;
        Ok(match &self.via {
            Some(via) => view.via(via.clone()),
            None => view,
        })
    }

    /// Whether what it showed is still good; a long conversation asks for each message.
    pub(crate) async fn is_still_known(&mut self) -> bool {
        match self.who.again(&self.app).await {
            Ok(identity) => {
                self.who.identity = identity;
                true
            }
            Err(_) => false,
        }
    }

    /// Waits for changes of what it sees.
    pub(crate) fn watch(&self) -> Result<Watching, RpcError> {
        let busy = || RpcError::busy("too many streams are open: try again later");
        let seat = self.app.seat_for_stream(&self.principal()).ok_or_else(busy)?;
        let watching = Watching::new(&self.app, self.who.clone(), self.sight.clone(), seat);
        watching.ok_or_else(|| RpcError::invalid_params("there is no such group"))
    }
}
