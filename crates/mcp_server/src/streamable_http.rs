//! MCP over Streamable HTTP: `/mcp`, and `/mcp/{group}` for one group of an agent's tools.
//!
//! The response to a POST is JSON if the first message is the answer. If other messages come first or the call takes a
//! while, it is an event stream.

mod event_streams;
mod post_response;

use std::sync::Arc;
use std::time::Duration;

use api_types::problem::{Problem, ProblemCode};
use axum::body::Body;
use axum::extract;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderMap, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use endpoint::app_state::AppState;
use endpoint::json_body;
use endpoint::json_body::large_json::parse_offloading_large;
use endpoint::query_params::QueryParams;
use endpoint::request_context::RequestContext;
use endpoint::route::ApiRoute;
use endpoint::tool_listing::ListMode;
use endpoint::view_subscription::AuthenticatedCaller;
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib::CallEndpoint;

use self::event_streams::{EVENT_STREAM_TYPE, change_events, event_stream_response, resume_stream};
use self::post_response::{
    AcceptedResponses, JSON_DEADLINE, JSON_TYPE, StreamResumption, accepted_response,
    json_response, method_not_allowed, write_response,
};
use super::error_response::RpcErrorResponse;
use super::incoming_message::{IncomingMessage, IncomingRequest, InvalidMessage};
use super::listen::{ListenFilter, ListenStream};
use super::mcp_peer::McpPeer;
use super::mcp_sessions::McpSession;
use super::outgoing_message::OutgoingMessage;
use super::protocol_era::ProtocolEra;
use super::shared_methods::McpReply;
use super::{MCP_PATH, McpEndpoint, header_checks, legacy_era, modern_era};

/// Maximum message size, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Longer than any deadline in this module: messages to `/mcp` have no other deadline than those.
const ROUTE_DEADLINE: Duration = Duration::from_secs(2 * JSON_DEADLINE.as_secs());

pub fn routes() -> Vec<ApiRoute> {
    let tag = "mcp";
    vec![
        ApiRoute::post("mcp_post", MCP_PATH, handle_post)
            .for_agents(tag, "Speak MCP: one message, and what comes of it")
            .with_query::<McpEndpointQuery>()
            .returns_document(JSON_TYPE)
            .without_idempotency_key()
            .with_body_limit(MAX_MESSAGE_BYTES)
            .with_deadline(ROUTE_DEADLINE),
        ApiRoute::get("mcp_get", MCP_PATH, handle_get)
            .for_agents(tag, "Hear what changes (versions of MCP before 2026-07-28)")
            .with_query::<McpEndpointQuery>()
            .returns_document(EVENT_STREAM_TYPE),
        ApiRoute::delete("mcp_delete", MCP_PATH, handle_delete)
            .for_agents(tag, "End a session (versions of MCP before 2026-07-28)")
            .with_query::<McpEndpointQuery>()
            .returns_document(JSON_TYPE)
            .without_idempotency_key(),
        ApiRoute::post("mcp_group_post", "/mcp/{group}", handle_post)
            .for_agents(tag, "Speak MCP about the tools of one group")
            .with_query::<McpEndpointQuery>()
            .returns_document(JSON_TYPE)
            .without_idempotency_key()
            .with_body_limit(MAX_MESSAGE_BYTES)
            .with_deadline(ROUTE_DEADLINE),
        ApiRoute::get("mcp_group_get", "/mcp/{group}", handle_get)
            .for_agents(tag, "Hear what changes in one group (versions of MCP before 2026-07-28)")
            .with_query::<McpEndpointQuery>()
            .returns_document(EVENT_STREAM_TYPE),
        ApiRoute::delete("mcp_group_delete", "/mcp/{group}", handle_delete)
            .for_agents(tag, "End a session (versions of MCP before 2026-07-28)")
            .with_query::<McpEndpointQuery>()
            .returns_document(JSON_TYPE)
            .without_idempotency_key(),
    ]
}

/// What of its tools a client wants to see.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "McpWish")]
struct McpEndpointQuery {
    /// Whether tools are listed, searched, or searched if the list is long.
    #[serde(default)]
    mode: ListMode,
}

/// The group in the path, if there is one.
struct GroupInPath(Option<String>);

impl FromRequestParts<AppState> for GroupInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Problem> {
        match Option::<Path<String>>::from_request_parts(parts, app).await {
            Ok(group) => Ok(Self(group.map(|Path(group)| group))),
            Err(_) => {
                Err(Problem::new(ProblemCode::NotFound, "the group in the path is not UTF-8"))
            }
        }
    }
}

