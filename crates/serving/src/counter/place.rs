//! Backends of the admin client: a running server, or the same routes over the journal in this process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, ETAG, HOST, HeaderMap, HeaderValue, IF_MATCH};
use axum::http::{Method, Request};
use axum::response::Response;
use http_body_util::BodyExt as _;
use model::{Agent, Claims};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use toolcrib::{
    Catalog, Identity, Journal, JournalError, JournalPlace, RecordOptions, Recorder, Secrets,
    SystemClock, Toolcrib,
};
use tower::ServiceExt as _;
use upstream::egress::Egress;
use upstream::http::header::AUTHORIZATION;
use upstream::http::{HttpClient, Limits};
use url::Url;

use crate::app::{App, Options};
use crate::caller::Operator;
use crate::cli::things::At;
use crate::config::{self, Config};
use crate::doors::Doors;
use crate::failure::Failure;
use crate::journal::{open_or_make, open_to_change, open_to_read};
use crate::{progress, router};

/// Size limit of a response, in bytes.
const LIMIT: usize = 64 << 20;
/// Time-out of a request; a refresh may take a minute.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) enum Place {
    Server { client: HttpClient, url: Url, key: Option<SecretString> },
    Here { doors: Doors, app: App, catalog: Arc<Catalog> },
}

/// Required access to the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Read,
    Change,
    /// Change, and create the journal if it is missing.
    Make,
}

/// A successful response of the admin API.
pub(crate) struct Answered {
    pub(crate) body: Value,
    /// The entity tag of the current version.
    pub(crate) tag: Option<HeaderValue>,
}

impl Place {
    pub(crate) async fn open(config: &Config, at: &At, reach: Reach) -> Result<Self, Failure> {
        if let Some(url) = &at.server {
            return Self::server(url);
        }
        let journal = match reach {
            Reach::Read => open_to_read(&config.journal).await?,
            Reach::Change => open_to_change(&config.journal).await.map_err(in_use)?,
            Reach::Make => open_or_make(&config.journal).await.map_err(in_use)?,
        };
        Self::here(config, journal, None).await
    }

    /// Connects for the call log, which is read without its journal.
    pub(crate) async fn open_record(config: &Config, at: &At) -> Result<Self, Failure> {
        if let Some(url) = &at.server {
            return Self::server(url);
        }
        if matches!(config.journal, JournalPlace::Memory) {
            return Err(Failure::InMemory);
        }
        let records = config.journal.open_record_to_read().await?;
        let recorder = Recorder::start(records, RecordOptions::default());
        let journal = JournalPlace::Memory.open(SystemClock).await?;
        Self::here(config, journal, Some(recorder)).await
    }

    pub(crate) fn server(url: &Url) -> Result<Self, Failure> {
        // The operator named this address, and most servers are in a private network.
        let client = HttpClient::new(Egress { allow_private: true, allowed: Vec::new() });
        Ok(Self::Server { client, url: url.clone(), key: config::key_of_agent()? })
    }

