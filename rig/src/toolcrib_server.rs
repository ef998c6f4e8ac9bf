//! A real `toolcrib serve` with its own journal, and a client for its first admin.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use upstream::egress::EgressPolicy;
use upstream::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use upstream::http::{ExchangeLimits, HttpClient, Method, UpstreamRequest};
use url::Url;

use crate::child_program::ChildProgram;

/// Deadline for the discovery of one source, while others are discovered too.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct RunningToolcrib {
    pub(crate) server: ChildProgram,
    /// URL of the MCP endpoint.
    pub(crate) url: String,
    pub(crate) program: PathBuf,
    /// A path or a URL.
    pub(crate) journal: String,
    pub(crate) admin: AdminClient,
    _folder: TempDir,
}

pub(crate) struct AdminClient {
    client: HttpClient,
    api: Url,
    headers: HeaderMap,
}

impl RunningToolcrib {
    pub(crate) async fn open(options: &[&str]) -> anyhow::Result<Self> {
        Self::open_with_journal(None, options).await
    }

    /// Uses this journal, or a new file without one.
    pub(crate) async fn open_with_journal(
        journal: Option<String>,
        options: &[&str],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        // Cargo builds both programs into the same folder.
        let program = std::env::current_exe()?.with_file_name("toolcrib");
        let file = || folder.path().join("toolcrib.db").display().to_string();
        let journal = journal.unwrap_or_else(file);
        let (server, (url, key)) =
            ChildProgram::start(&serve_command(&program, &journal, options), parse_startup_message)
                .await?;
        let admin = AdminClient::new(&url, &key)?;
        Ok(Self { server, url: format!("{url}/mcp"), program, journal, admin, _folder: folder })
    }

    /// Starts the server again after it has ended, with the same journal.
    pub(crate) async fn restart(&mut self, options: &[&str]) -> anyhow::Result<()> {
        let serve = serve_command(&self.program, &self.journal, options);
        let (server, url) = ChildProgram::start(&serve, parse_server_url).await?;
        self.server = server;
        self.admin.api = format!("{url}/api/").parse()?;
        self.url = format!("{url}/mcp");
        Ok(())
    }
}

fn serve_command(program: &Path, journal: &str, options: &[&str]) -> Command {
    let mut serve = Command::new(program);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--journal", journal]).args(options);
    serve
}

/// The URL of the server and the key of the first admin, from the startup message.
fn parse_startup_message(said: &str) -> Option<(String, String)> {
    let url = parse_server_url(said)?;
    let key = said.lines().map(str::trim).find(|line| line.starts_with("tcrib_"))?;
    Some((url, key.to_owned()))
}

fn parse_server_url(said: &str) -> Option<String> {
    said.lines().find_map(|line| line.strip_prefix("toolcrib serves on ")).map(str::to_owned)
}

impl AdminClient {
    fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {key}").parse()?);
        headers.insert(CONTENT_TYPE, "application/json".parse()?);
        let client = HttpClient::new(EgressPolicy { allow_private: true, allowed: Vec::new() });
        Ok(Self { client, api: format!("{url}/api/").parse()?, headers })
    }

    /// Waits until the tools of a source are discovered.
    pub(crate) async fn wait_for_inventory(&self, source: &str) -> anyhow::Result<Value> {
        let deadline = Instant::now() + DISCOVERY_TIMEOUT;
        loop {
            let source = self.send_request(Method::GET, &format!("sources/{source}"), None).await?;
            if !source["inventory"].is_null() {
                return Ok(source);
            }
            ensure!(Instant::now() < deadline, "the tools were not discovered: {source}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> anyhow::Result<Value> {
        self.send_request(Method::POST, path, Some(body.to_string().into_bytes())).await
    }

    async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<Value> {
        let (url, headers) = (self.api.join(path)?, self.headers.clone());
        let request = UpstreamRequest { method, url, headers, body };
        let answer = self.client.send(request, ExchangeLimits::default()).await?;
        let said = String::from_utf8_lossy(&answer.body);
        if !(200..300).contains(&answer.status) {
            bail!("`/api/{path}` was answered with {}: {said}", answer.status);
        }
        Ok(serde_json::from_str(&said)?)
    }
}
