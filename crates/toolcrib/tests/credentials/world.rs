//! A toolcrib with one source, whose upstream records its requests, and agents that call its tools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use jiff::{SignedDuration, Timestamp};
use model::{Agent, ErrorCode, Outcome};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolcrib::{
    Authenticator, Catalog, ChangeContext, Clock, Command, JournalLocation, KeyTiming, ManualClock,
    RefreshResult, RequestCredentials, SecretStore, SystemClock, Toolcrib, ToolcribOptions,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use crate::authority::{Authority, CLIENT};
use crate::wire::{ReceivedRequest, Reply, Server};

pub(crate) struct World {
    pub(crate) crib: Toolcrib,
    pub(crate) upstream: Arc<Server>,
    pub(crate) authority: Authority,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) environment: Arc<Mutex<HashMap<String, String>>>,
}

struct SharedClock(Arc<ManualClock>);

impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Echoes the request path, and answers what a discovery needs.
pub(crate) fn echo(asked: &ReceivedRequest) -> (u16, Value) {
    let tool = json!({"name": "look", "inputSchema": {"type": "object"}});
    match asked.path.split('?').next().unwrap() {
        "/tools" => (200, json!({"tools": [tool]})),
        path => (200, json!({"path": path, "method": asked.method})),
    }
}

