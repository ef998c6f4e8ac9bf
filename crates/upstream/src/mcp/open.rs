//! Finding out how a server is to be spoken to: the modern way is tried first, then `initialize`, then two endpoints.

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

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// How it is spoken to. Hand it in next time.
    pub era: Era,
    /// Which version.
    pub version: &'static str,
    /// The result of `server/discover` or `initialize`, as it came: `capabilities`, `instructions` and the rest.
    pub server: Map<String, Value>,
}

/// The number of the error for a version that is not spoken.
const UNSUPPORTED: i64 = -32022;

impl About {
    /// Whether it announces this capability.
    pub fn can(&self, capability: &str) -> bool {
        self.says(&[capability])
    }

    /// Whether it announces the capability at the end of this path.
    pub(super) fn says(&self, path: &[&str]) -> bool {
        let capabilities = self.server.get("capabilities");
        let found = path.iter().try_fold(capabilities, |at, name| Some(at?.get(*name)));
        found.flatten().is_some_and(Value::is_object)
    }
}

/// What came of asking for the modern era.
enum Probed {
    Modern(Map<String, Value>),
    /// It answers, and not as a modern server does.
    Not,
    /// The program did not survive the question.
    Died,
}

pub(super) async fn open(target: &Target, settings: &Settings) -> Result<(Link, About), McpError> {
    let deadline = settings.limits.opening;
    let late = || McpError::Timeout { method: "initialize".into(), deadline };
    let authorization = settings.authorization.as_ref();
    // A user who consents takes longer than a server: the deadline is for each time that it is tried.
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

/// What was known may no longer hold: a server that does not speak as it did is asked as if for the first time.
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
        // It was too slow to say so before: it speaks nothing but the modern era.
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

/// Any answer that is not that of a modern server, and none in time, means an older one. A server that cannot be reached
/// or wants a credential is neither.
async fn discover(link: &Link, settings: &Settings) -> Result<Probed, McpError> {
    let deadline = settings.limits.probe;
    let call = Call { deadline: Some(deadline), ..Call::default() };
    let ask = async || link.call("server/discover", &mut Map::new(), &call, Whose::Ours).await;
    let asked = timeout(deadline, async {
        match ask().await {
            // A server that refuses a version and then names it is asked again.
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

/// The error for a version that is not spoken, with those that are.
fn names_the_modern_version(error: &RpcError) -> bool {
    let supported = error.raw.get("data").and_then(|it| it.get("supported")?.as_array());
    error.code == UNSUPPORTED
        && supported.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

/// The result, where nothing else will do.
pub(super) fn accepted(method: &str, answer: Answer) -> Result<Map<String, Value>, McpError> {
    match answer {
        Answer::Result(result) => Ok(result),
        Answer::Error(error) => {
            let RpcError { code, .. } = error;
            Err(McpError::Refused { method: method.into(), code, error: Box::new(error) })
        }
    }
}
