//! The modern era without sessions (2026-07-28): every request carries its version and the client's capabilities.

use std::sync::Arc;

use axum::http::HeaderMap;
use model::ToolId;
use serde_json::{Map, Value};
use toolcrib::{CallerCapabilities, CallerCapability, LogLevel};

use super::error_response::RpcErrorResponse;
use super::incoming_message::{IncomingRequest, JsonRpcId};
use super::listen::ListenStream;
use super::mcp_peer::McpPeer;
use super::mcp_tasks::TaskOwner;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::{MODERN_VERSION, ProtocolEra};
use super::request_meta::RequestMeta;
use super::shared_methods::{McpReply, McpRequest};
use super::{McpEndpoint, header_checks, protocol_era, server_capabilities};

/// All methods of the era.
const MODERN_METHODS: [&str; 13] = [
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// The validated `_meta` of a request.
struct ModernRequestMeta {
    version: String,
    abilities: CallerCapabilities,
    log_from: Option<LogLevel>,
    progress_token: Option<Value>,
}

/// Answers a request. Over HTTP, its headers must match it.
pub(crate) fn answer_request(
    mcp: &Arc<McpEndpoint>,
    peer: McpPeer,
    headers: Option<&HeaderMap>,
    request: IncomingRequest,
) -> McpReply {
    let id = request.id.clone();
    match begin_request(mcp, peer, headers, request) {
        Ok(answer) => answer,
        Err(error) => McpReply::Ready(OutgoingMessage::error_response(Some(&id), &error)),
    }
}

fn begin_request(
    mcp: &Arc<McpEndpoint>,
    peer: McpPeer,
    headers: Option<&HeaderMap>,
    mut request: IncomingRequest,
) -> Result<McpReply, RpcErrorResponse> {
    if !MODERN_METHODS.contains(&request.method.as_str()) {
        return Err(RpcErrorResponse::method_not_found(&request.method));
    }
    let trace = request.meta.as_ref().and_then(RequestMeta::trace_context);
    let said = ModernRequestMeta::from_meta(request.meta.take())?;
    if let Some(headers) = headers
        && header_checks::single_header(headers, &header_checks::VERSION_HEADER)?
            != Some(said.version.as_str())
    {
        let why = "the header `MCP-Protocol-Version` must be there and be the version of the body";
        return Err(RpcErrorResponse::header_mismatch(why));
    }
    if said.version != MODERN_VERSION {
        return Err(RpcErrorResponse::unsupported_version(
            &said.version,
            &protocol_era::ALL_VERSIONS,
        ));
    }
    if let Some(headers) = headers {
        header_checks::check_method_and_name(headers, &request.method, &request.params)?;
    }
    let is_challenged = headers.is_some() && peer.has_token();
    let peer = peer.with_trace(trace);
    let principal: Arc<str> = peer.principal().into();
    let asking = McpRequest {
        mcp: Arc::clone(mcp),
        peer,
        principal,
        era: ProtocolEra::Modern,
        abilities: said.abilities,
        log_from: said.log_from,
        progress_token: said.progress_token,
        stoppable_by: None,
        is_challenged,
    };
    let (id, method, params) = (&request.id, request.method.as_str(), &request.params);
    match method {
        "server/discover" => asking.discover_server(id).map(McpReply::Ready),
        "subscriptions/listen" => {
            ListenStream::from_request(&asking, id, params).map(McpReply::Stream)
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            asking.answer_task_method(id, method, params).map(McpReply::Ready)
        }
        _ => asking.answer_shared_method(request, headers),
    }
}

impl ModernRequestMeta {
    fn from_meta(meta: Option<RequestMeta>) -> Result<Self, RpcErrorResponse> {
        let invalid = |why: &str| RpcErrorResponse::invalid_meta(why);
        let meta = meta.ok_or_else(|| invalid("`params._meta` must be there"))?;
        let Some(Value::String(version)) = meta.version else {
            return Err(invalid("`params._meta` must say the protocol version"));
        };
        let abilities = meta.abilities;
        let abilities = abilities
            .ok_or_else(|| invalid("`params._meta` must say the client's capabilities"))?;
        let log_from = meta.log_level.map_or(Ok(None), serde_json::from_value);
        let log_from =
            log_from.map_err(|_| invalid("`params._meta` names a log level that there is not"))?;
        Ok(Self { version, abilities, log_from, progress_token: meta.progress_token })
    }
}

impl McpRequest {
    fn discover_server(&self, id: &JsonRpcId) -> Result<OutgoingMessage, RpcErrorResponse> {
        let capabilities = server_capabilities::server_capabilities(&self.view()?, self.era);
        let result = Map::from_iter([
            ("supportedVersions".to_owned(), protocol_era::ALL_VERSIONS.as_slice().into()),
            ("capabilities".to_owned(), capabilities),
        ]);
        Ok(OutgoingMessage::result_response(id, self.era.uncached_result(result)))
    }

    fn answer_task_method(
        &self,
        id: &JsonRpcId,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<OutgoingMessage, RpcErrorResponse> {
        if !self.abilities.tasks {
            return Err(RpcErrorResponse::missing_capability(CallerCapability::Tasks));
        }
        let (tasks, view) = (&self.mcp.tasks, self.view()?);
        let has = |tool: &ToolId| view.may_read_result_of(tool);
        let owner = TaskOwner { principal: &self.principal, has: &has };
        let result = match method {
            "tasks/update" => tasks.update_task(owner, params),
            "tasks/cancel" => tasks.cancel_task(owner, params),
            _ => tasks.get_task(owner, params),
        };
        Ok(OutgoingMessage::result_response(id, self.era.complete_result(result?)))
    }
}
