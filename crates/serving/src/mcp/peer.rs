//! The client of an MCP request: its identity, and the tools that it wants to see.

use model::{GroupId, TraceContext};
use toolcrib::{AgentView, CallDoor, Means, ReadsOn, Via};

use super::era;
use super::error::RpcError;
use crate::app::App;
use crate::coming::Coming;
use crate::sight::{Mode, Sight};
use crate::watching::{Standing, Watching};

/// The client of an MCP request. Its tools are resolved again for each request.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) app: App,
    who: Standing,
    pub(crate) sight: Sight,
    /// The origin of the request, if calls are recorded or belong to a trace.
    via: Option<Via>,
    /// How the client can read the rest of truncated answers.
    reads_on: ReadsOn,
}

impl Peer {
    pub(crate) fn new(app: App, who: Standing, group: Option<GroupId>, mode: Mode) -> Self {
        let reads_on = ReadsOn { links: true, over_rest: app.has_rest };
        Self { app, who, sight: Sight::of_mcp(group, mode), via: None, reads_on }
    }

    /// Sets the origin of the request, for the call log and for upstreams.
    pub(crate) fn coming(mut self, door: CallDoor, coming: &Coming) -> Self {
        let is_told = self.app.crib.recorder().is_some() || coming.has_trace();
        self.via = is_told.then(|| coming.via(door, &self.who.identity));
        // Stdio clients have no REST endpoint.
        self.reads_on.over_rest &= door != CallDoor::Stdio;
        self
    }

    /// Sets the trace of the message, which overrides the trace of the transport.
    pub(crate) fn within(mut self, trace: Option<TraceContext>) -> Self {
        if trace.is_some() {
            self.via.get_or_insert_default().trace = trace;
        }
        self
    }

    /// Sets the protocol version, if known.
    pub(crate) fn speaking(mut self, version: Option<&str>) -> Self {
        self.reads_on.links = version.is_some_and(era::knows_links);
        self
    }

    /// The stable id of the client: sealed values for one principal are invalid for others.
    pub(crate) fn principal(&self) -> String {
        self.who.principal()
    }

    /// Whether the client uses a token: an issuer can replace a token with a wider one, but not an API key.
    pub(crate) fn shows_a_token(&self) -> bool {
        matches!(self.who.identity.means, Means::Token)
    }

    /// The view of the client's tools now.
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

    /// Checks the credential again, for each message of a long connection.
    pub(crate) async fn is_still_known(&mut self) -> bool {
        match self.who.again(&self.app).await {
            Ok(identity) => {
                self.who.identity = identity;
                true
            }
            Err(_) => false,
        }
    }

    /// Subscribes to changes of the client's view.
    pub(crate) fn watch(&self) -> Result<Watching, RpcError> {
        let busy = || RpcError::busy("too many streams are open: try again later");
        let seat = self.app.seat_for_stream(&self.principal()).ok_or_else(busy)?;
        let watching = Watching::new(&self.app, self.who.clone(), self.sight.clone(), seat);
        watching.ok_or_else(|| RpcError::invalid_params("there is no such group"))
    }
}