async fn handle_post(
    who: AuthenticatedCaller,
    State(app): State<AppState>,
    place: GroupInPath,
    QueryParams(wish): QueryParams<McpEndpointQuery>,
    request: extract::Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let peer = build_peer(&app, who, place, &wish)?
        .with_origin(CallEndpoint::Mcp, &RequestContext::from_parts(&parts));
    answer_message(&app, peer, &parts.headers, body).await
}

/// Handles a message to `/mcp` without query parameters.
pub async fn handle_message(app: &AppState, request: extract::Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let answered = async {
        let (who, coming) = (
            AuthenticatedCaller::authenticate_request(&parts, app).await?,
            RequestContext::from_parts(&parts),
        );
        let headers = Arc::new(std::mem::take(&mut parts.headers));
        let who = who.with_headers(Arc::clone(&headers));
        let peer = McpPeer::new(app.clone(), who, None, ListMode::default());
        answer_message(app, peer.with_origin(CallEndpoint::Mcp, &coming), &headers, body).await
    };
    answered.await.unwrap_or_else(Problem::into_response)
}

async fn answer_message(
    app: &AppState,
    peer: McpPeer,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let accepted = AcceptedResponses::from_headers(headers)?;
    let body = json_body::read_raw_json(headers, body, MAX_MESSAGE_BYTES).await?;
    let message = match parse_offloading_large(body, IncomingMessage::from_bytes).await {
        Ok(message) => message,
        Err(InvalidMessage { id, error }) => {
            return Ok(json_response(OutgoingMessage::error_response(id.as_ref(), &error)));
        }
    };
    if let IncomingMessage::Request(request) = &message {
        app.endpoint_metrics.count_mcp_request(&request.method);
    }
    let mcp = McpEndpoint::of_app(app);
    match era_of_message(headers, &message) {
        ProtocolEra::Modern => match message {
            IncomingMessage::Request(request) => {
                match modern_era::answer_request(mcp, peer, Some(headers), request) {
                    McpReply::Stream(_) if !accepted.events => Err(event_stream_required()),
                    answer => Ok(write_response(answer, accepted, None).await),
                }
            }
            // In the modern era, notifications and responses over HTTP have no meaning.
            IncomingMessage::Notification { .. } | IncomingMessage::Response { .. } => {
                Ok(accepted_response())
            }
        },
        // Boxed: the legacy future is large and rare, so it must not enlarge the future of every request.
        ProtocolEra::Legacy => {
            Box::pin(answer_legacy_message(mcp, peer, headers, accepted, message)).await
        }
    }
}

async fn answer_legacy_message(
    mcp: &Arc<McpEndpoint>,
    peer: McpPeer,
    headers: &HeaderMap,
    accepted: AcceptedResponses,
    message: IncomingMessage,
) -> Result<Response, Problem> {
    let principal = peer.principal();
    if let IncomingMessage::Request(IncomingRequest { id, method, params, .. }) = &message
        && method == "initialize"
    {
        return Ok(match legacy_era::initialize_session(&peer, id, params) {
            Ok((sent, session)) => {
                peer.app.endpoint_metrics.count_mcp_session();
                let id = session.to_session_id(&mcp.seal, &principal);
                let mut response = json_response(sent);
                if let Ok(value) = HeaderValue::from_str(&id) {
                    response.headers_mut().insert(header_checks::SESSION_HEADER, value);
                }
                response
            }
            Err(error) => json_response(OutgoingMessage::error_response(
                Some(id),
                &ProtocolEra::Legacy.adapt_error(error),
            )),
        });
    }
    let session = find_session(mcp, &principal, headers)?;
    let session = session.map(|(id, session)| match accepted.events {
        true => (id, session),
        false => (id, session.without_client_requests()),
    });
    let named = session.as_ref().map(|(id, session)| (id.as_str(), session));
    match message {
        IncomingMessage::Request(request) => {
            let answer = legacy_era::answer_request(mcp, peer, named, request);
            let kept = named.map(|(_, session)| StreamResumption {
                mcp,
                principal: &principal,
                is_primed: session.supports_priming_event(),
            });
            Ok(write_response(answer, accepted, kept).await)
        }
        IncomingMessage::Notification { method, params, .. } => {
            legacy_era::handle_notification(
                mcp,
                &principal,
                named.map(|(id, _)| id),
                &method,
                &params,
            );
            Ok(accepted_response())
        }
        IncomingMessage::Response { id, outcome } => {
            // A late or unknown answer is not an error of the client.
            mcp.questions.deliver_answer(&principal, &id, outcome);
            Ok(accepted_response())
        }
    }
}