/// A specification with one read-only and one modifying operation.
pub(crate) fn specification(server: Option<&str>) -> String {
    let operation = |id: &str| {
        json!({"operationId": id, "security": [{"oauth": ["pets:read"]}],
            "responses": {"200": {"description": "done"}}})
    };
    let scheme = json!({"type": "oauth2", "flows": {}});
    let mut all = json!({"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"},
        "components": {"securitySchemes": {"oauth": scheme}},
        "paths": {"/pets": {"get": operation("look"), "post": operation("add")}}});
    if let Some(server) = server {
        all["servers"] = json!([{"url": server}]);
    }
    all.to_string()
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(echo).await
    }

    pub(crate) async fn with<R: Into<Reply>>(
        reply: impl Fn(&ReceivedRequest) -> R + Send + Sync + 'static,
    ) -> Self {
        let authority = Authority::start().await;
        let upstream = Arc::new(Server::replying(reply).await);
        let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
        let catalog = Arc::new(Catalog::open(Arc::clone(&journal)).await.unwrap());
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        let clock =
            Arc::new(ManualClock::starting_at(Timestamp::from_second(1_800_000_000).unwrap()));
        let secret = authority.with_state(|known| known.secret.clone());
        let issuer = ("ISSUER".to_owned(), "x".repeat(32));
        let environment = HashMap::from_iter([("SECRET".to_owned(), secret), issuer]);
        let environment = Arc::new(Mutex::new(environment));
        let variables = Arc::clone(&environment);
        let secrets =
            SecretStore::new(journal, None, SharedClock(Arc::clone(&clock)), move |name| {
                variables.lock().unwrap().get(name).cloned()
            });
        let issuer = read(json!({"issuer": "https://id.example", "audience": "crib",
            "keys": {"secret": "env:ISSUER"},
            "scope_includes": {"admin": ["write"], "write": ["read", "admin"]}}));
        let now = Arc::new(SharedClock(Arc::clone(&clock)));
        let trusted =
            Authenticator::new(vec![issuer], &client, &secrets, now, KeyTiming::default()).await;
        let options = ToolcribOptions {
            secrets: Some(Arc::new(secrets)),
            authenticator: Some(Arc::new(trusted.unwrap())),
            ..ToolcribOptions::default()
        };
        let crib = Toolcrib::new(catalog, client, SharedClock(Arc::clone(&clock)), options);
        let all = json!({"id": "all", "profile": {"name": "all"}, "selectors": [{"source": "*"}]});
        let world = Self { crib, upstream, authority, clock, environment };
        for who in ["ada", "bob"] {
            let subjects = |token: String| {
                world.authority.with_state(|known| known.subjects.insert(token, who.to_owned()))
            };
            subjects(token_of(who));
        }
        world.grant("all", all).await;
        world
    }

    /// Creates a group that is granted to every agent.
    pub(crate) async fn grant(&self, id: &str, group: Value) {
        let matcher = json!({"claim": "sub", "operator": "exists"});
        let policy = json!({"name": id, "matchers": [matcher], "groups": [id]});
        for command in [
            Command::Group(id.parse().unwrap(), GroupCommand::Create(read(group))),
            Command::Policy(id.parse().unwrap(), PolicyCommand::Define(read(policy))),
        ] {
            self.crib
                .catalog()
                .execute(command, ChangeContext::by_actor("admin"), None)
                .await
                .unwrap();
        }
    }

    /// Auth settings for token exchange, with overrides.
    pub(crate) fn exchange_auth(&self, more: &Value) -> Value {
        let url = self.authority.server.url("/token");
        let auth = json!({"kind": "token_exchange", "token_url": url, "client_id": CLIENT,
            "client_secret": "env:SECRET", "audience": "api"});
        merged(auth, more)
    }

    pub(crate) fn client_credentials_auth(&self) -> Value {
        let mut auth = self.exchange_auth(&json!({}));
        auth["kind"] = json!("client_credentials");
        auth
    }

    /// Registers and refreshes a source of the upstream, with overrides.
    pub(crate) async fn register(&self, more: &Value) -> RefreshResult {
        let settings = json!({"kind": "openapi", "specification": {"text": specification(None)}});
        let profile = json!({"name": "Pets", "url": self.upstream.url(""), "settings": settings,
            "required_scopes": [],
            "limits": {"all": {"concurrent": 256}, "per_agent": {"concurrent": 256}}});
        let profile = read(merged(profile, more));
        let id: model::SourceId = "pets".parse().unwrap();
        let known = self.crib.catalog().snapshot().source(&id).is_some();
        let command = match known {
            true => SourceCommand::Update(profile),
            false => SourceCommand::Register(profile),
        };
        let command = Command::Source(id.clone(), command);
        self.crib.catalog().execute(command, ChangeContext::by_actor("admin"), None).await.unwrap();
        self.crib.refresher().refresh(&id, true, &ChangeContext::default()).await.unwrap()
    }

    pub(crate) async fn call(&self, who: &str, tool: &str) -> Outcome {
        self.call_with(&agent(who), &RequestCredentials::with_token(&token_of(who)), tool).await
    }

    pub(crate) async fn call_with(
        &self,
        agent: &Agent,
        came: &RequestCredentials,
        tool: &str,
    ) -> Outcome {
        let view = self.crib.view(agent).with_request_credentials(came);
        view.call(tool, Map::new()).await.unwrap()
    }

    pub(crate) fn advance_clock(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// The last request that the upstream received.
    pub(crate) fn last_request(&self) -> ReceivedRequest {
        self.upstream.received_requests().pop().unwrap()
    }

    /// Number of calls that the upstream received.
    pub(crate) fn count_calls(&self) -> usize {
        self.upstream
            .received_requests()
            .iter()
            .filter(|asked| asked.path.starts_with("/pets"))
            .count()
    }
}

pub(crate) fn merged(mut value: Value, more: &Value) -> Value {
    for (name, other) in more.as_object().unwrap() {
        match other {
            Value::Null => drop(value.as_object_mut().unwrap().remove(name)),
            other => value[name] = other.clone(),
        }
    }
    value
}

/// The token of an agent: a canary that must not appear in any output.
pub(crate) fn token_of(who: &str) -> String {
    format!("canary-token-of-{who}-5be1")
}

pub(crate) fn agent(who: &str) -> Agent {
    let claims = json!({"iss": "https://id.example", "sub": who, "scope": "pets:read other"});
    Agent::new(who, Arc::new(read(claims)))
}

pub(crate) fn code(outcome: &Outcome) -> Option<ErrorCode> {
    outcome.error.as_ref().map(|failure| failure.code)
}
