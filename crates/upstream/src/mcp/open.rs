//! Negotiates the protocol era: the modern one is tried first, then `initialize`, then HTTP+SSE.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use tokio::time::timeout;

use super::hearing::Whose;
use super::http::HttpLink;
use super::http_sse::SseLink;
use super::link::Link;
use super::message::Answer;
use super::meta::{self, MODERN};
use super::oauth::Attempts;
use super::pipe::PipeLink;
use super::settings::{Call, Era, Settings, Target};
use super::{McpError, RpcError};
use crate::http::HttpError;
use crate::stdio::Program;

/// A server's description of itself and the negotiated protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// The negotiated era. Passing it to the next connection skips the negotiation.
    pub era: Era,
    /// The negotiated protocol version.
    pub version: &'static str,
    /// The result of `server/discover` or `initialize` as received, such as `capabilities` and `instructions`.
    pub server: Map<String, Value>,
}

/// The JSON-RPC code for an unsupported protocol version.
const UNSUPPORTED: i64 = -32022;

impl About {
    /// Whether the server announces this capability.
    pub fn can(&self, capability: &str) -> bool {
        self.says(&[capability])
    }

    /// Whether the server announces the capability at the end of this path.
    pub(super) fn says(&self, path: &[&str]) -> bool {
        let capabilities = self.server.get("capabilities");
        let found = path.iter().try_fold(capabilities, |at, name| Some(at?.get(*name)));
        found.flatten().is_some_and(Value::is_object)
    }
}

/// The result of probing for the modern era.
enum Probed {
    Modern(Map<String, Value>),
    /// The server answers, but not like a modern server.
    Not,
    /// The program exited on the probe.
    Died,
}

pub(super) async fn open(target: &Target, settings: &Settings) -> Result<(Link, About), McpError> {
    let deadline = settings.limits.opening;
    let late = || McpError::Timeout { method: "initialize".into(), deadline };
    let authorization = settings.authorization.as_ref();
    // A user's consent may take longer than a server, so the deadline applies to each attempt.
    let mut attempts = Attempts::new(authorization);
    let (link, about) = loop {
        attempts.begin().await;
        let opened = timeout(deadline, negotiate(target, settings)).await;
        let opened = opened.unwrap_or_else(|_| Err(late()));
        if let Some(opened) = attempts.end(opened).await? {
            break opened;
        }
    };
    let is_modern = about.era == Era::Modern;
    link.hearing().has_no_questions.store(is_modern, Ordering::Relaxed);
    Ok((link, about))
}

/// Negotiates the era. If the server no longer speaks the known era, it is probed as if for the first time.
async fn negotiate(target: &Target, settings: &Settings) -> Result<(Link, About), McpError> {
    let opened = by_era(target, settings, settings.era).await;
    match opened {
        Err(
            McpError::Status { .. }
            | McpError::Refused { .. }
            | McpError::Unreadable { .. }
            | McpError::TooMuch { .. }
            | McpError::Version { .. },
        ) if settings.era.is_some() => by_era(target, settings, None).await,
        opened => opened,
    }
}

async fn by_era(
    target: &Target,
    settings: &Settings,
    era: Option<Era>,
) -> Result<(Link, About), McpError> {
    match target {
        Target::Http { .. } if era == Some(Era::HttpSse) => two_endpoints(target, settings).await,
        Target::Http { client, url, headers } => {
            let (client, url) = (client.clone(), url.clone());
            let link = HttpLink::new(client, url, headers.clone(), settings.clone());
            let shared = Link::Http(link.clone());
            if era != Some(Era::Initialize)
                && let Probed::Modern(server) = discover(&shared, settings).await?
            {
                return Ok((shared, About { era: Era::Modern, version: MODERN, server }));
            }
            link.set_era(Era::Initialize);
            match link.initialize().await {
                Ok(server) => {
                    let version = meta::chosen(&server)?;
                    Ok((shared, About { era: Era::Initialize, version, server }))
                }
                Err(first @ McpError::Status { status: 400..500, .. }) => {
                    two_endpoints(target, settings).await.map_err(|second| match second {
                        McpError::Status { .. }
                        | McpError::Unreadable { .. }
                        | McpError::TooMuch { .. } => first,
                        second => second,
                    })
                }
                Err(error) => Err(error),
            }
        }
        Target::Program(program) => to_program(program, settings, era).await,
    }
}

