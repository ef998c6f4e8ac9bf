//! MCP over Streamable HTTP: `/mcp`, and `/mcp/{group}` for one group of an agent's tools.
//!
//! The response to a POST is JSON if the first message is the answer. If other messages come first or the call takes a
//! while, it is an event stream.

mod events;
mod written;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{self, FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderMap, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use self::events::{EVENTS, events, heard, taken_up};
use self::written::{Accepted, DEADLINE, JSON, Keeping, not_in_this_era, plain, taken, write};
use super::answer::Sent;
use super::era::Era;
use super::error::RpcError;
use super::listen::{Listen, Wanted};
use super::message::{Message, Request, Unusable};
use super::methods::Answer;
use super::peer::Peer;
use super::sessions::Session;
use super::{Mcp, PATH, headers, legacy, modern};
use toolcrib::CallDoor;

use crate::app::App;
use crate::body;
use crate::body::long::unless_long;
use crate::coming::Coming;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;
use crate::sight::Mode;
use crate::watching::Standing;

/// Maximum message size, in bytes.
const LIMIT: usize = 4 << 20;
/// Longer than any deadline in this module: messages to `/mcp` have no other deadline than those.
const OUTER: Duration = Duration::from_secs(2 * DEADLINE.as_secs());

pub(crate) fn routes() -> Vec<Route> {
    let tag = "mcp";
    vec![
        Route::post("mcp_post", PATH, post)
            .agent(tag, "Speak MCP: one message, and what comes of it")
            .asks::<Wish>()
            .shows(JSON)
            .without_key()
            .up_to(LIMIT)
            .within(OUTER),
        Route::get("mcp_get", PATH, get)
            .agent(tag, "Hear what changes (versions of MCP before 2026-07-28)")
            .asks::<Wish>()
            .shows(EVENTS),
        Route::delete("mcp_delete", PATH, delete)
            .agent(tag, "End a session (versions of MCP before 2026-07-28)")
            .asks::<Wish>()
            .shows(JSON)
            .without_key(),
        Route::post("mcp_group_post", "/mcp/{group}", post)
            .agent(tag, "Speak MCP about the tools of one group")
            .asks::<Wish>()
            .shows(JSON)
            .without_key()
            .up_to(LIMIT)
            .within(OUTER),
        Route::get("mcp_group_get", "/mcp/{group}", get)
            .agent(tag, "Hear what changes in one group (versions of MCP before 2026-07-28)")
            .asks::<Wish>()
            .shows(EVENTS),
        Route::delete("mcp_group_delete", "/mcp/{group}", delete)
            .agent(tag, "End a session (versions of MCP before 2026-07-28)")
            .asks::<Wish>()
            .shows(JSON)
            .without_key(),
    ]
}

/// What of its tools a client wants to see.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "McpWish")]
struct Wish {
    /// Whether tools are listed, searched, or searched if the list is long.
    #[serde(default)]
    mode: Mode,
}

/// The group in the path, if there is one.
struct Place(Option<String>);

impl FromRequestParts<App> for Place {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Option::<Path<String>>::from_request_parts(parts, app).await {
            Ok(group) => Ok(Self(group.map(|Path(group)| group))),
            Err(_) => Err(Problem::new(Code::NotFound, "the group in the path is not UTF-8")),
        }
    }
}

async fn post(
    who: Standing,
    State(app): State<App>,
    place: Place,
    Asked(wish): Asked<Wish>,
    request: extract::Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let peer = peer(&app, who, place, &wish)?.coming(CallDoor::Mcp, &Coming::of(&parts));
    answer(&app, peer, &parts.headers, body).await
}

/// Handles a message to `/mcp` without query parameters.
pub(crate) async fn message(app: &App, request: extract::Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let answered = async {
        let (who, coming) = (Standing::of(&parts, app).await?, Coming::of(&parts));
        let headers = Arc::new(std::mem::take(&mut parts.headers));
        let who = who.with_headers(Arc::clone(&headers));
        let peer = Peer::new(app.clone(), who, None, Mode::default());
        answer(app, peer.coming(CallDoor::Mcp, &coming), &headers, body).await
    };
    answered.await.unwrap_or_else(Problem::into_response)
}

async fn answer(
    app: &App,
    peer: Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let accepted = Accepted::of(headers)?;
    let body = body::raw(headers, body, LIMIT).await?;
    let message = match unless_long(body, Message::read).await {
        Ok(message) => message,
        Err(Unusable { id, error }) => return Ok(plain(Sent::error(id.as_ref(), &error))),
    };
    if let Message::Request(request) = &message {
        app.doors.message(&request.method);
    }
    let mcp = &app.mcp;
    match era_of(headers, &message) {
        Era::Modern => match message {
            Message::Request(request) => match modern::answer(mcp, peer, Some(headers), request) {
                Answer::Listen(_) if !accepted.events => Err(only_events()),
                answer => Ok(write(answer, accepted, None).await),
            },
            // In the modern era, notifications and responses over HTTP have no meaning.
            Message::Notification { .. } | Message::Response { .. } => Ok(taken()),
        },
        // Boxed: the legacy future is large and rare, so it must not enlarge the future of every request.
        Era::Legacy => Box::pin(older(mcp, peer, headers, accepted, message)).await,
    }
}

