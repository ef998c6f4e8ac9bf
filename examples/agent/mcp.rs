//! An MCP server: lists its tools, calls them, and waits for its notifications of changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib::BoxError;
use toolcrib::upstream::http::HttpClient;
use toolcrib::upstream::http::header::{AUTHORIZATION, HeaderMap};
use toolcrib::upstream::mcp::{
    Answer, Call, Changes, Keeping, ListOf, McpError, Settings, Supervised, Target,
};

use super::pace::Pace;
use super::remote::{address, bearer};
use super::server::{Called, in_words, texts};

/// Deadline of a call.
const PATIENT: Duration = Duration::from_secs(120);
/// Error code of an MCP server for an unknown tool.
const NO_SUCH_TOOL: i64 = -32602;

/// MCP server over Streamable HTTP. A lost connection is opened again automatically.
pub(crate) struct McpServer {
    server: Supervised,
    /// Change counters of the latest connection, and the value of the tool counter before the last `list`.
    listened: Mutex<Option<(watch::Receiver<Changes>, u64)>>,
}

impl McpServer {
    pub(crate) fn new(
        client: &HttpClient,
        url: &str,
        key: Option<&str>,
        pace: Pace,
    ) -> Result<Self, BoxError> {
        let url = address(client, url)?;
        let shown = key.map(bearer).transpose()?;
        let headers = HeaderMap::from_iter(shown.map(|shown| (AUTHORIZATION, shown)));
        let target = Target::Http { client: client.clone(), url, headers };
        let (first_rest, longest_rest) = (pace.first, pace.longest);
        let keeping = Keeping { first_rest, longest_rest, ..Keeping::default() };
        let server = Supervised::new(target, Settings::default(), keeping);
        Ok(Self { server, listened: Mutex::default() })
    }

    /// Lists all tools. `wait_for_change` then reports every change since this request was sent.
    pub(crate) async fn list(&self) -> Result<Vec<Map<String, Value>>, McpError> {
        let connection = self.server.connection().await?;
        let changes = connection.changes();
        let before = changes.borrow().tools;
        let listing = connection.list(ListOf::Tools, Call::default()).await?;
        *self.listened.lock().unwrap_or_else(PoisonError::into_inner) = Some((changes, before));
        Ok(listing.items)
    }

    /// Waits until the server announces that its tools have changed. Never returns if the connection is lost.
    pub(crate) async fn changed(&self) {
        let listened = self.listened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((mut changes, before)) = listened
            && changes.wait_for(|now| now.tools != before).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    pub(crate) async fn call(
        &self,
        name: &str,
        schema: Arc<Value>,
        arguments: Map<String, Value>,
    ) -> Result<Called, BoxError> {
        let connection = self.server.connection().await?;
        let params = [("name", name.into()), ("arguments", json!(arguments))];
        let params = params.map(|(name, value): (&str, Value)| (name.to_owned(), value));
        let call = Call { deadline: Some(PATIENT), schema: Some(schema), ..Call::default() };
        Ok(match connection.request("tools/call", Map::from_iter(params), call).await? {
            Answer::Result(result) => {
                let result = Value::Object(result);
                let told = texts(&result).unwrap_or_else(|| result["content"].to_string());
                Called { told: in_words(told, result["isError"] == true), is_gone: false }
            }
            Answer::Error(error) => Called {
                told: in_words(error.message().to_owned(), true),
                is_gone: error.code == NO_SUCH_TOOL,
            },
        })
    }
}
