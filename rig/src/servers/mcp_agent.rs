//! An agent that speaks MCP over HTTP in both protocol eras, one message at a time. It exposes the raw messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use reqwest::{RequestBuilder, Response};
use serde_json::{Map, Value, json};

use super::agent_answers;

/// Timeout of a request; the slowest call takes seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of rounds of questions in one call.
const MAX_ROUNDS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentEra {
    Legacy,
    Modern,
}

pub(super) const ERAS: [AgentEra; 2] = [AgentEra::Legacy, AgentEra::Modern];

pub(super) struct McpAgent {
    client: reqwest::Client,
    url: String,
    key: String,
    pub(super) era: AgentEra,
    session: Option<String>,
    next: AtomicU64,
}

/// The result of a call, and the messages before it.
#[derive(Debug, Default)]
pub(super) struct CallReport {
    pub(super) result: Value,
    pub(super) progress: Vec<Value>,
    /// The methods of the questions.
    pub(super) asked: Vec<String>,
}

impl AgentEra {
    pub(super) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

impl McpAgent {
    pub(super) async fn connect(url: &str, key: &str, era: AgentEra) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(REQUEST_TIMEOUT).build()?;
        let (url, key) = (url.to_owned(), key.to_owned());
        let agent = Self { client, url, key, era, session: None, next: AtomicU64::new(1) };
        match era {
            AgentEra::Modern => Ok(agent),
            AgentEra::Legacy => agent.initialize().await,
        }
    }

    async fn initialize(mut self) -> anyhow::Result<Self> {
        let params = json!({
            "protocolVersion": self.era.version(), "capabilities": agent_answers::agent_capabilities(),
            "clientInfo": {"name": "rig", "version": "1"},
        });
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let answer = self.post(&message).send().await?.error_for_status()?;
        let session = answer.headers().get("mcp-session-id").context("there is no session")?;
        self.session = Some(session.to_str()?.to_owned());
        let message = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(&message).send().await?.error_for_status()?;
        Ok(self)
    }

    /// All tools, as they are listed.
    pub(super) async fn list_tools(&self) -> anyhow::Result<Vec<Value>> {
        let mut told = self.request("tools/list", &Map::new()).await?;
        ensure!(told.result["nextCursor"].is_null(), "there is more than one page");
        Ok(serde_json::from_value(told.result["tools"].take())?)
    }

    /// Calls a tool, and answers all its questions.
    pub(super) async fn call_tool(
        &self,
        name: &str,
        arguments: Value,
    ) -> anyhow::Result<CallReport> {
        let call = json!({"name": name, "arguments": arguments});
        let mut params = call.as_object().cloned().unwrap_or_default();
        let mut before = CallReport::default();
        for _ in 0..MAX_ROUNDS {
            let mut told = self.request("tools/call", &params).await?;
            before.progress.append(&mut told.progress);
            before.asked.append(&mut told.asked);
            if told.result["resultType"] != "input_required" {
                return Ok(CallReport { result: told.result, ..before });
            }
            params.insert("requestState".to_owned(), told.result["requestState"].take());
            let questions = told.result["inputRequests"].take();
            let mut answers = Map::new();
            for (key, question) in questions.as_object().into_iter().flatten() {
                let method = question["method"].as_str().unwrap_or_default();
                before.asked.push(method.to_owned());
                let answer = agent_answers::answer_question(method)
                    .context("a question of no known kind")?;
                answers.insert(key.clone(), answer);
            }
            params.insert("inputResponses".to_owned(), Value::Object(answers));
        }
        bail!("`{name}` asks again and again")
    }

    /// Sends a request other than a tool call.
    pub(super) async fn send_request(&self, method: &str, params: Value) -> anyhow::Result<Value> {
        let params = params.as_object().cloned().unwrap_or_default();
        Ok(self.request(method, &params).await?.result)
    }

