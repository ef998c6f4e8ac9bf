//! Negotiates the protocol era: the modern one is tried first, then `initialize`, then HTTP+SSE.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use tokio::time::timeout;
use upstream::http::HttpError;
use upstream::stdio::ProgramSpec;

use super::authorized_attempts::AuthorizedAttempts;
use super::call_meta::MODERN;
use super::connection_settings::{ConnectionSettings, McpCallOptions, McpTarget, ServerEra};
use super::dispatch::CallRecipient;
use super::http_link::StreamableHttpLink;
use super::http_sse::HttpSseLink;
use super::json_rpc::McpAnswer;
use super::stdio_link::StdioLink;
use super::transport_link::TransportLink;
use super::{McpError, RpcError, call_meta};

/// A server's description of itself and the negotiated protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDescription {
    /// The negotiated era. Passing it to the next connection skips the negotiation.
    pub era: ServerEra,
    /// The negotiated protocol version.
    pub version: &'static str,
    /// The result of `server/discover` or `initialize` as received, such as `capabilities` and `instructions`.
    pub server: Map<String, Value>,
}

/// The JSON-RPC code for an unsupported protocol version.
const UNSUPPORTED_VERSION: i64 = -32022;

impl ServerDescription {
    /// Whether the server announces this capability.
    pub fn has_capability(&self, capability: &str) -> bool {
        self.has_capability_path(&[capability])
    }

    /// Whether the server announces the capability at the end of this path.
    pub(super) fn has_capability_path(&self, path: &[&str]) -> bool {
        let capabilities = self.server.get("capabilities");
        let found = path.iter().try_fold(capabilities, |at, name| Some(at?.get(*name)));
        found.flatten().is_some_and(Value::is_object)
    }
}

/// The result of probing for the modern era.
enum ProbeResult {
    Modern(Map<String, Value>),
    /// The server answers, but not like a modern server.
    NotModern,
    /// The program exited on the probe.
    ProgramDied,
}

pub(super) async fn open_link(
    target: &McpTarget,
    settings: &ConnectionSettings,
) -> Result<(TransportLink, ServerDescription), McpError> {
    let deadline = settings.limits.open_deadline;
    let late = || McpError::Timeout { method: "initialize".into(), deadline };
    let authorization = settings.authorization.as_ref();
    // A user's consent may take longer than a server, so the deadline applies to each attempt.
    let mut attempts = AuthorizedAttempts::new(authorization);
    let (link, about) = loop {
        attempts.begin_attempt().await;
        let opened = timeout(deadline, negotiate_era(target, settings)).await;
        let opened = opened.unwrap_or_else(|_| Err(late()));
        if let Some(opened) = attempts.finish_attempt(opened).await? {
            break opened;
        }
    };
    let is_modern = about.era == ServerEra::Modern;
    link.dispatcher().rejects_questions.store(is_modern, Ordering::Relaxed);
    Ok((link, about))
}

/// Negotiates the era. If the server no longer speaks the known era, it is probed as if for the first time.
async fn negotiate_era(
    target: &McpTarget,
    settings: &ConnectionSettings,
) -> Result<(TransportLink, ServerDescription), McpError> {
    let opened = connect_with_era(target, settings, settings.era).await;
    match opened {
        Err(
            McpError::UnexpectedStatus { .. }
            | McpError::Refused { .. }
            | McpError::InvalidAnswer { .. }
            | McpError::AnswerTooLarge { .. }
            | McpError::UnsupportedVersion { .. },
        ) if settings.era.is_some() => connect_with_era(target, settings, None).await,
        opened => opened,
    }
}

async fn connect_with_era(
    target: &McpTarget,
    settings: &ConnectionSettings,
    era: Option<ServerEra>,
) -> Result<(TransportLink, ServerDescription), McpError> {
    match target {
        McpTarget::Http { .. } if era == Some(ServerEra::HttpSse) => {
            connect_http_sse(target, settings).await
        }
        McpTarget::Http { client, url, headers } => {
            let (client, url) = (client.clone(), url.clone());
            let link = StreamableHttpLink::new(client, url, headers.clone(), settings.clone());
            let shared = TransportLink::Http(link.clone());
            if era != Some(ServerEra::Initialize)
                && let ProbeResult::Modern(server) = probe_modern(&shared, settings).await?
            {
                return Ok((
                    shared,
                    ServerDescription { era: ServerEra::Modern, version: MODERN, server },
                ));
            }
            link.set_era(ServerEra::Initialize);
            match link.initialize().await {
                Ok(server) => {
                    let version = call_meta::negotiated_version(&server)?;
                    Ok((shared, ServerDescription { era: ServerEra::Initialize, version, server }))
                }
                Err(first @ McpError::UnexpectedStatus { status: 400..500, .. }) => {
                    connect_http_sse(target, settings).await.map_err(|second| match second {
                        McpError::UnexpectedStatus { .. }
                        | McpError::InvalidAnswer { .. }
                        | McpError::AnswerTooLarge { .. } => first,
                        second => second,
                    })
                }
                Err(error) => Err(error),
            }
        }
        McpTarget::Program(program) => connect_stdio(program, settings, era).await,
    }
}

