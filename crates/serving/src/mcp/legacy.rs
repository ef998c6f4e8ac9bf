//! The legacy era with sessions (2024-11-05 to 2025-11-25): a client begins with `initialize`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib::{Abilities, Level};

use super::answer::Sent;
use super::era::{self, Era, LEGACY};
use super::error::RpcError;
use super::message::{Id, Request};
use super::meta::Meta;
use super::methods::{Answer, Asking, text};
use super::peer::Peer;
use super::sessions::Session;
use super::{Mcp, capabilities};

/// Log level for clients that did not set one.
const USUAL_LEVEL: Level = Level::Info;

/// Answers any request except `initialize`.
pub(crate) fn answer(
    mcp: &Arc<Mcp>,
    peer: Peer,
    session: Option<(&str, &Session)>,
    request: Request,
) -> Answer {
    let id = request.id.clone();
    match begin(mcp, peer, session, request) {
        Ok(answer) => answer,
        Err(error) => Answer::Sent(Sent::error(Some(&id), &Era::Legacy.told(error))),
    }
}

fn begin(
    mcp: &Arc<Mcp>,
    peer: Peer,
    session: Option<(&str, &Session)>,
    mut request: Request,
) -> Result<Answer, RpcError> {
    let trace = request.meta.as_ref().and_then(Meta::trace);
    let progress_token = request.meta.as_mut().and_then(|meta| meta.progress_token.take());
    let (id, params) = (&request.id, &request.params);
    let done = || Ok(Answer::Sent(Sent::result(id, "{}".to_owned())));
    let principal: Arc<str> = peer.principal().into();
    let gathering = || session.map(|(name, _)| mcp.sessions.gather(&principal, name));
    match request.method.as_str() {
        "ping" => return done(),
        "logging/setLevel" => {
            let level = params.get("level").cloned().unwrap_or_default();
            let level = serde_json::from_value(level)
                .map_err(|_| RpcError::invalid_params("there is no such level"))?;
            if let Some(gathered) = gathering() {
                gathered.set_log_from(level);
            }
            return done();
        }
        "resources/unsubscribe" => {
            let uri = text(params, "uri")?;
            if let Some((name, _)) = session
                && let Some(gathered) = mcp.sessions.gathered(&principal, name)
            {
                gathered.unsubscribe(&uri);
            }
            return done();
        }
        _ => {}
    }
    let subscribes = request.method == "resources/subscribe";
    // Without a session there is no stream for notifications.
    let gathering = if subscribes { gathering() } else { None };
    let version = session.map(|(_, session)| session.version.as_str());
    let peer = peer.within(trace).speaking(version);
    let gathered = session.and_then(|(name, _)| mcp.sessions.gathered(&principal, name));
    let log_from = gathered.and_then(|gathered| gathered.log_from()).unwrap_or(USUAL_LEVEL);
    // Without a session, a cancellation cannot be tied to a client; the call ends when the client disconnects.
    let stoppable_by = session.map(|(name, _)| format!("{principal}\0{name}").into());
    let asking = Asking {
        mcp: Arc::clone(mcp),
        peer,
        principal,
        era: Era::Legacy,
        abilities: session.map(|(_, session)| session.abilities()).unwrap_or_default(),
        log_from: Some(log_from),
        progress_token,
        stoppable_by,
        // Legacy clients interpret a 403 status too, and some then give up without reporting an error.
        is_challenged: false,
    };
    match (subscribes, gathering) {
        (true, gathered) => asking.subscribe(&request.id, &request.params, gathered),
        (false, _) => asking.answer(request, None),
    }
}

/// Answers `initialize`; returns the answer and the new session.
pub(crate) fn initialize(
    peer: &Peer,
    id: &Id,
    params: &Map<String, Value>,
) -> Result<(Sent, Session), RpcError> {
    let wanted = text(params, "protocolVersion")?;
    // For an unknown version, offer the newest one; the client decides.
    let version = LEGACY.into_iter().find(|known| *known == wanted).unwrap_or(LEGACY[0]);
    let abilities = params.get("capabilities").and_then(Abilities::of).unwrap_or_default();
    let session = Session::new(version, abilities);
    let result = json!({
        "protocolVersion": version,
        "capabilities": capabilities::of(&peer.view()?, Era::Legacy),
        "serverInfo": era::server_info(),
    });
    Ok((Sent::result(id, result.to_string()), session))
}

/// Handles a notification. Only the cancellation of a call matters to us.
pub(crate) fn hear(
    mcp: &Mcp,
    principal: &str,
    session: Option<&str>,
    method: &str,
    params: &Map<String, Value>,
) {
    if method == "notifications/cancelled"
        && let Some(session) = session
        && let Some(id) = params.get("requestId").and_then(Id::of)
    {
        let whose = format!("{principal}\0{session}");
        mcp.stoppable.stop(&whose, &id);
    }
}