    /// Opens a stream with the changes of a resource.
    pub(super) async fn subscribe_resource(&self, uri: &str) -> anyhow::Result<NotificationStream> {
        let answer = match self.era {
            AgentEra::Legacy => {
                let get = self.client.get(&self.url).bearer_auth(&self.key);
                let get = get.header("Accept", "text/event-stream");
                let session = self.session.as_deref().unwrap_or_default();
                let answer = get.header("Mcp-Session-Id", session).send().await?;
                self.send_request("resources/subscribe", json!({"uri": uri})).await?;
                answer
            }
            AgentEra::Modern => {
                let wanted = json!({"resourceSubscriptions": [uri]});
                let meta = self.meta(0);
                let params = json!({"notifications": wanted, "_meta": meta});
                let method = "subscriptions/listen";
                let message =
                    json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params});
                let post = self.post(&message).header("Mcp-Method", method);
                post.header("MCP-Protocol-Version", self.era.version()).send().await?
            }
        };
        let mut stream =
            NotificationStream { answer: answer.error_for_status()?, unread: String::new() };
        if self.era == AgentEra::Modern {
            let told = stream.next().await?;
            let honoured = &told["params"]["notifications"]["resourceSubscriptions"];
            ensure!(*honoured == json!([uri]), "what is honoured is {told}");
        }
        Ok(stream)
    }

    async fn request(
        &self,
        method: &str,
        params: &Map<String, Value>,
    ) -> anyhow::Result<CallReport> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut params = params.clone();
        params.insert("_meta".to_owned(), self.meta(id));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut post = self.post(&message);
        if self.era == AgentEra::Modern {
            post = post.header("MCP-Protocol-Version", self.era.version());
            post = post.header("Mcp-Method", method);
            if let Some(name) = params.get("name").and_then(Value::as_str) {
                post = post.header("Mcp-Name", name);
            }
        }
        let mut answer = post.send().await?;
        let mut told = CallReport::default();
        let is_stream = answer.headers().get("content-type").is_some_and(|kind| {
            kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream"))
        });
        if !is_stream {
            told.result = result_of(serde_json::from_slice(&answer.bytes().await?)?)?;
            return Ok(told);
        }
        let mut unread = String::new();
        loop {
            let said = next_message(&mut answer, &mut unread).await?;
            match said["method"].as_str() {
                None if said["id"] == id => {
                    told.result = result_of(said)?;
                    return Ok(told);
                }
                None => bail!("an answer to nobody: {said}"),
                Some("notifications/progress") => told.progress.push(said["params"].clone()),
                Some(method) if !said["id"].is_null() => {
                    told.asked.push(method.to_owned());
                    let answer = agent_answers::answer_question(method)
                        .context("a question of no known kind")?;
                    let reply = json!({"jsonrpc": "2.0", "id": said["id"], "result": answer});
                    self.post(&reply).send().await?.error_for_status()?;
                }
                Some(_) => {}
            }
        }
    }

    fn meta(&self, id: u64) -> Value {
        let mut meta = json!({"progressToken": id});
        if self.era == AgentEra::Modern {
            meta["io.modelcontextprotocol/protocolVersion"] = json!(self.era.version());
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "rig", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] =
                agent_answers::agent_capabilities();
        }
        meta
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let post = self.client.post(&self.url).bearer_auth(&self.key);
        let post = post.header("Accept", "application/json, text/event-stream");
        let post = post.header("Content-Type", "application/json").body(message.to_string());
        match &self.session {
            Some(session) => post.header("Mcp-Session-Id", session),
            None => post,
        }
    }
}

/// A stream of notifications.
pub(super) struct NotificationStream {
    answer: Response,
    unread: String,
}

impl NotificationStream {
    pub(super) async fn next(&mut self) -> anyhow::Result<Value> {
        next_message(&mut self.answer, &mut self.unread).await
    }
}

/// The next event of a stream that has data.
async fn next_message(answer: &mut Response, unread: &mut String) -> anyhow::Result<Value> {
    loop {
        while let Some((event, rest)) = unread.split_once("\n\n") {
            let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
            let text: String = lines.collect();
            *unread = rest.to_owned();
            if !text.trim().is_empty() {
                return Ok(serde_json::from_str(&text)?);
            }
        }
        let bytes = answer.chunk().await?.context("the stream ended before the answer")?;
        unread.push_str(&String::from_utf8(bytes.to_vec()).context("half a character")?);
    }
}

fn result_of(mut message: Value) -> anyhow::Result<Value> {
    ensure!(message["error"].is_null(), "the answer is the error {}", message["error"]);
    Ok(message["result"].take())
}