async fn connect_http_sse(
    target: &McpTarget,
    settings: &ConnectionSettings,
) -> Result<(TransportLink, ServerDescription), McpError> {
    let McpTarget::Http { client, url, headers } = target else { return Err(McpError::Closed) };
    let (client, url) = (client.clone(), url.clone());
    let link = HttpSseLink::connect_stream(client, url, headers.clone(), settings.clone()).await?;
    let shared = TransportLink::HttpSse(link.clone());
    let server = initialize_link(&shared, settings).await?;
    let version = call_meta::negotiated_version(&server)?;
    link.set_version(version);
    shared.send_notification("notifications/initialized", &Map::new()).await?;
    Ok((shared, ServerDescription { era: ServerEra::HttpSse, version, server }))
}

async fn connect_stdio(
    program: &ProgramSpec,
    settings: &ConnectionSettings,
    era: Option<ServerEra>,
) -> Result<(TransportLink, ServerDescription), McpError> {
    let mut link = StdioLink::start_server(program, settings.clone()).await?;
    if !matches!(era, Some(ServerEra::Initialize | ServerEra::HttpSse)) {
        match probe_modern(&TransportLink::Stdio(link.clone()), settings).await? {
            ProbeResult::Modern(server) => {
                let about = ServerDescription { era: ServerEra::Modern, version: MODERN, server };
                return Ok((TransportLink::Stdio(link), about));
            }
            ProbeResult::NotModern => {}
            ProbeResult::ProgramDied => {
                link = StdioLink::start_server(program, settings.clone()).await?
            }
        }
    }
    link.set_modern(false);
    let shared = TransportLink::Stdio(link.clone());
    let server = match initialize_link(&shared, settings).await {
        // The probe timed out, but the server supports only the modern era.
        Err(refused @ McpError::Refused { code: UNSUPPORTED_VERSION, .. }) => {
            link.set_modern(true);
            let ProbeResult::Modern(server) = probe_modern(&shared, settings).await? else {
                return Err(refused);
            };
            return Ok((
                shared,
                ServerDescription { era: ServerEra::Modern, version: MODERN, server },
            ));
        }
        introduced => introduced?,
    };
    let version = call_meta::negotiated_version(&server)?;
    shared.send_notification("notifications/initialized", &Map::new()).await?;
    Ok((shared, ServerDescription { era: ServerEra::Initialize, version, server }))
}

async fn initialize_link(
    link: &TransportLink,
    settings: &ConnectionSettings,
) -> Result<Map<String, Value>, McpError> {
    let call = McpCallOptions {
        deadline: Some(settings.limits.open_deadline),
        ..McpCallOptions::default()
    };
    let mut params = call_meta::initialize_params(settings);
    expect_result(
        "initialize",
        link.send_call("initialize", &mut params, &call, CallRecipient::Internal).await?,
    )
}

/// Probes for the modern era. Any other answer, or none in time, means an older era. An unreachable server and one that
/// requires a credential are errors.
async fn probe_modern(
    link: &TransportLink,
    settings: &ConnectionSettings,
) -> Result<ProbeResult, McpError> {
    let deadline = settings.limits.probe_deadline;
    let call = McpCallOptions { deadline: Some(deadline), ..McpCallOptions::default() };
    let ask = async || {
        link.send_call("server/discover", &mut Map::new(), &call, CallRecipient::Internal).await
    };
    let asked = timeout(deadline, async {
        match ask().await {
            // The server rejects the version but lists it as supported, so it is asked again.
            Ok(McpAnswer::Error(error)) if offers_modern_version(&error) => ask().await,
            answer => answer,
        }
    });
    let Ok(answer) = asked.await else { return Ok(ProbeResult::NotModern) };
    match answer {
        Ok(McpAnswer::Result(server)) => {
            let versions = server.get("supportedVersions").and_then(Value::as_array);
            let is_modern = versions.is_some_and(|all| all.iter().any(|one| one == MODERN));
            Ok(if is_modern { ProbeResult::Modern(server) } else { ProbeResult::NotModern })
        }
        Ok(McpAnswer::Error(_))
        | Err(
            McpError::UnexpectedStatus { .. }
            | McpError::InvalidAnswer { .. }
            | McpError::AnswerTooLarge { .. },
        ) => Ok(ProbeResult::NotModern),
        Err(McpError::ProgramEnded { .. }) => Ok(ProbeResult::ProgramDied),
        Err(McpError::Http(error)) if matches!(*error, HttpError::Timeout { .. }) => {
            Ok(ProbeResult::NotModern)
        }
        Err(error) => Err(error),
    }
}

/// Whether the error is for an unsupported version and lists the modern version as supported.
fn offers_modern_version(error: &RpcError) -> bool {
    let supported = error.raw.get("data").and_then(|it| it.get("supported")?.as_array());
    error.code == UNSUPPORTED_VERSION
        && supported.is_some_and(|versions| versions.iter().any(|version| version == MODERN))
}

/// The result of a request that must not fail.
pub(super) fn expect_result(
    method: &str,
    answer: McpAnswer,
) -> Result<Map<String, Value>, McpError> {
    match answer {
        McpAnswer::Result(result) => Ok(result),
        McpAnswer::Error(error) => {
            let RpcError { code, .. } = error;
            Err(McpError::Refused { method: method.into(), code, error: Box::new(error) })
        }
    }
}
