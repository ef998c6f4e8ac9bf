//! MCP over Streamable HTTP: `/mcp`, and `/mcp/{group}` for one group of an agent's tools.
//!
//! Answers to a POST come on that POST: as JSON if the first thing to say is the answer, as a stream of events if
//! something comes before it or it takes a while.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, State};
use axum::http::StatusCode;
use axum::http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, VARY,
};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;

use super::answer::Sent;
use super::era::Era;
use super::error::RpcError;
use super::kept::Stream;
use super::listen::{Listen, Wanted};
use super::message::{Message, Request, Unusable};
use super::methods::Answer;
use super::peer::Peer;
use super::pieces::Pieces;
use super::sessions::Session;
use super::{Mcp, headers, legacy, modern};
use crate::app::App;
use crate::body::Raw;
use crate::problem::{Code, Problem};
use crate::query::Asked;
use crate::route::Route;
use crate::sight::Mode;
use crate::watching::Standing;

/// The largest message, in bytes.
const LIMIT: usize = 4 << 20;
/// How long a call may take for a client that takes no stream.
const DEADLINE: Duration = Duration::from_secs(300);
/// How long an answer may take before a stream begins.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a stream that has nothing to say shows that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long a client waits before it takes a stream up again, in milliseconds.
const RETRY: u32 = 1_000;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

