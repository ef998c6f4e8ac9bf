//! An MCP server: lists its tools, calls them, and waits for its notifications of changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_client::{
    ConnectionSettings, McpAnswer, McpCallOptions, McpError, McpItemKind, McpTarget, ServerChanges,
    SupervisedConnection, SupervisionPolicy,
};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use toolcrib::BoxError;
use upstream::http::HttpClient;
use upstream::http::header::{AUTHORIZATION, HeaderMap};

use super::pace::RetryTiming;
use super::remote::{bearer_header, parse_address};
use super::server::{ToolOutcome, text_parts, with_error_prefix};

/// Deadline of a call.
const CALL_DEADLINE: Duration = Duration::from_secs(120);
/// Error code of an MCP server for an unknown tool.
const NO_SUCH_TOOL: i64 = -32602;

/// MCP server over Streamable HTTP. A lost connection is opened again automatically.
pub(crate) struct McpServer {
    server: SupervisedConnection,
    /// Change counters of the latest connection, and the value of the tool counter before the last `list`.
    watched_changes: Mutex<Option<(watch::Receiver<ServerChanges>, u64)>>,
}

impl McpServer {
    pub(crate) fn new(
        client: &HttpClient,
        url: &str,
        key: Option<&str>,
        pace: RetryTiming,
    ) -> Result<Self, BoxError> {
        let url = parse_address(client, url)?;
        let shown = key.map(bearer_header).transpose()?;
        let headers = HeaderMap::from_iter(shown.map(|shown| (AUTHORIZATION, shown)));
        let target = McpTarget::Http { client: client.clone(), url, headers };
        let (first_rest, longest_rest) = (pace.first_delay, pace.longest_delay);
        let keeping = SupervisionPolicy {
            initial_cooldown: first_rest,
            max_cooldown: longest_rest,
            ..SupervisionPolicy::default()
        };
        let server = SupervisedConnection::new(target, ConnectionSettings::default(), keeping);
        Ok(Self { server, watched_changes: Mutex::default() })
    }

    /// Lists all tools. `wait_for_change` then reports every change since this request was sent.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Map<String, Value>>, McpError> {
        let connection = self.server.get_connection().await?;
        let changes = connection.subscribe_changes();
        let before = changes.borrow().tools;
        let listing = connection.fetch_list(McpItemKind::Tools, McpCallOptions::default()).await?;
        *self.watched_changes.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((changes, before));
        Ok(listing.items)
    }

    /// Waits until the server announces that its tools have changed. Never returns if the connection is lost.
    pub(crate) async fn wait_for_change(&self) {
        let listened = self.watched_changes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((mut changes, before)) = listened
            && changes.wait_for(|now| now.tools != before).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    pub(crate) async fn call_tool(
        &self,
        name: &str,
        schema: Arc<Value>,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutcome, BoxError> {
        let connection = self.server.get_connection().await?;
        let params = [("name", name.into()), ("arguments", json!(arguments))];
        let params = params.map(|(name, value): (&str, Value)| (name.to_owned(), value));
        let call = McpCallOptions {
            deadline: Some(CALL_DEADLINE),
            schema: Some(schema),
            ..McpCallOptions::default()
        };
        Ok(match connection.call_method("tools/call", Map::from_iter(params), call).await? {
            McpAnswer::Result(result) => {
                let result = Value::Object(result);
                let told = text_parts(&result).unwrap_or_else(|| result["content"].to_string());
                ToolOutcome {
                    text: with_error_prefix(told, result["isError"] == true),
                    is_unknown_tool: false,
                }
            }
            McpAnswer::Error(error) => ToolOutcome {
                text: with_error_prefix(error.message().to_owned(), true),
                is_unknown_tool: error.code == NO_SUCH_TOOL,
            },
        })
    }
}