async fn two_endpoints(target: &Target, settings: &Settings) -> Result<(Link, About), McpError> {
    let Target::Http { client, url, headers } = target else { return Err(McpError::Closed) };
    let (client, url) = (client.clone(), url.clone());
    let link = SseLink::open(client, url, headers.clone(), settings.clone()).await?;
    let shared = Link::Sse(link.clone());
    let server = introduce(&shared, settings).await?;
    let version = meta::chosen(&server)?;
    link.set_version(version);
    shared.notify("notifications/initialized", &Map::new()).await?;
    Ok((shared, About { era: Era::HttpSse, version, server }))
}

async fn to_program(
    program: &Program,
    settings: &Settings,
    era: Option<Era>,
) -> Result<(Link, About), McpError> {
    let mut link = PipeLink::open(program, settings.clone()).await?;
    if !matches!(era, Some(Era::Initialize | Era::HttpSse)) {
        match discover(&Link::Pipe(link.clone()), settings).await? {
            Probed::Modern(server) => {
                let about = About { era: Era::Modern, version: MODERN, server };
                return Ok((Link::Pipe(link), about));
            }
            Probed::Not => {}
            Probed::Died => link = PipeLink::open(program, settings.clone()).await?,
        }
    }
    link.set_modern(false);
    let shared = Link::Pipe(link.clone());
    let server = match introduce(&shared, settings).await {
        // The probe timed out, but the server supports only the modern era.
        Err(refused @ McpError::Refused { code: UNSUPPORTED, .. }) => {
            link.set_modern(true);
            let Probed::Modern(server) = discover(&shared, settings).await? else {
                return Err(refused);
            };
            return Ok((shared, About { era: Era::Modern, version: MODERN, server }));
        }
        introduced => introduced?,
    };
    let version = meta::chosen(&server)?;
    shared.notify("notifications/initialized", &Map::new()).await?;
    Ok((shared, About { era: Era::Initialize, version, server }))
}

async fn introduce(link: &Link, settings: &Settings) -> Result<Map<String, Value>, McpError> {
    let call = Call { deadline: Some(settings.limits.opening), ..Call::default() };
    let mut params = meta::introduction(settings);
    accepted("initialize", link.call("initialize", &mut params, &call, Whose::Ours).await?)
}

/// Probes for the modern era. Any other answer, or none in time, means an older era. An unreachable server and one that
/// requires a credential are errors.
async fn discover(link: &Link, settings: &Settings) -> Result<Probed, McpError> {
    let deadline = settings.limits.probe;
    let call = Call { deadline: Some(deadline), ..Call::default() };
    let ask = async || link.call("server/discover", &mut Map::new(), &call, Whose::Ours).await;
    let asked = timeout(deadline, async {
        match ask().await {
            // The server rejects the version but lists it as supported, so it is asked again.
            Ok(Answer::Error(error)) if names_the_modern_version(&error) => ask().await,
            answer => answer,
        }
    });
    let Ok(answer) = asked.await else { return Ok(Probed::Not) };
    match answer {
        Ok(Answer::Result(server)) => {
            let versions = server.get("supportedVersions").and_then(Value::as_array);
            let is_modern = versions.is_some_and(|all| all.iter().any(|one| one == MODERN));
            Ok(if is_modern { Probed::Modern(server) } else { Probed::Not })
        }
        Ok(Answer::Error(_))
        | Err(McpError::Status { .. } | McpError::Unreadable { .. } | McpError::TooMuch { .. }) => {
            Ok(Probed::Not)
        }
        Err(McpError::Ended { .. }) => Ok(Probed::Died),
        Err(McpError::Http(error)) if matches!(*error, HttpError::Timeout { .. }) => {
            Ok(Probed::Not)
        }
        Err(error) => Err(error),
    }
}

/// Whether the error is for an unsupported version and lists the modern version as supported.
fn names_the_modern_version(error: &RpcError) -> bool {
    let supported = error.raw.get("data").and_then(|it| it.get("supported")?.as_array());
    error.code == UNSUPPORTED
        && supported.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

/// The result of a request that must not fail.
pub(super) fn accepted(method: &str, answer: Answer) -> Result<Map<String, Value>, McpError> {
    match answer {
        Answer::Result(result) => Ok(result),
        Answer::Error(error) => {
            let RpcError { code, .. } = error;
            Err(McpError::Refused { method: method.into(), code, error: Box::new(error) })
        }
    }
}
