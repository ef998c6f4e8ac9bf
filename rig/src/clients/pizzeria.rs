//! The server that clients are tried on: a real `toolcrib serve` on a journal of its own, set up over its API.
//!
//! An agent of the staff has two of its three tools: `get_order` is listed, `place_order` is found by searching, and
//! `cancel_order` is nobody's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use toolcrib::upstream::egress::Egress;
use toolcrib::upstream::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use toolcrib::upstream::http::{HttpClient, Limits, Method, Request};
use url::Url;

use super::started::Started;
use super::upstream::Upstream;

const SPECIFICATION: &str = r#"
openapi: 3.1.0
info: {title: Pizzeria, version: 1.0.0}
servers: [{url: UPSTREAM}]
paths:
  "/orders/{id}":
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get: {operationId: get_order, summary: How far an order is}
    delete: {operationId: cancel_order, summary: Cancel an order of pizzas}
  /orders:
    post:
      operationId: place_order
      summary: Order pizzas
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              properties:
                address: {type: string}
                pizzas: {type: array, items: {type: string}}
              required: [address, pizzas]
"#;

/// Until a source of three tools is discovered.
const DISCOVERY: Duration = Duration::from_secs(30);

pub(super) struct Pizzeria {
    pub(super) upstream: Upstream,
    /// Where MCP is spoken.
    pub(super) url: String,
    pub(super) program: PathBuf,
    pub(super) journal: PathBuf,
    /// Of an agent of the staff.
    pub(super) key: String,
    _server: Started,
    _folder: TempDir,
}

impl Pizzeria {
    pub(super) async fn open() -> anyhow::Result<Self> {
        let upstream = Upstream::open()?;
        let folder = tempfile::tempdir()?;
        // Built together with us, it lies beside us.
        let program = std::env::current_exe()?.with_file_name("toolcrib");
        let journal = folder.path().join("toolcrib.db");
        let mut serve = Command::new(&program);
        serve.args(["serve", "--listen", "127.0.0.1:0", "--journal"]).arg(&journal);
        let (server, (url, key)) = Started::start(&serve, greeting).await?;
        let admin = Admin::new(&url, &key)?;
        let key = admin.set_up(&upstream.url).await?;
        let url = format!("{url}/mcp");
        Ok(Self { upstream, url, program, journal, key, _server: server, _folder: folder })
    }
}

/// Where the server is, and the key of the first admin.
fn greeting(said: &str) -> Option<(String, String)> {
    let url = said.lines().find_map(|line| line.strip_prefix("toolcrib serves on "))?;
    let key = said.lines().map(str::trim).find(|line| line.starts_with("tcrib_"))?;
    Some((url.to_owned(), key.to_owned()))
}

struct Admin {
    client: HttpClient,
    api: Url,
    headers: HeaderMap,
}

impl Admin {
    fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {key}").parse()?);
        headers.insert(CONTENT_TYPE, "application/json".parse()?);
        let client = HttpClient::new(Egress { allow_private: true, allowed: Vec::new() });
        Ok(Self { client, api: format!("{url}/api/").parse()?, headers })
    }

    /// The key of an agent.
    async fn set_up(&self, upstream: &str) -> anyhow::Result<String> {
        let text = SPECIFICATION.replace("UPSTREAM", upstream);
        let settings = json!({"kind": "openapi", "specification": {"text": text}});
        let source = json!({"name": "Pizzeria", "settings": settings, "allow": ["127.0.0.1"]});
        self.post("sources", source).await?;
        self.wait_for_tools().await?;
        let listed = json!({"name": "Look", "tools": ["pizzeria:get_order"]});
        self.post("groups", listed).await?;
        let found =
            json!({"name": "Order", "tools": ["pizzeria:place_order"], "visibility": "searchable"});
        self.post("groups", found).await?;
        let matchers = json!([{"claim": "role", "operator": "equals", "value": "staff"}]);
        let policy = json!({"name": "Staff", "groups": ["look", "order"], "matchers": matchers});
        self.post("policies", policy).await?;
        let made = self.post("keys", json!({"name": "Agent", "claims": {"role": "staff"}})).await?;
        Ok(made["key"].as_str().context("a new key is shown")?.to_owned())
    }

    async fn wait_for_tools(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + DISCOVERY;
        loop {
            let source = self.ask(Method::GET, "sources/pizzeria", None).await?;
            if !source["inventory"].is_null() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the tools were not discovered: {source}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.ask(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<Value> {
        let (url, headers) = (self.api.join(path)?, self.headers.clone());
        let request = Request { method, url, headers, body };
        let answer = self.client.send(request, Limits::default()).await?;
        let said = String::from_utf8_lossy(&answer.body);
        if !(200..300).contains(&answer.status) {
            bail!("`/api/{path}` was answered with {}: {said}", answer.status);
        }
        Ok(serde_json::from_str(&said)?)
    }
}
