//! The legacy era with sessions (2024-11-05 to 2025-11-25): a client begins with `initialize`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib::{CallerCapabilities, LogLevel};

use super::error_response::RpcErrorResponse;
use super::incoming_message::{IncomingRequest, JsonRpcId};
use super::mcp_peer::McpPeer;
use super::mcp_sessions::McpSession;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::{LEGACY_VERSIONS, ProtocolEra};
use super::request_meta::RequestMeta;
use super::shared_methods::{McpReply, McpRequest, required_text};
use super::{McpEndpoint, protocol_era, server_capabilities};

/// Log level for clients that did not set one.
const DEFAULT_LOG_LEVEL: LogLevel = LogLevel::Info;

/// Answers any request except `initialize`.
pub(crate) fn answer_request(
    mcp: &Arc<McpEndpoint>,
    peer: McpPeer,
    session: Option<(&str, &McpSession)>,
    request: IncomingRequest,
) -> McpReply {
    let id = request.id.clone();
    match begin_request(mcp, peer, session, request) {
        Ok(answer) => answer,
        Err(error) => McpReply::Ready(OutgoingMessage::error_response(
            Some(&id),
            &ProtocolEra::Legacy.adapt_error(error),
        )),
    }
}

fn begin_request(
    mcp: &Arc<McpEndpoint>,
    peer: McpPeer,
    session: Option<(&str, &McpSession)>,
    mut request: IncomingRequest,
) -> Result<McpReply, RpcErrorResponse> {
    let trace = request.meta.as_ref().and_then(RequestMeta::trace_context);
    let progress_token = request.meta.as_mut().and_then(|meta| meta.progress_token.take());
    let (id, params) = (&request.id, &request.params);
    let done = || Ok(McpReply::Ready(OutgoingMessage::result_response(id, "{}".to_owned())));
    let principal: Arc<str> = peer.principal().into();
    let gathering = || session.map(|(name, _)| mcp.sessions.get_or_create_state(&principal, name));
    match request.method.as_str() {
        "ping" => return done(),
        "logging/setLevel" => {
            let level = params.get("level").cloned().unwrap_or_default();
            let level = serde_json::from_value(level)
                .map_err(|_| RpcErrorResponse::invalid_params("there is no such level"))?;
            if let Some(gathered) = gathering() {
                gathered.set_log_level(level);
            }
            return done();
        }
        "resources/unsubscribe" => {
            let uri = required_text(params, "uri")?;
            if let Some((name, _)) = session
                && let Some(gathered) = mcp.sessions.find_state(&principal, name)
            {
                gathered.remove_subscription(&uri);
            }
            return done();
        }
        _ => {}
    }
    let subscribes = request.method == "resources/subscribe";
    // Without a session there is no stream for notifications.
    let gathering = if subscribes { gathering() } else { None };
    let version = session.map(|(_, session)| session.version.as_str());
    let peer = peer.with_trace(trace).with_version(version);
    let gathered = session.and_then(|(name, _)| mcp.sessions.find_state(&principal, name));
    let log_from = gathered.and_then(|gathered| gathered.log_level()).unwrap_or(DEFAULT_LOG_LEVEL);
    // Without a session, a cancellation cannot be tied to a client; the call ends when the client disconnects.
    let stoppable_by = session.map(|(name, _)| format!("{principal}\0{name}").into());
    let asking = McpRequest {
        mcp: Arc::clone(mcp),
        peer,
        principal,
        era: ProtocolEra::Legacy,
        abilities: session.map(|(_, session)| session.abilities()).unwrap_or_default(),
        log_from: Some(log_from),
        progress_token,
        stoppable_by,
        // Legacy clients interpret a 403 status too, and some then give up without reporting an error.
        is_challenged: false,
    };
    match (subscribes, gathering) {
        (true, gathered) => asking.subscribe_resource(&request.id, &request.params, gathered),
        (false, _) => asking.answer_shared_method(request, None),
    }
}

/// Answers `initialize`; returns the answer and the new session.
pub(crate) fn initialize_session(
    peer: &McpPeer,
    id: &JsonRpcId,
    params: &Map<String, Value>,
) -> Result<(OutgoingMessage, McpSession), RpcErrorResponse> {
    let wanted = required_text(params, "protocolVersion")?;
    // For an unknown version, offer the newest one; the client decides.
    let version =
        LEGACY_VERSIONS.into_iter().find(|known| *known == wanted).unwrap_or(LEGACY_VERSIONS[0]);
    let abilities =
        params.get("capabilities").and_then(CallerCapabilities::from_client).unwrap_or_default();
    let session = McpSession::new(version, abilities);
    let result = json!({
        "protocolVersion": version,
        "capabilities": server_capabilities::server_capabilities(&peer.view()?, ProtocolEra::Legacy),
        "serverInfo": protocol_era::server_info(),
    });
    Ok((OutgoingMessage::result_response(id, result.to_string()), session))
}

/// Handles a notification. Only the cancellation of a call matters to us.
pub(crate) fn handle_notification(
    mcp: &McpEndpoint,
    principal: &str,
    session: Option<&str>,
    method: &str,
    params: &Map<String, Value>,
) {
    if method == "notifications/cancelled"
        && let Some(session) = session
        && let Some(id) = params.get("requestId").and_then(JsonRpcId::from_value)
    {
        let whose = format!("{principal}\0{session}");
        mcp.cancellable_calls.cancel_call(&whose, &id);
    }
}
