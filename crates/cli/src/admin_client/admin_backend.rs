//! Backends of the admin client: a running server, or the same routes over the journal in this process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderValue, IF_MATCH};
use axum::http::{Method, Request};
use axum::response::Response;
use endpoint::app_state::{AppState, ServerOptions};
use endpoint::caller::LocalOperator;
use http_api::endpoint_router::EndpointRouter;
use http_api::router;
use http_body_util::BodyExt as _;
use model::{Agent, Claims};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use toolcrib::{
    CallLogOptions, CallRecorder, CallerIdentity, Catalog, Journal, JournalError, JournalLocation,
    SecretStore, SystemClock, Toolcrib,
};
use tower::ServiceExt as _;
use upstream::egress::EgressPolicy;
use upstream::http::header::AUTHORIZATION;
use upstream::http::{ExchangeLimits, HttpClient};
use url::Url;

use crate::arguments::admin_verbs::ServerOption;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::verbs::journal::{open_or_create, open_to_change, open_to_read};
use crate::{environment, progress};

/// Size limit of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Time-out of a request; a refresh may take a minute.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) enum AdminBackend {
    Server { client: HttpClient, url: Url, key: Option<SecretString> },
    InProcess { endpoints: EndpointRouter, app: AppState, catalog: Arc<Catalog> },
}

/// Required access to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalAccess {
    Read,
    Change,
    /// Change, and create the journal if it is missing.
    CreateIfMissing,
}

/// A successful response of the admin API.
pub(crate) struct AdminResponse {
    pub(crate) body: Value,
    /// The entity tag of the current version.
    pub(crate) tag: Option<HeaderValue>,
}

impl AdminBackend {
    pub(crate) async fn connect(
        config: &ProgramConfig,
        at: &ServerOption,
        reach: JournalAccess,
    ) -> Result<Self, CliError> {
        if let Some(url) = &at.server {
            return Self::remote(url);
        }
        let journal = match reach {
            JournalAccess::Read => open_to_read(&config.journal).await?,
            JournalAccess::Change => {
                open_to_change(&config.journal).await.map_err(suggest_server)?
            }
            JournalAccess::CreateIfMissing => {
                open_or_create(&config.journal).await.map_err(suggest_server)?
            }
        };
        Self::open_in_process(config, journal, None).await
    }

    /// Connects for the call log, which is read without its journal.
    pub(crate) async fn connect_to_call_log(
        config: &ProgramConfig,
        at: &ServerOption,
    ) -> Result<Self, CliError> {
        if let Some(url) = &at.server {
            return Self::remote(url);
        }
        if matches!(config.journal, JournalLocation::Memory) {
            return Err(CliError::InMemory);
        }
        let records = config.journal.open_call_log_read_only().await?;
        let recorder = CallRecorder::start(records, CallLogOptions::default());
        let journal = JournalLocation::Memory.open(SystemClock).await?;
        Self::open_in_process(config, journal, Some(recorder)).await
    }

    pub(crate) fn remote(url: &Url) -> Result<Self, CliError> {
        // The operator named this address, and most servers are in a private network.
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        Ok(Self::Server { client, url: url.clone(), key: environment::agent_key()? })
    }

    async fn open_in_process(
        config: &ProgramConfig,
        journal: Arc<dyn Journal>,
        recorder: Option<Arc<CallRecorder>>,
    ) -> Result<Self, CliError> {
        let key = config.sealing_key(None)?;
        let secrets =
            SecretStore::new(Arc::clone(&journal), key, SystemClock, environment::secret_variable);
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        let behaviour = toolcrib::ToolcribOptions {
            secrets: Some(Arc::new(secrets)),
            recorder,
            // A user who can write the journal can start programs as well.
            programs: ProgramConfig::program_host(
                &config.journal,
                (true, Vec::new()),
                [None, None],
            ),
            ..toolcrib::ToolcribOptions::default()
        };
        let crib = Toolcrib::new(Arc::clone(&catalog), client, SystemClock, behaviour);
        let options = ServerOptions { allow_stdio: true, ..ServerOptions::default() };
        let (endpoints, app) = router::build_endpoints(crib, options);
        Ok(Self::InProcess { endpoints, app, catalog })
    }

    pub(crate) fn is_in_process(&self) -> bool {
        matches!(self, Self::InProcess { .. })
    }

