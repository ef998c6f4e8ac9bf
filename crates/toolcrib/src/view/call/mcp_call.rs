//! Sends a request to an MCP server for an agent, with its token and over its connection. If the server rejects the
//! token, the request is sent once more with a new one.

use calls::call_failures::report_unusable;
use calls::source_gates::CallPermit;
use calls::upstream_connections::mcp_bridge::{
    BridgeFailure, BridgeOutcome, BridgeRequest, RequestStart, RetryAdvice,
};
use calls::upstream_connections::{UpstreamConnection, UpstreamError, mcp_bridge};
use calls::upstream_credentials::{CredentialScope, OnBehalfOf, RequestAuth};
use catalog::source::Source;
use mcp_client::McpError;
use model::{CallFailure, DisplayName, ErrorCode};
use provider::CallContext;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::{CallResult, CallStop, remove_reserved_fields, retry};
use crate::view::AgentView;

impl AgentView {
    /// Sends the request; if the server rejects a cached token, sends it once more with a new one.
    pub(super) async fn call_mcp_with_token(
        &self,
        source: &Source,
        wanted: BridgeRequest,
        (until, stay): (Instant, &mut CallPermit<'_>),
        call: &CallContext,
    ) -> Result<BridgeOutcome, BridgeOutcome> {
        let parked = &self.crib.upstreams().parked;
        if let Some(waited) = parked.take_parked(&self.agent, &wanted, call) {
            let begun = RequestStart::Resumed(Box::new(waited?));
            return Ok(
                mcp_bridge::bridge_request(parked, begun, &self.agent, wanted, call, stay).await
            );
        }
        let upstream = self.connect_mcp(source, wanted.audience.as_ref(), until).await?;
        let held = upstream.request_auth.token.clone();
        let bridged = self.bridge_mcp_request(upstream, wanted.clone(), call, stay).await;
        match held {
            Some(held) if needs_new_token(&bridged) => {
                if !self.crib.keyring().invalidate_token(&held).await {
                    return Ok(bridged);
                }
                let upstream = self.connect_mcp(source, wanted.audience.as_ref(), until).await?;
                Ok(self.bridge_mcp_request(upstream, wanted, call, stay).await)
            }
            _ => Ok(bridged),
        }
    }

    pub(in crate::view) async fn bridge_mcp_request(
        &self,
        upstream: UpstreamConnection,
        wanted: BridgeRequest,
        call: &CallContext,
        stay: &mut CallPermit<'_>,
    ) -> BridgeOutcome {
        let parked = &self.crib.upstreams().parked;
        let begun = RequestStart::Connected(Box::new(upstream));
        mcp_bridge::bridge_request(parked, begun, &self.agent, wanted, call, stay).await
    }

    /// Opens a connection to the MCP server of a source for this agent, or reports why none is open by the deadline.
    pub(in crate::view) async fn connect_mcp(
        &self,
        source: &Source,
        audience: Option<&DisplayName>,
        until: Instant,
    ) -> Result<UpstreamConnection, BridgeOutcome> {
        let carried = self.resolve_mcp_auth(source, audience, until).await?;
        let held = carried.token.clone();
        let opened = self.open_mcp_connection(source, carried, until).await?;
        let opened = match (opened, held) {
            (Err(UpstreamError::Mcp(McpError::Unauthorized { status: 401, .. })), Some(held))
                if self.crib.keyring().invalidate_token(&held).await =>
            {
                self.open_mcp_connection(
                    source,
                    self.resolve_mcp_auth(source, audience, until).await?,
                    until,
                )
                .await?
            }
            (opened, _) => opened,
        };
        opened.map_err(|error| match error {
            UpstreamError::Mcp(error) => BridgeFailure::from_mcp_error(&error).into(),
            UpstreamError::Busy | UpstreamError::Full => {
                let failure = CallFailure::new(ErrorCode::RateLimited, error.to_string(), true);
                CallFailure { retry_after: Some(1), ..failure }.into()
            }
            error => report_unusable(&source.id, &error, "the source cannot be reached").into(),
        })
    }

    async fn resolve_mcp_auth(
        &self,
        source: &Source,
        audience: Option<&DisplayName>,
        until: Instant,
    ) -> Result<RequestAuth, BridgeOutcome> {
        let (keyring, secrets) = (self.crib.keyring(), self.crib.secrets());
        let whose = OnBehalfOf::Agent(&self.agent, &self.request_credentials);
        let wanted = CredentialScope::for_tool(source, audience);
        let carried = keyring.mcp_request_auth(&wanted, whose, secrets);
        let carried = timeout_at(until, carried).await;
        let late = |_| Err(retry::credential_timeout(&source.profile.auth));
        carried.unwrap_or_else(late).map_err(BridgeOutcome::from)
    }

    async fn open_mcp_connection(
        &self,
        source: &Source,
        carried: RequestAuth,
        until: Instant,
    ) -> Result<Result<UpstreamConnection, UpstreamError>, BridgeOutcome> {
        let (upstreams, secrets) = (self.crib.upstreams(), self.crib.secrets());
        let opened = upstreams.for_agent(source, &self.agent, secrets, carried);
        // The request was not sent yet.
        timeout_at(until, opened).await.map_err(|_| {
            let message = "the server of the source could not be connected to in time";
            BridgeFailure::server_fault(CallFailure::new(ErrorCode::UpstreamTimeout, message, true))
                .into()
        })
    }
}

fn needs_new_token(bridged: &BridgeOutcome) -> bool {
    matches!(bridged, BridgeOutcome::Failed(failed) if failed.retry == RetryAdvice::WithNewToken)
}

/// The result of an MCP server, or how the call ended instead.
pub(super) fn into_mcp_result(
    bridged: BridgeOutcome,
    call: &CallContext,
) -> Result<Map<String, Value>, CallStop> {
    match bridged {
        BridgeOutcome::Result(result) => Ok(result),
        BridgeOutcome::Failed(failed) => Err(failed.failure.into()),
        BridgeOutcome::NeedsAnswers => {
            Err(CallStop::Ended(CallResult::InputRequired(call.take_pending_input())))
        }
        BridgeOutcome::Unable(ability) => {
            Err(CallStop::Ended(CallResult::MissingCapability(ability)))
        }
        BridgeOutcome::Error(mut error) => {
            let mut data = error.raw.shift_remove("data").map(Box::new);
            match data.as_deref_mut() {
                Some(Value::Object(data)) => {
                    data.retain(|name, _| !name.starts_with("toolcrib/"));
                    remove_reserved_fields(data);
                }
                Some(Value::String(text)) => execution::escape_dangerous(text),
                _ => {}
            }
            let (code, mut message) = (error.code, error.message().to_owned());
            execution::escape_dangerous(&mut message);
            let as_ours = ErrorCode::UpstreamError;
            Err(CallStop::Ended(CallResult::ProtocolError {
                code,
                message,
                data,
                error_code: as_ours,
            }))
        }
    }
}