async fn older(
    mcp: &Arc<Mcp>,
    peer: Peer,
    headers: &HeaderMap,
    accepted: Accepted,
    message: Message,
) -> Result<Response, Problem> {
    let principal = peer.principal();
    if let Message::Request(Request { id, method, params, .. }) = &message
        && method == "initialize"
    {
        return Ok(match legacy::initialize(&peer, id, params) {
            Ok((sent, session)) => {
                peer.app.doors.session();
                let id = session.close(&mcp.seal, &principal);
                let mut response = plain(sent);
                if let Ok(value) = HeaderValue::from_str(&id) {
                    response.headers_mut().insert(headers::SESSION, value);
                }
                response
            }
            Err(error) => plain(Sent::error(Some(id), &Era::Legacy.told(error))),
        });
    }
    let session = session(mcp, &principal, headers)?;
    let session = session.map(|(id, session)| match accepted.events {
        true => (id, session),
        false => (id, session.not_asked()),
    });
    let named = session.as_ref().map(|(id, session)| (id.as_str(), session));
    match message {
        Message::Request(request) => {
            let answer = legacy::answer(mcp, peer, named, request);
            let kept = named.map(|(_, session)| Keeping {
                mcp,
                principal: &principal,
                is_primed: session.can_be_primed(),
            });
            Ok(write(answer, accepted, kept).await)
        }
        Message::Notification { method, params, .. } => {
            legacy::hear(mcp, &principal, named.map(|(id, _)| id), &method, &params);
            Ok(taken())
        }
        Message::Response { id, outcome } => {
            // A late or unknown answer is not an error of the client.
            mcp.asked.answer(&principal, &id, outcome);
            Ok(taken())
        }
    }
}

async fn get(
    who: Standing,
    State(app): State<App>,
    place: Place,
    Asked(wish): Asked<Wish>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !Accepted::of(&headers)?.events {
        return Err(only_events());
    }
    let peer = peer(&app, who, place, &wish)?;
    if headers::single(&headers, &headers::VERSION).ok().flatten() == Some(super::era::MODERN) {
        return Ok(not_in_this_era());
    }
    let principal = peer.principal();
    let session = session(&app.mcp, &principal, &headers)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    if let Some((stream, after)) = last.and_then(|last| app.mcp.streams.after(&principal, last)) {
        return Ok(events(taken_up(stream, after, false)));
    }
    // Legacy clients open the stream first and subscribe later.
    let gathered = session.as_ref().map(|(id, _)| app.mcp.sessions.stream(&principal, id));
    let mut listen = Listen::new(&peer, None, Wanted::lists(), gathered)
        .map_err(|error| nothing_there(&error))?;
    let missed = last.and_then(|last| last.strip_prefix("at-")?.parse::<u64>().ok());
    if missed.is_some_and(|position| position < listen.position()) {
        listen.say_that_tools_changed();
    }
    Ok(events(heard(listen)))
}

async fn delete(
    who: Standing,
    State(app): State<App>,
    place: Place,
    Asked(wish): Asked<Wish>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let peer = peer(&app, who, place, &wish)?;
    let principal = peer.principal();
    match session(&app.mcp, &principal, &headers)? {
        Some((id, _)) => {
            app.mcp.sessions.end(&principal, &id);
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        None => Ok(not_in_this_era()),
    }
}

fn peer(app: &App, who: Standing, place: Place, wish: &Wish) -> Result<Peer, Problem> {
    let Place(group) = place;
    let unknown = |group: &str| Problem::not_found("group", group);
    let group = match group {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| unknown(&text))?),
    };
    let peer = Peer::new(app.clone(), who, group, wish.mode);
    // An unknown group and a group without a grant give the same error.
    match &peer.sight.group {
        Some(group) if peer.view().is_err() => Err(unknown(group.as_str())),
        _ => Ok(peer),
    }
}

/// The era of a message: from the body if it names a version, otherwise from the header. If the body is modern or the
/// header is repeated, the modern handler checks that header and body agree.
fn era_of(headers: &HeaderMap, message: &Message) -> Era {
    let meta = match message {
        Message::Request(Request { meta, .. }) | Message::Notification { meta, .. } => {
            meta.as_ref()
        }
        Message::Response { .. } => None,
    };
    if meta.is_some_and(|meta| meta.version.is_some()) {
        return Era::Modern;
    }
    let mut versions = headers.get_all(&headers::VERSION).iter();
    match (versions.next(), versions.next()) {
        (None, _) => Era::Legacy,
        (Some(version), None) => {
            Era::of(version.to_str().unwrap_or_default().trim()).unwrap_or(Era::Modern)
        }
        (Some(_), Some(_)) => Era::Modern,
    }
}

/// The session that a request names. A session of another principal gives the same error as a missing one.
fn session(
    mcp: &Mcp,
    principal: &str,
    headers: &HeaderMap,
) -> Result<Option<(String, Session)>, Problem> {
    let Some(id) = headers.get(&headers::SESSION) else { return Ok(None) };
    let id = id.to_str().unwrap_or_default();
    match mcp.sessions.open(&mcp.seal, principal, id) {
        Some(session) => Ok(Some((id.to_owned(), session))),
        None => {
            let detail = "there is no such session: begin a new one with `initialize`";
            Err(Problem::new(Code::NotFound, detail))
        }
    }
}

/// The client must accept an event stream for this request.
fn only_events() -> Problem {
    Problem::new(Code::NotAcceptable, "this is answered with `text/event-stream`")
}

fn nothing_there(error: &RpcError) -> Problem {
    Problem::new(Code::NotFound, error.message.clone())
}
