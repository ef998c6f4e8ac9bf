//! Sends a request to an MCP server for an agent, with its token and over its connection. If the server rejects the
//! token, the request is sent once more with a new one.

use catalog::source::Source;
use model::{ErrorCode, Failure, Name};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};
use upstream::mcp::McpError;

use super::{Called, Stopped, tries, unusable, without_our_words};
use crate::call::CallContext;
use crate::credentials::{Carried, For, Whose};
use crate::gates::Stay;
use crate::upstreams::bridge::{self, Begun, Bridged, Failed, Retry, Wanted};
use crate::upstreams::{Upstream, UpstreamError};
use crate::view::AgentView;

impl AgentView {
    /// Sends the request; if the server rejects a cached token, sends it once more with a new one.
    pub(super) async fn ask_with_token(
        &self,
        source: &Source,
        wanted: Wanted,
        (until, stay): (Instant, &mut Stay<'_>),
        call: &CallContext,
    ) -> Result<Bridged, Bridged> {
        let parked = &self.crib.upstreams().parked;
        if let Some(waited) = parked.take(&self.agent, &wanted, call) {
            let begun = Begun::Before(Box::new(waited?));
            return Ok(bridge::bridge(parked, begun, &self.agent, wanted, call, stay).await);
        }
        let upstream = self.upstream(source, wanted.audience.as_ref(), until).await?;
        let held = upstream.carried.token.clone();
        let bridged = self.ask(upstream, wanted.clone(), call, stay).await;
        match held {
            Some(held) if wants_another_token(&bridged) => {
                if !self.crib.keyring().refused(&held).await {
                    return Ok(bridged);
                }
                let upstream = self.upstream(source, wanted.audience.as_ref(), until).await?;
                Ok(self.ask(upstream, wanted, call, stay).await)
            }
            _ => Ok(bridged),
        }
    }

    pub(in crate::view) async fn ask(
        &self,
        upstream: Upstream,
        wanted: Wanted,
        call: &CallContext,
        stay: &mut Stay<'_>,
    ) -> Bridged {
        let parked = &self.crib.upstreams().parked;
        let begun = Begun::With(Box::new(upstream));
        bridge::bridge(parked, begun, &self.agent, wanted, call, stay).await
    }

    /// Opens a connection to the MCP server of a source for this agent, or reports why none is open by the deadline.
    pub(in crate::view) async fn upstream(
        &self,
        source: &Source,
        audience: Option<&Name>,
        until: Instant,
    ) -> Result<Upstream, Bridged> {
        let carried = self.carried(source, audience, until).await?;
        let held = carried.token.clone();
        let opened = self.open(source, carried, until).await?;
        let opened = match (opened, held) {
            (Err(UpstreamError::Mcp(McpError::Unauthorized { status: 401, .. })), Some(held))
                if self.crib.keyring().refused(&held).await =>
            {
                self.open(source, self.carried(source, audience, until).await?, until).await?
            }
            (opened, _) => opened,
        };
        opened.map_err(|error| match error {
            UpstreamError::Mcp(error) => Failed::after(&error).into(),
            UpstreamError::Busy | UpstreamError::Full => {
                let failure = Failure::new(ErrorCode::RateLimited, error.to_string(), true);
                Failure { retry_after: Some(1), ..failure }.into()
            }
            error => unusable(&source.id, &error, "the source cannot be reached").into(),
        })
    }

    async fn carried(
        &self,
        source: &Source,
        audience: Option<&Name>,
        until: Instant,
    ) -> Result<Carried, Bridged> {
        let (keyring, secrets) = (self.crib.keyring(), self.crib.secrets());
        let whose = Whose::Agent(&self.agent, &self.came_with);
        let wanted = For::tool(source, audience);
        let carried = keyring.carried(&wanted, whose, secrets);
        let carried = timeout_at(until, carried).await;
        let late = |_| Err(tries::late(&source.profile.auth));
        carried.unwrap_or_else(late).map_err(Bridged::from)
    }

    async fn open(
        &self,
        source: &Source,
        carried: Carried,
        until: Instant,
    ) -> Result<Result<Upstream, UpstreamError>, Bridged> {
        let (upstreams, secrets) = (self.crib.upstreams(), self.crib.secrets());
        let opened = upstreams.for_agent(source, &self.agent, secrets, carried);
        // The request was not sent yet.
        timeout_at(until, opened).await.map_err(|_| {
            let message = "the server of the source could not be connected to in time";
            Failed::broken(Failure::new(ErrorCode::UpstreamTimeout, message, true)).into()
        })
    }
}

fn wants_another_token(bridged: &Bridged) -> bool {
    matches!(bridged, Bridged::Failed(failed) if failed.retry == Retry::WithAnotherToken)
}

/// The result of an MCP server, or how the call ended instead.
pub(super) fn result_of_server(
    bridged: Bridged,
    call: &CallContext,
) -> Result<Map<String, Value>, Stopped> {
    match bridged {
        Bridged::Result(result) => Ok(result),
        Bridged::Failed(failed) => Err(failed.failure.into()),
        Bridged::Asks => Err(Stopped::With(Called::Asks(call.take_open()))),
        Bridged::Unable(ability) => Err(Stopped::With(Called::Unable(ability))),
        Bridged::Error(mut error) => {
            let mut data = error.raw.shift_remove("data").map(Box::new);
            match data.as_deref_mut() {
                Some(Value::Object(data)) => {
                    data.retain(|name, _| !name.starts_with("toolcrib/"));
                    without_our_words(data);
                }
                Some(Value::String(text)) => execution::tame(text),
                _ => {}
            }
            let (code, mut message) = (error.code, error.message().to_owned());
            execution::tame(&mut message);
            let as_ours = ErrorCode::UpstreamError;
            Err(Stopped::With(Called::Error { code, message, data, as_ours }))
        }
    }
}
