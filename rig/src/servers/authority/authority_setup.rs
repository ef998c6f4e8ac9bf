//! A real `toolcrib serve` that trusts one authorization server, and an upstream API that records the credentials it
//! gets.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::clients::order_api::OrderApi;
use crate::servers::mcp_agent::{AgentEra, McpAgent};
use crate::toolcrib_server::RunningToolcrib;

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The client id and secret of toolcrib at the authorization servers.
pub(super) const CLIENT: &str = "toolcrib";
pub(super) const SECRET: &str = "toolcrib-secret";

pub(super) struct AuthoritySetup {
    pub(super) issuer: String,
    pub(super) served: RunningToolcrib,
    client: reqwest::Client,
    upstream: OrderApi,
    folder: TempDir,
    /// The number of tool calls.
    calls: usize,
}

impl AuthoritySetup {
    /// Every agent with a token for orders has all tools. `settings` are further settings of the issuer.
    pub(super) async fn open(issuer: &str, mut settings: Value) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        settings["issuer"] = json!(issuer);
        settings["allow"] = json!(["127.0.0.1"]);
        let config = folder.path().join("config.json").display().to_string();
        fs::write(&config, json!({"issuers": [settings]}).to_string())?;
        let served = RunningToolcrib::open(&["--config", &config]).await?;
        let group = json!({"id": "all", "name": "All", "selectors": [{"name": "*"}]});
        served.admin.post("groups", group).await?;
        let matchers = json!([{"claim": "scope", "operator": "contains", "value": "orders"}]);
        let policy = json!({"name": "For orders", "groups": ["all"], "matchers": matchers});
        served.admin.post("policies", policy).await?;
        let redirects = reqwest::redirect::Policy::none();
        let client =
            reqwest::Client::builder().no_proxy().redirect(redirects).timeout(REQUEST_TIMEOUT);
        let (client, upstream) = (client.build()?, OrderApi::open()?);
        Ok(Self { issuer: issuer.to_owned(), served, client, upstream, folder, calls: 0 })
    }

    /// Adds a source that agents can call.
    pub(super) async fn add_source(
        &self,
        id: &str,
        secret: &str,
        auth: Value,
    ) -> anyhow::Result<()> {
        self.register_source(id, secret, auth).await?;
        self.served.admin.wait_for_inventory(id).await?;
        Ok(())
    }

    /// Adds a source whose refresh must fail with the error of the authorization server.
    pub(super) async fn add_refused_source(
        &self,
        id: &str,
        secret: &str,
        auth: Value,
    ) -> anyhow::Result<()> {
        self.register_source(id, secret, auth).await?;
        let refreshed = self.served.admin.post(&format!("sources/{id}/refresh"), json!({})).await;
        let error = refreshed.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(
            error.contains(&authority_error("invalid_client")),
            "`{id}` was refreshed: {error}"
        );
        Ok(())
    }

    /// Registers a source with one tool of the same name. `auth` says how it gets its tokens; the client is added here.
    async fn register_source(&self, id: &str, secret: &str, mut auth: Value) -> anyhow::Result<()> {
        let file = self.folder.path().join(id);
        fs::write(&file, secret)?;
        auth["issuer"] = json!(self.issuer);
        auth["client_id"] = json!(CLIENT);
        auth["client_secret"] = json!(format!("file:{}", file.display()));
        let text = json!({
            "openapi": "3.1.0", "info": {"title": id, "version": "1"},
            "paths": {"/orders/7": {"get": {"operationId": id}}},
        });
        let settings = json!({"kind": "openapi", "specification": {"text": text.to_string()}});
        let source = json!({
            "id": id, "name": id, "url": self.upstream.url, "allow": ["127.0.0.1"],
            "settings": settings, "auth": auth,
        });
        self.served.admin.post("sources", source).await?;
        Ok(())
    }

    /// The token that the upstream receives when an agent with its own token calls a tool.
    pub(super) async fn forwarded_token(
        &mut self,
        own: &str,
        era: AgentEra,
        tool: &str,
    ) -> anyhow::Result<String> {
        let (result, requests) = self.call_tool(own, era, tool).await?;
        ensure!(result["isError"] != true, "`{tool}` failed: {result}");
        let [request] = &requests[..] else {
            bail!("the upstream was asked {} times", requests.len());
        };
        let token = request.strip_prefix("GET /orders/7 Bearer ");
        let token = token.with_context(|| format!("the upstream was asked `{request}`"))?;
        ensure!(token != own, "the upstream was shown the agent's own token");
        Ok(token.to_owned())
    }

    /// The agent gets the error of the authorization server, and the upstream gets no request.
    pub(super) async fn expect_refusal(
        &mut self,
        own: &str,
        tool: &str,
        word: &str,
    ) -> anyhow::Result<()> {
        let (result, requests) = self.call_tool(own, AgentEra::Modern, tool).await?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let is_told = result["isError"] == true && text.contains(&authority_error(word));
        ensure!(is_told, "`{tool}` gave {result}");
        ensure!(requests.is_empty(), "the upstream was asked `{}`", requests.join("`, `"));
        Ok(())
    }

    async fn call_tool(
        &mut self,
        own: &str,
        era: AgentEra,
        tool: &str,
    ) -> anyhow::Result<(Value, Vec<String>)> {
        self.calls += 1;
        let agent = McpAgent::connect(&self.served.url, own, era).await?;
        let told = agent.call_tool(tool, json!({})).await?;
        Ok((told.result, self.upstream.take_requests()))
    }

    /// The subject that toolcrib recognises for a token; `None` if it refuses the token.
    pub(super) async fn recognized_subject(&self, token: &str) -> anyhow::Result<Option<String>> {
        let url = self.served.url.replace("/mcp", "/api/whoami");
        let answer = self.client.get(url).bearer_auth(token).send().await?;
        if answer.status() == 401 {
            return Ok(None);
        }
        let said: Value = serde_json::from_slice(&answer.error_for_status()?.bytes().await?)?;
        Ok(said["subject"].as_str().map(str::to_owned))
    }

    /// Sends a form to the authorization server, as a client.
    pub(super) async fn post_form(
        &self,
        path: &str,
        client: &str,
        form: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let post = self.client.post(format!("{}/{path}", self.issuer)).body(body);
        let post = post.basic_auth(client, Some(format!("{client}-secret")));
        let post = post.header("Content-Type", "application/x-www-form-urlencoded");
        let answer = post.send().await?;
        let (status, said) = (answer.status(), answer.bytes().await?);
        let text = String::from_utf8_lossy(&said);
        ensure!(status.is_success(), "`/{path}` was answered with {status}: {text}");
        Ok(serde_json::from_slice(&said)?)
    }

    /// Stops the server. Returns the number of calls.
    pub(super) async fn stop(mut self) -> anyhow::Result<usize> {
        self.served.server.stop(Signal::TERM).await?;
        Ok(self.calls)
    }

    /// The redirect for a user who signs in with name and password.
    pub(super) async fn sign_in_redirect(&self, asked: &Url, user: &str) -> anyhow::Result<Url> {
        let get = self.client.get(asked.clone()).basic_auth(user, Some(format!("{user}'s")));
        let answer = get.send().await?;
        let place = answer.headers().get("location").context("the user is sent nowhere")?;
        Ok(place.to_str()?.parse()?)
    }
}

/// The error text that passes on a refusal of the authorization server.
fn authority_error(word: &str) -> String {
    format!("the authorization server says `{word}`")
}

/// The access token of a token response.
pub(super) fn access_token(answer: &Value) -> anyhow::Result<String> {
    Ok(answer["access_token"].as_str().context("there is no token")?.to_owned())
}

/// The claims of a token, without verification of its signature.
pub(super) fn unverified_claims(token: &str) -> anyhow::Result<Value> {
    let payload = token.split('.').nth(1).context("the token is no JWT")?;
    Ok(serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(payload)?)?)
}

/// Checks that these fields have the expected values.
pub(super) fn check_fields(what: &str, seen: &Value, wanted: &Value) -> anyhow::Result<()> {
    for (name, wanted) in wanted.as_object().into_iter().flatten() {
        let seen = &seen[name];
        ensure!(seen == wanted, "`{name}` of {what} is {seen}, and must be {wanted}");
    }
    Ok(())
}
