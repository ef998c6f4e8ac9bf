//! The client of an MCP request: its identity, and the tools that it wants to see.

use endpoint::app_state::AppState;
use endpoint::request_context::RequestContext;
use endpoint::tool_listing::{ListMode, ListOptions};
use endpoint::view_subscription::{AuthenticatedCaller, ViewSubscription};
use model::{GroupId, TraceContext};
use toolcrib::{AgentView, AuthMethod, CallEndpoint, CallOrigin, ContinuationSupport};

use super::error_response::RpcErrorResponse;
use super::protocol_era;

/// The client of an MCP request. Its tools are resolved again for each request.
#[derive(Clone)]
pub struct McpPeer {
    pub(crate) app: AppState,
    who: AuthenticatedCaller,
    pub(crate) sight: ListOptions,
    /// The origin of the request, if calls are recorded or belong to a trace.
    via: Option<CallOrigin>,
    /// How the client can read the rest of truncated answers.
    reads_on: ContinuationSupport,
}

impl McpPeer {
    pub fn new(
        app: AppState,
        who: AuthenticatedCaller,
        group: Option<GroupId>,
        mode: ListMode,
    ) -> Self {
        let reads_on = ContinuationSupport { resource_links: true, rest_api: app.has_rest };
        Self { app, who, sight: ListOptions::for_mcp(group, mode), via: None, reads_on }
    }

    /// Sets the origin of the request, for the call log and for upstreams.
    pub fn with_origin(mut self, door: CallEndpoint, coming: &RequestContext) -> Self {
        let is_told = self.app.crib.recorder().is_some() || coming.has_trace();
        self.via = is_told.then(|| coming.via_endpoint(door, &self.who.identity));
        // Stdio clients have no REST endpoint.
        self.reads_on.rest_api &= door != CallEndpoint::Stdio;
        self
    }

    /// Sets the trace of the message, which overrides the trace of the transport.
    pub(crate) fn with_trace(mut self, trace: Option<TraceContext>) -> Self {
        if trace.is_some() {
            self.via.get_or_insert_default().trace = trace;
        }
        self
    }

    /// Sets the protocol version, if known.
    pub(crate) fn with_version(mut self, version: Option<&str>) -> Self {
        self.reads_on.resource_links = version.is_some_and(protocol_era::supports_resource_links);
        self
    }

    /// The stable id of the client: sealed values for one principal are invalid for others.
    pub(crate) fn principal(&self) -> String {
        self.who.principal()
    }

    /// Whether the client uses a token: an issuer can replace a token with a wider one, but not an API key.
    pub(crate) fn has_token(&self) -> bool {
        matches!(self.who.identity.auth_method, AuthMethod::Token)
    }

    /// The view of the client's tools now.
    pub fn view(&self) -> Result<AgentView, RpcErrorResponse> {
        let identity = &self.who.identity;
        let view = self.sight.current_view(&self.app, identity);
        let view = view.map(|view| {
            view.with_request_credentials(&identity.request_credentials)
                .with_continuation(self.reads_on)
        });
        let view =
            view.ok_or_else(|| RpcErrorResponse::invalid_params("there is no such group"))?;
        Ok(match &self.via {
            Some(via) => view.with_via(via.clone()),
            None => view,
        })
    }

    /// Checks the credential again, for each message of a long connection.
    pub(crate) async fn revalidate_credential(&mut self) -> bool {
        match self.who.reauthenticate(&self.app).await {
            Ok(identity) => {
                self.who.identity = identity;
                true
            }
            Err(_) => false,
        }
    }

    /// Subscribes to changes of the client's view.
    pub(crate) fn watch_view(&self) -> Result<ViewSubscription, RpcErrorResponse> {
        let busy = || RpcErrorResponse::server_busy("too many streams are open: try again later");
        let seat = self.app.acquire_stream_permit(&self.principal()).ok_or_else(busy)?;
        let watching = ViewSubscription::new(&self.app, self.who.clone(), self.sight.clone(), seat);
        watching.ok_or_else(|| RpcErrorResponse::invalid_params("there is no such group"))
    }
}
