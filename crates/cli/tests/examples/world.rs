//! The environment of an agent: a toolcrib server with its built-in tools, which may be down, and a scripted model.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use catalog::{group, policy, source};
use http_api::EndpointRouter;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib::{
    Catalog, ChangeContext, Command, JournalLocation, SystemClock, Toolcrib, ToolcribOptions,
};
use tower::ServiceExt as _;
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

/// Toolcrib server on its own port. Until it is started, it answers 503.
pub(crate) struct Server {
    pub(crate) url: String,
    up: Arc<OnceLock<EndpointRouter>>,
    answered: Arc<Mutex<Vec<(String, u16)>>>,
}

fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

/// Grants the built-in tools to all callers.
async fn crib() -> Toolcrib {
    let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
    let catalog = Arc::new(Catalog::open(journal).await.unwrap());
    let options = ToolcribOptions { anonymous: true, ..ToolcribOptions::default() };
    let crib =
        Toolcrib::new(catalog, HttpClient::new(EgressPolicy::default()), SystemClock, options);
    let admin = || ChangeContext::by_actor("admin");
    let own: model::SourceId = "own".parse().unwrap();
    let profile = from_json(json!({"name": "own", "settings": {"kind": "builtin"}}));
    let register = Command::Source(own.clone(), source::SourceCommand::Register(profile));
    let group = json!({"id": "own", "profile": {"name": "own"}, "selectors": [{"source": "own"}]});
    let create = group::GroupCommand::Create(Box::new(from_json(group)));
    let matcher = json!({"claim": "anonymous", "operator": "equals", "value": true});
    let rules = json!({"name": "all", "matchers": [matcher], "groups": ["own"]});
    let define = policy::PolicyCommand::Define(from_json(rules));
    for command in [
        register,
        Command::Group("own".parse().unwrap(), create),
        Command::Policy("all".parse().unwrap(), define),
    ] {
        crib.catalog().execute(command, admin(), None).await.unwrap();
    }
    crib.refresher().refresh(&own, false, &admin()).await.unwrap();
    crib
}

impl Server {
    /// Server that has not been started.
    pub(crate) async fn down() -> Self {
        let (up, answered) = (Arc::new(OnceLock::<EndpointRouter>::new()), Arc::default());
        let (doors, record) = (Arc::clone(&up), Arc::clone(&answered));
        let app = Router::new().fallback(move |request: Request| {
            let (doors, record) = (Arc::clone(&doors), Arc::clone(&record));
            async move {
                let path = request.uri().path().to_owned();
                let response = match doors.get().cloned() {
                    Some(doors) => doors.oneshot(request).await.unwrap(),
                    None => status(StatusCode::SERVICE_UNAVAILABLE),
                };
                let record: &Mutex<Vec<(String, u16)>> = &record;
                record.lock().unwrap().push((path, response.status().as_u16()));
                response
            }
        });
        Self { url: listen(app).await, up, answered }
    }

    pub(crate) async fn up() -> (Self, Toolcrib) {
        let server = Self::down().await;
        let crib = server.start().await;
        (server, crib)
    }

    /// Starts answering requests.
    pub(crate) async fn start(&self) -> Toolcrib {
        let crib = crib().await;
        let (doors, _) =
            http_api::build_endpoints(crib.clone(), mcp_server::ServerOptions::local());
        assert!(self.up.set(doors).is_ok(), "it is up already");
        crib
    }

    /// Number of responses with this status at a path.
    pub(crate) fn count(&self, path: &str, status: u16) -> usize {
        let answered = self.answered.lock().unwrap();
        answered.iter().filter(|it| **it == (path.to_owned(), status)).count()
    }
}

/// Model that returns scripted answers in order and repeats the last one; it records the requests.
pub(crate) struct ScriptedModel {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<Value>>>,
}

impl ScriptedModel {
    pub(crate) async fn with_script(script: Vec<(u16, Value)>) -> Self {
        let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (script, hears) = (Arc::new(Mutex::new(VecDeque::from(script))), Arc::clone(&heard));
        let app = Router::new().route(
            "/v1/chat/completions",
            axum::routing::post(move |request: Request| {
                let (script, hears) = (Arc::clone(&script), Arc::clone(&hears));
                async move {
                    let body = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                    hears.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                    let mut script = script.lock().unwrap();
                    let (code, said) = match script.len() {
                        1 => script[0].clone(),
                        _ => script.pop_front().unwrap(),
                    };
                    let response = Response::builder().status(code);
                    response.body(Body::from(said.to_string())).unwrap()
                }
            }),
        );
        Self { url: format!("{}/v1", listen(app).await), heard }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }
}

/// Answer in text.
pub(crate) fn text_answer(content: &str) -> (u16, Value) {
    let message = json!({"role": "assistant", "content": content});
    (200, json!({"choices": [{"message": message}]}))
}

/// Answer with tool calls.
pub(crate) fn tool_call_answer(calls: &[(&str, Value)]) -> (u16, Value) {
    let calls = calls.iter().enumerate().map(|(number, (name, arguments))| {
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": format!("call_{number}"), "type": "function", "function": function})
    });
    let calls: Vec<Value> = calls.collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    (200, json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
}

fn status(status: StatusCode) -> Response {
    Response::builder().status(status).body(Body::empty()).unwrap()
}

async fn listen(app: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}
