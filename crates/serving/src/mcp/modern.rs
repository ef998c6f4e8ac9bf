//! The modern era without sessions (2026-07-28): every request carries its version and the client's capabilities.

use std::sync::Arc;

use axum::http::HeaderMap;
use model::ToolId;
use serde_json::{Map, Value};
use toolcrib::{Abilities, Ability, Level};

use super::answer::Sent;
use super::era::{self, Era, MODERN};
use super::error::RpcError;
use super::listen::Listen;
use super::message::{Id, Request};
use super::meta::Meta;
use super::methods::{Answer, Asking};
use super::peer::Peer;
use super::tasks::Owner;
use super::{Mcp, capabilities, headers};

/// All methods of the era.
const METHODS: [&str; 13] = [
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
struct Said {
    version: String,
    abilities: Abilities,
    log_from: Option<Level>,
    progress_token: Option<Value>,
}

/// Answers a request. Over HTTP, its headers must match it.
pub(crate) fn answer(
    mcp: &Arc<Mcp>,
    peer: Peer,
    headers: Option<&HeaderMap>,
    request: Request,
) -> Answer {
    let id = request.id.clone();
    match begin(mcp, peer, headers, request) {
        Ok(answer) => answer,
        Err(error) => Answer::Sent(Sent::error(Some(&id), &error)),
    }
}

fn begin(
    mcp: &Arc<Mcp>,
    peer: Peer,
    headers: Option<&HeaderMap>,
    mut request: Request,
) -> Result<Answer, RpcError> {
    if !METHODS.contains(&request.method.as_str()) {
        return Err(RpcError::method_not_found(&request.method));
    }
    let trace = request.meta.as_ref().and_then(Meta::trace);
    let said = Said::of(request.meta.take())?;
    if let Some(headers) = headers
        && headers::single(headers, &headers::VERSION)? != Some(said.version.as_str())
    {
        let why = "the header `MCP-Protocol-Version` must be there and be the version of the body";
        return Err(RpcError::header_mismatch(why));
    }
    if said.version != MODERN {
        return Err(RpcError::unsupported_version(&said.version, &era::ALL));
    }
    if let Some(headers) = headers {
        headers::check(headers, &request.method, &request.params)?;
    }
    let is_challenged = headers.is_some() && peer.shows_a_token();
    let peer = peer.within(trace);
    let principal: Arc<str> = peer.principal().into();
    let asking = Asking {
        mcp: Arc::clone(mcp),
        peer,
        principal,
        era: Era::Modern,
        abilities: said.abilities,
        log_from: said.log_from,
        progress_token: said.progress_token,
        stoppable_by: None,
        is_challenged,
    };
    let (id, method, params) = (&request.id, request.method.as_str(), &request.params);
    match method {
        "server/discover" => asking.discover(id).map(Answer::Sent),
        "subscriptions/listen" => Listen::begin(&asking, id, params).map(Answer::Listen),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            asking.task(id, method, params).map(Answer::Sent)
        }
        _ => asking.answer(request, headers),
    }
}

impl Said {
    fn of(meta: Option<Meta>) -> Result<Self, RpcError> {
        let invalid = |why: &str| RpcError::invalid_meta(why);
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

impl Asking {
    fn discover(&self, id: &Id) -> Result<Sent, RpcError> {
        let capabilities = capabilities::of(&self.view()?, self.era);
        let result = Map::from_iter([
            ("supportedVersions".to_owned(), era::ALL.as_slice().into()),
            ("capabilities".to_owned(), capabilities),
        ]);
        Ok(Sent::result(id, self.era.uncached(result)))
    }

    fn task(&self, id: &Id, method: &str, params: &Map<String, Value>) -> Result<Sent, RpcError> {
        if !self.abilities.tasks {
            return Err(RpcError::unable(Ability::Tasks));
        }
        let (tasks, view) = (&self.mcp.tasks, self.view()?);
        let has = |tool: &ToolId| view.may_read_of(tool);
        let owner = Owner { principal: &self.principal, has: &has };
        let result = match method {
            "tasks/update" => tasks.update(owner, params),
            "tasks/cancel" => tasks.cancel(owner, params),
            _ => tasks.get(owner, params),
        };
        Ok(Sent::result(id, self.era.complete(result?)))
    }
}