async fn handle_get(
    who: AuthenticatedCaller,
    State(app): State<AppState>,
    place: GroupInPath,
    QueryParams(wish): QueryParams<McpEndpointQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !AcceptedResponses::from_headers(&headers)?.events {
        return Err(event_stream_required());
    }
    let peer = build_peer(&app, who, place, &wish)?;
    if header_checks::single_header(&headers, &header_checks::VERSION_HEADER).ok().flatten()
        == Some(super::protocol_era::MODERN_VERSION)
    {
        return Ok(method_not_allowed());
    }
    let principal = peer.principal();
    let session = find_session(McpEndpoint::of_app(&app), &principal, &headers)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    if let Some((stream, after)) =
        last.and_then(|last| McpEndpoint::of_app(&app).streams.find_event(&principal, last))
    {
        return Ok(event_stream_response(resume_stream(stream, after, false)));
    }
    // Legacy clients open the stream first and subscribe later.
    let gathered = session
        .as_ref()
        .map(|(id, _)| McpEndpoint::of_app(&app).sessions.state_for_stream(&principal, id));
    let mut listen = ListenStream::new(&peer, None, ListenFilter::all_lists(), gathered)
        .map_err(|error| not_found_problem(&error))?;
    let missed = last.and_then(|last| last.strip_prefix("at-")?.parse::<u64>().ok());
    if missed.is_some_and(|position| position < listen.journal_position()) {
        listen.queue_tools_changed();
    }
    Ok(event_stream_response(change_events(listen)))
}

async fn handle_delete(
    who: AuthenticatedCaller,
    State(app): State<AppState>,
    place: GroupInPath,
    QueryParams(wish): QueryParams<McpEndpointQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let peer = build_peer(&app, who, place, &wish)?;
    let principal = peer.principal();
    match find_session(McpEndpoint::of_app(&app), &principal, &headers)? {
        Some((id, _)) => {
            McpEndpoint::of_app(&app).sessions.end_session(&principal, &id);
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        None => Ok(method_not_allowed()),
    }
}

fn build_peer(
    app: &AppState,
    who: AuthenticatedCaller,
    place: GroupInPath,
    wish: &McpEndpointQuery,
) -> Result<McpPeer, Problem> {
    let GroupInPath(group) = place;
    let unknown = |group: &str| Problem::not_found("group", group);
    let group = match group {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| unknown(&text))?),
    };
    let peer = McpPeer::new(app.clone(), who, group, wish.mode);
    // An unknown group and a group without a grant give the same error.
    match &peer.sight.group {
        Some(group) if peer.view().is_err() => Err(unknown(group.as_str())),
        _ => Ok(peer),
    }
}

/// The era of a message: from the body if it names a version, otherwise from the header. If the body is modern or the
/// header is repeated, the modern handler checks that header and body agree.
fn era_of_message(headers: &HeaderMap, message: &IncomingMessage) -> ProtocolEra {
    let meta = match message {
        IncomingMessage::Request(IncomingRequest { meta, .. })
        | IncomingMessage::Notification { meta, .. } => meta.as_ref(),
        IncomingMessage::Response { .. } => None,
    };
    if meta.is_some_and(|meta| meta.version.is_some()) {
        return ProtocolEra::Modern;
    }
    let mut versions = headers.get_all(&header_checks::VERSION_HEADER).iter();
    match (versions.next(), versions.next()) {
        (None, _) => ProtocolEra::Legacy,
        (Some(version), None) => {
            ProtocolEra::from_version(version.to_str().unwrap_or_default().trim())
                .unwrap_or(ProtocolEra::Modern)
        }
        (Some(_), Some(_)) => ProtocolEra::Modern,
    }
}

/// The session that a request names. A session of another principal gives the same error as a missing one.
fn find_session(
    mcp: &McpEndpoint,
    principal: &str,
    headers: &HeaderMap,
) -> Result<Option<(String, McpSession)>, Problem> {
    let Some(id) = headers.get(&header_checks::SESSION_HEADER) else { return Ok(None) };
    let id = id.to_str().unwrap_or_default();
    match mcp.sessions.open_session(&mcp.seal, principal, id) {
        Some(session) => Ok(Some((id.to_owned(), session))),
        None => {
            let detail = "there is no such session: begin a new one with `initialize`";
            Err(Problem::new(ProblemCode::NotFound, detail))
        }
    }
}

/// The client must accept an event stream for this request.
fn event_stream_required() -> Problem {
    Problem::new(ProblemCode::NotAcceptable, "this is answered with `text/event-stream`")
}

fn not_found_problem(error: &RpcErrorResponse) -> Problem {
    Problem::new(ProblemCode::NotFound, error.message.clone())
}