    async fn here(
        config: &Config,
        journal: Arc<dyn Journal>,
        recorder: Option<Arc<Recorder>>,
    ) -> Result<Self, Failure> {
        let key = config.sealing_key(None)?;
        let secrets =
            Secrets::new(Arc::clone(&journal), key, SystemClock, config::variable_of_user);
        let catalog = Arc::new(Catalog::open(journal).await?);
        let client = HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
        let behaviour = toolcrib::Options {
            secrets: Some(Arc::new(secrets)),
            recorder,
            // A user who can write the journal can start programs as well.
            programs: Config::programs(&config.journal, (true, Vec::new()), [None, None]),
            ..toolcrib::Options::default()
        };
        let crib = Toolcrib::new(Arc::clone(&catalog), client, SystemClock, behaviour);
        let options = Options { allow_stdio: true, ..Options::default() };
        let (doors, app) = router::doors(crib, options);
        Ok(Self::Here { doors, app, catalog })
    }

    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Here { .. })
    }

    /// Stops background work and closes the catalog, so that no write is left incomplete.
    pub(crate) async fn close(self) {
        if let Self::Here { doors, app, catalog } = self {
            app.stop().await;
            drop((doors, app));
            if let Some(catalog) = Arc::into_inner(catalog) {
                catalog.close().await;
            }
        }
    }

    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answered, Failure> {
        self.ask_if(method, path, body, None).await
    }

    /// Like `send`, if the entity still has this tag (`If-Match`).
    pub(crate) async fn ask_if(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        tag: Option<HeaderValue>,
    ) -> Result<Answered, Failure> {
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
                    let request = request(url, key.as_ref(), method, path, headers, body)?;
                    over_the_wire(client, request).await
                }
                Self::Here { doors, .. } => {
                    in_process(doors, method, path, headers, body.unwrap_or_default()).await
                }
            }
        };
        let (status, headers, body) = progress::during("waiting for the answer", asked).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if 400 <= status || (body.is_null() && status != 204) {
            return Err(refused(status, &body));
        }
        Ok(Answered { body, tag: headers.get(ETAG).cloned() })
    }

    /// Streams a response of any size to `write`.
    pub(crate) async fn copy(
        &self,
        path: &str,
        mut write: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Failure> {
        match self {
            Self::Server { client, url, key } => {
                let request =
                    request(url, key.as_ref(), Method::GET, path, HeaderMap::new(), None)?;
                let limits = Limits { deadline: DEADLINE, max_bytes: u64::MAX };
                let mut answer = client.open(request, limits).await.map_err(Failure::Server)?;
                if 400 <= answer.status {
                    let problem = answer.rest(LIMIT as u64).await.map_err(Failure::Server)?;
                    let problem = serde_json::from_slice(&problem).unwrap_or_default();
                    return Err(refused(answer.status, &problem));
                }
                while let Some(piece) = answer.chunk().await.map_err(Failure::Server)? {
                    write(piece.as_ref()).map_err(Failure::Output)?;
                }
            }
            Self::Here { doors, .. } => {
                let response =
                    answered(doors, Method::GET, path, HeaderMap::new(), Vec::new()).await?;
                let status = response.status().as_u16();
                let mut body = response.into_body();
                if 400 <= status {
                    let problem = to_bytes(body, LIMIT).await.unwrap_or_default();
                    let problem = serde_json::from_slice(&problem).unwrap_or_default();
                    return Err(refused(status, &problem));
                }
                while let Some(frame) = body.frame().await {
                    if let Ok(piece) = frame.map_err(broken_off)?.into_data() {
                        write(&piece).map_err(Failure::Output)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The editable fields of an entity, from the OpenAPI document.
    pub(crate) async fn members_of(&self, path: &str) -> Result<Vec<String>, Failure> {
        let document = self.ask(Method::GET, "/api/openapi.json", None).await?.body;
        let body = &document["paths"][format!("{path}/{{id}}")]["put"]["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        let named = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
        let schema = named.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema);
        let members = schema["properties"].as_object();
        Ok(members.into_iter().flat_map(Map::keys).cloned().collect())
    }
}

type Raw = (u16, HeaderMap, Vec<u8>);

async fn over_the_wire(
    client: &HttpClient,
    request: upstream::http::Request,
) -> Result<Raw, Failure> {
    let limits = Limits { deadline: DEADLINE, ..Limits::default() };
    let answer = client.send(request, limits).await.map_err(Failure::Server)?;
    Ok((answer.status, answer.headers, answer.body))
}

fn request(
    url: &Url,
    key: Option<&SecretString>,
    method: Method,
    path: &str,
    mut headers: HeaderMap,
    body: Option<Vec<u8>>,
) -> Result<upstream::http::Request, Failure> {
    let url = url.join(path).map_err(|_| Failure::ServerUrl)?;
    if let Some(key) = key {
        let bearer = format!("Bearer {}", key.expose_secret());
        let mut bearer: HeaderValue = bearer.parse().map_err(|_| Failure::KeyNotText)?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(upstream::http::Request { method, url, headers, body })
}

async fn in_process(
    doors: &Doors,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Raw, Failure> {
    let (parts, body) = answered(doors, method, path, headers, body).await?.into_parts();
    let body = to_bytes(body, LIMIT).await.map_err(broken_off)?;
    Ok((parts.status.as_u16(), parts.headers, body.to_vec()))
}

async fn answered(
    doors: &Doors,
    method: Method,
    path: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Response, Failure> {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = method;
    *request.uri_mut() = path.parse().map_err(|_| Failure::ServerUrl)?;
    *request.headers_mut() = headers;
    request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
    request.extensions_mut().insert(Operator(operator()));
    let Ok(response) = doors.clone().oneshot(request).await;
    Ok(response)
}

fn broken_off(error: axum::Error) -> Failure {
    Failure::BrokenOff(error)
}

/// The identity of a local user who can open the journal: an admin.
fn operator() -> Identity {
    let agent = Agent::new("cli", Arc::new(Claims::from(Map::new())));
    Identity { agent, ..Identity::anonymous() }
}

/// Replaces the error of a journal in use by one that suggests `--server`.
pub(crate) fn in_use(failure: Failure) -> Failure {
    match failure {
        Failure::Journal(JournalError::InUse { place }) => Failure::ServerRuns { place },
        other => other,
    }
}

fn refused(status: u16, problem: &Value) -> Failure {
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
    Failure::Refused { status, sentence, errors: errors.iter().map(both).collect() }
}