pub(crate) fn routes() -> Vec<Route> {
    let tag = "mcp";
    vec![
        Route::post("mcp_post", "/mcp", post)
            .agent(tag, "Speak MCP: one message, and what comes of it")
            .asks::<Wish>()
            .shows(JSON)
            .without_key()
            .up_to(LIMIT)
            .within(DEADLINE),
        Route::get("mcp_get", "/mcp", get)
            .agent(tag, "Hear what changes (versions of MCP before 2026-07-28)")
            .asks::<Wish>()
            .shows(EVENTS),
        Route::delete("mcp_delete", "/mcp", delete)
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
            .within(DEADLINE),
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

/// The group that the path names, if it names one.
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
    Raw { headers, body }: Raw,
) -> Result<Response, Problem> {
    let accepted = Accepted::of(&headers)?;
    let peer = peer(&app, who, place, &wish)?;
    let message = match Message::read(&body) {
        Ok(message) => message,
        Err(Unusable { id, error }) => return Ok(plain(&Sent::error(id.as_ref(), &error))),
    };
    let mcp = &app.mcp;
    match era_of(&headers, &message) {
        Era::Modern => match message {
            Message::Request(request) => {
                let answer = modern::answer(mcp, peer, Some(&headers), request);
                match answer {
                    Answer::Listen(_) if !accepted.events => Err(only_events()),
                    answer => Ok(write(answer, accepted, None).await),
                }
            }
            // Nothing that is not a request means anything over HTTP in this era.
            Message::Notification { .. } | Message::Response { .. } => Ok(taken()),
        },
        Era::Legacy => older(mcp, peer, &headers, accepted, message).await,
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
    if let Message::Request(Request { id, method, params }) = &message
        && method == "initialize"
    {
        return Ok(match legacy::initialize(&peer, id, params) {
            Ok((sent, session)) => {
                let id = session.close(&mcp.seal, &principal);
                let mut response = plain(&sent);
                if let Ok(value) = HeaderValue::from_str(&id) {
                    response.headers_mut().insert(HeaderName::from_static(headers::SESSION), value);
                }
                response
            }
            Err(error) => plain(&Sent::error(Some(id), &Era::Legacy.told(error))),
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
        Message::Notification { method, params } => {
            legacy::hear(mcp, &principal, named.map(|(id, _)| id), &method, &params);
            Ok(taken())
        }
        Message::Response { id, outcome } => {
            // One that comes too late, or for nobody, is nobody's mistake.
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
    if headers::single(&headers, headers::VERSION).ok().flatten() == Some(super::era::MODERN) {
        return Ok(not_in_this_era());
    }
    let principal = peer.principal();
    let session = session(&app.mcp, &principal, &headers)?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    if let Some((stream, after)) = last.and_then(|last| app.mcp.streams.after(&principal, last)) {
        return Ok(events(taken_up(stream, after, false)));
    }
    // Clients listen first, and say later what to.
    let gathered = session.as_ref().map(|(id, _)| app.mcp.sessions.gather(id));
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
    match session(&app.mcp, &peer.principal(), &headers)? {
        Some((id, _)) => {
            app.mcp.sessions.end(&id);
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
    // One that is not there and one that is not the agent's look the same.
    match &peer.sight.group {
        Some(group) if peer.view().is_err() => Err(unknown(group.as_str())),
        _ => Ok(peer),
    }
}

/// Of the body if it says so, else of the header. A body of the newer era, and a header that stands there twice, are
/// judged there: the two must say the same.
fn era_of(headers: &HeaderMap, message: &Message) -> Era {
    let params = match message {
        Message::Request(request) => Some(&request.params),
        Message::Notification { params, .. } => Some(params),
        Message::Response { .. } => None,
    };
    let meta = params.and_then(|params| params.get("_meta"));
    if meta.is_some_and(|meta| meta.get(modern::PROTOCOL_VERSION).is_some()) {
        return Era::Modern;
    }
    let mut versions = headers.get_all(headers::VERSION).iter();
    match (versions.next(), versions.next()) {
        (None, _) => Era::Legacy,
        (Some(version), None) => {
            Era::of(version.to_str().unwrap_or_default().trim()).unwrap_or(Era::Modern)
        }
        (Some(_), Some(_)) => Era::Modern,
    }
}

/// The session a request names. One that is not its own is one that is not there.
fn session(
    mcp: &Mcp,
    principal: &str,
    headers: &HeaderMap,
) -> Result<Option<(String, Session)>, Problem> {
    let Some(id) = headers.get(headers::SESSION) else { return Ok(None) };
    let id = id.to_str().unwrap_or_default();
    match mcp.sessions.open(&mcp.seal, principal, id) {
        Some(session) => Ok(Some((id.to_owned(), session))),
        None => {
            let detail = "there is no such session: begin a new one with `initialize`";
            Err(Problem::new(Code::NotFound, detail))
        }
    }
}

/// What a client takes.
#[derive(Clone, Copy)]
struct Accepted {
    json: bool,
    events: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let mut given = headers.get_all(ACCEPT).iter().peekable();
        if given.peek().is_none() {
            return Ok(Self { json: true, events: true });
        }
        let mut accepted = Self { json: false, events: false };
        for kind in given.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(',')) {
            match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
                "*/*" => (accepted.json, accepted.events) = (true, true),
                JSON | "application/*" => accepted.json = true,
                EVENTS | "text/*" => accepted.events = true,
                _ => {}
            }
        }
        if !accepted.json && !accepted.events {
            let detail = "send `Accept: application/json, text/event-stream`";
            return Err(Problem::new(Code::NotAcceptable, detail));
        }
        Ok(accepted)
    }
}

/// What is needed to keep a stream for a client that comes back.
struct Keeping<'a> {
    mcp: &'a Mcp,
    principal: &'a str,
    is_primed: bool,
}

async fn write(mut answer: Answer, accepted: Accepted, kept: Option<Keeping<'_>>) -> Response {
    if !accepted.events {
        return loop {
            match answer.next().await {
                Some(sent) if sent.is_last => break plain(&sent),
                // What comes before the answer is for clients that take it.
                Some(_) => {}
                None => break taken(),
            }
        };
    }
    let first = match tokio::time::timeout(PATIENCE, answer.next()).await {
        Ok(Some(sent)) if sent.is_last && accepted.json => return plain(&sent),
        Ok(None) => return taken(),
        Ok(first) => first,
        Err(_) => None,
    };
    let place = kept.and_then(|keeping| {
        let stream = keeping.mcp.streams.place(keeping.principal)?;
        Some((stream, keeping))
    });
    match place {
        Some((stream, keeping)) => {
            stream.carry(&keeping.mcp.work, first, answer);
            events(taken_up(stream, 0, keeping.is_primed))
        }
        None => events(stream::unfold((first, Some(answer)), |(first, answer)| async move {
            let mut answer = answer?;
            let next = match first {
                Some(first) => Some(first),
                None => within_a_heartbeat(answer.next()).await?,
            };
            Some(match next {
                None => (heartbeat(), (None, Some(answer))),
                Some(sent) if sent.is_last => (event(None, &sent.to_bytes()), (None, None)),
                Some(sent) => (event(None, &sent.to_bytes()), (None, Some(answer))),
            })
        })),
    }
}

/// What comes, or nothing in time; none when nothing comes any more.
async fn within_a_heartbeat<T>(next: impl Future<Output = Option<T>>) -> Option<Option<T>> {
    match tokio::time::timeout(HEARTBEAT, next).await {
        Ok(Some(next)) => Some(Some(next)),
        Ok(None) => None,
        Err(_) => Some(None),
    }
}

/// A stream of a call, from an event on.
fn taken_up(
    stream: Arc<Stream>,
    after: usize,
    is_primed: bool,
) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((stream, after, is_primed), |(stream, after, is_primed)| async move {
        if is_primed {
            let text = format!("id: {}\nretry: {RETRY}\ndata: \n\n", stream.start());
            return Some((text.into(), (stream, after, false)));
        }
        Some(match within_a_heartbeat(stream.next(after)).await? {
            None => (heartbeat(), (stream, after, false)),
            Some((id, message, number)) => (event(Some(&id), &message), (stream, number, false)),
        })
    })
}

/// A stream of changes.
fn heard(listen: Box<Listen>) -> impl futures_util::Stream<Item = Bytes> {
    stream::unfold((listen, true), |(mut listen, is_new)| async move {
        // At once, so that whoever waits for the stream to be there need not wait for a change.
        if is_new {
            return Some((heartbeat(), (listen, false)));
        }
        Some(match within_a_heartbeat(listen.next()).await? {
            None => (heartbeat(), (listen, false)),
            Some(sent) => {
                let id = format!("at-{}", listen.position());
                (event(Some(&id), &sent.to_bytes()), (listen, false))
            }
        })
    })
}

fn heartbeat() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 64);
    if let Some(id) = id {
        event.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event.into()
}

/// Nothing of this may be kept by anybody in between: it is for one agent.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");
const BY_CREDENTIAL: HeaderValue = HeaderValue::from_static("Authorization");

fn events(stream: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt as _;
    let body = Body::from_stream(stream.map(Ok::<Bytes, std::convert::Infallible>));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, BY_CREDENTIAL);
    // Proxies that gather an answer before they pass it on would make a stream useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn plain(sent: &Sent) -> Response {
    let mut response = Response::new(Body::new(Pieces::new(sent.pieces.clone())));
    *response.status_mut() = StatusCode::from_u16(sent.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(CACHE_CONTROL, PRIVATE);
    headers.insert(VARY, BY_CREDENTIAL);
    response
}

/// It was heard, and there is nothing to say to it.
fn taken() -> Response {
    StatusCode::ACCEPTED.into_response()
}

fn not_in_this_era() -> Response {
    let allowed = [(ALLOW, HeaderValue::from_static("POST"))];
    (StatusCode::METHOD_NOT_ALLOWED, allowed).into_response()
}

/// Whoever wants to listen must take a stream.
fn only_events() -> Problem {
    Problem::new(Code::NotAcceptable, "this is answered with `text/event-stream`")
}

fn nothing_there(error: &RpcError) -> Problem {
    Problem::new(Code::NotFound, error.message.clone())
}