    /// Stops background work and closes the catalog, so that no write is left incomplete.
    pub(crate) async fn close(self) {
        if let Self::InProcess { endpoints, app, catalog } = self {
            app.stop().await;
            drop((endpoints, app));
            if let Some(catalog) = Arc::into_inner(catalog) {
                catalog.close().await;
            }
        }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<AdminResponse, CliError> {
        self.send_if_match(method, path, body, None).await
    }

    /// Like `send`, if the entity still has this tag (`If-Match`).
    pub(crate) async fn send_if_match(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        tag: Option<HeaderValue>,
    ) -> Result<AdminResponse, CliError> {
        let mut headers = HeaderMap::new();
        if let Some(tag) = tag {
            headers.insert(IF_MATCH, tag);
        }
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map(|body| body.to_string().into_bytes());
        let asked = async {
            match self {
                Self::Server { client, url, key } => {
                    let request = build_request(url, key.as_ref(), method, path, headers, body)?;
                    send_over_http(client, request).await
                }
                Self::InProcess { endpoints, .. } => {
                    send_in_process(endpoints, method, path, headers, body.unwrap_or_default())
                        .await
                }
            }
        };
        let (status, headers, body) = progress::show_while("waiting for the answer", asked).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if 400 <= status || (body.is_null() && status != 204) {
            return Err(rejection(status, &body));
        }
        Ok(AdminResponse { body, tag: headers.get(ETAG).cloned() })
    }

    /// Streams a response of any size to `write`.
    pub(crate) async fn download(
        &self,
        path: &str,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), CliError> {
        match self {
            Self::Server { client, url, key } => {
                let request =
                    build_request(url, key.as_ref(), Method::GET, path, HeaderMap::new(), None)?;
                let limits = ExchangeLimits { deadline: REQUEST_TIMEOUT, max_bytes: u64::MAX };
                let mut answer =
                    client.open_stream(request, limits).await.map_err(CliError::Server)?;
                if 400 <= answer.status {
                    let problem = answer
                        .read_rest(MAX_RESPONSE_BYTES as u64)
                        .await
                        .map_err(CliError::Server)?;
                    let problem = serde_json::from_slice(&problem).unwrap_or_default();
                    return Err(rejection(answer.status, &problem));
                }
                while let Some(piece) = answer.next_chunk().await.map_err(CliError::Server)? {
                    write(piece.as_ref()).map_err(CliError::Output)?;
                }
            }
            Self::InProcess { endpoints, .. } => {
                let response =
                    call_router(endpoints, Method::GET, path, HeaderMap::new(), Vec::new()).await?;
                let status = response.status().as_u16();
                let mut body = response.into_body();
                if 400 <= status {
                    let problem = to_bytes(body, MAX_RESPONSE_BYTES).await.unwrap_or_default();
                    let problem = serde_json::from_slice(&problem).unwrap_or_default();
                    return Err(rejection(status, &problem));
                }
                while let Some(frame) = body.frame().await {
                    if let Ok(piece) = frame.map_err(interrupted_response)?.into_data() {
                        write(&piece).map_err(CliError::Output)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The editable fields of an entity, from the OpenAPI document.
    pub(crate) async fn editable_fields(&self, path: &str) -> Result<Vec<String>, CliError> {
        let document = self.send(Method::GET, "/api/openapi.json", None).await?.body;
        let body = &document["paths"][format!("{path}/{{id}}")]["put"]["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        let named = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        let schema = named.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema);
        let members = schema["properties"].as_object();
        Ok(members.into_iter().flat_map(Map::keys).cloned().collect())
    }
}

type RawResponse = (u16, HeaderMap, Vec<u8>);

async fn send_over_http(
    client: &HttpClient,
    request: upstream::http::UpstreamRequest,
) -> Result<RawResponse, CliError> {
    let limits = ExchangeLimits { deadline: REQUEST_TIMEOUT, ..ExchangeLimits::default() };
    let answer = client.send(request, limits).await.map_err(CliError::Server)?;
    Ok((answer.status, answer.headers, answer.body))
}

fn build_request(
    url: &Url,
    key: Option<&SecretString>,
    method: Method,
    path: &str,
    mut headers: HeaderMap,
    body: Option<Vec<u8>>,
) -> Result<upstream::http::UpstreamRequest, CliError> {
    let url = url.join(path).map_err(|_| CliError::ServerUrl)?;
    if let Some(key) = key {
        let bearer = format!("Bearer {}", key.expose_secret());
        let mut bearer: HeaderValue = bearer.parse().map_err(|_| CliError::KeyNotText)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(upstream::http::UpstreamRequest { method, url, headers, body })
}

async fn send_in_process(
    endpoints: &EndpointRouter,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<RawResponse, CliError> {
    let (parts, body) = call_router(endpoints, method, path, headers, body).await?.into_parts();
    let body = to_bytes(body, MAX_RESPONSE_BYTES).await.map_err(interrupted_response)?;
    Ok((parts.status.as_u16(), parts.headers, body.to_vec()))
}

async fn call_router(
    endpoints: &EndpointRouter,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Response, CliError> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(|_| CliError::ServerUrl)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request.extensions_mut().insert(LocalOperator(local_operator()));
    let Ok(response) = endpoints.clone().oneshot(request).await;
    Ok(response)
}

fn interrupted_response(error: axum::Error) -> CliError {
    CliError::Interrupted(error)
}

/// The identity of a local user who can open the journal: an admin.
fn local_operator() -> CallerIdentity {
    let agent = Agent::new("cli", Arc::new(Claims::from(Map::new())));
    CallerIdentity { agent, ..CallerIdentity::anonymous() }
}

/// Replaces the error of a journal in use by one that suggests `--server`.
pub(crate) fn suggest_server(failure: CliError) -> CliError {
    match failure {
        CliError::Journal(JournalError::InUse { place }) => CliError::JournalInUse { place },
        other => other,
    }
}

fn rejection(status: u16, problem: &Value) -> CliError {
    let text = |name: &str| problem[name].as_str().map(str::to_owned);
    let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |error: &Value| {
        let text = |name: &str| error[name].as_str().unwrap_or_default();
        format!("`{}`: {}", text("field"), text("message"))
    };
    let sentence = match errors {
        [_, _, ..] => {
            let all: Vec<String> = errors.iter().map(of).collect();
            format!("{} places are wrong\n{}", errors.len(), all.join("\n"))
        }
        _ => text("detail").or_else(|| text("title")).unwrap_or_else(|| {
            format!("the server answered {status}, and not as toolcrib does: is it one?")
        }),
    };
    let sentence = match status {
        401 => format!("{sentence}, as TOOLCRIB_KEY"),
        _ => sentence,
    };
    let both = |error: &Value| {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("field"), text("message"))
    };
    CliError::Rejected { status, sentence, errors: errors.iter().map(both).collect() }
}
