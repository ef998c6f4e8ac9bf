//! The server that has the tools: `GET /tools` or MCP.

use serde_json::{Map, Value};
use toolcrib::BoxError;
use upstream::http::header::ETAG;
use upstream::http::{Method, UpstreamResponse, Url};

use super::mcp::McpServer;
use super::remote::RemoteServer;
use super::tools::{ToolList, ToolRoute};

/// Server that has the tools.
pub(crate) enum ToolServer {
    Manifest(RemoteServer),
    Mcp(McpServer),
}

/// Outcome of a tool call.
pub(crate) struct ToolOutcome {
    /// Result or error, as text for the model.
    pub(crate) text: String,
    /// The server does not know the tool, so the list of tools is out of date.
    pub(crate) is_unknown_tool: bool,
}

impl ToolServer {
    /// Lists the tools; `None` if they are unchanged since `known`.
    pub(crate) async fn list_tools(&self, known: &ToolList) -> Result<Option<ToolList>, BoxError> {
        let server = match self {
            Self::Manifest(server) => server,
            Self::Mcp(server) => return Ok(Some(ToolList::from_mcp(server.list_tools().await?))),
        };
        let answer = server.get_if_changed(server.url_below("/tools"), known.etag.clone()).await?;
        match answer.status {
            304 => Ok(None),
            200 => {
                let etag = answer.headers.get(ETAG).cloned();
                Ok(Some(ToolList::from_manifest(&answer.body, etag, server)?))
            }
            status => Err(format!("`GET /tools` was answered with {status}").into()),
        }
    }

    /// Waits until the server announces that its tools have changed. A server with `GET /tools` never does.
    pub(crate) async fn wait_for_change(&self) {
        match self {
            Self::Manifest(_) => std::future::pending().await,
            Self::Mcp(server) => server.wait_for_change().await,
        }
    }

    /// Calls a tool, without retries.
    pub(crate) async fn call_tool(
        &self,
        route: ToolRoute,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutcome, BoxError> {
        match (self, route) {
            (Self::Manifest(server), ToolRoute::Http { method, url }) => {
                let answer = send_call(server, (method, url), arguments).await?;
                Ok(ToolOutcome {
                    text: answer_text(&answer),
                    is_unknown_tool: answer.status == 404,
                })
            }
            (Self::Mcp(server), ToolRoute::Mcp { name, schema }) => {
                server.call_tool(&name, schema, arguments).await
            }
            _ => Err("the tool is of another server".into()),
        }
    }
}

async fn send_call(
    server: &RemoteServer,
    (method, mut url): (Method, Url),
    arguments: Map<String, Value>,
) -> Result<UpstreamResponse, BoxError> {
    if method != Method::GET && method != Method::DELETE {
        let body = Value::Object(arguments);
        return Ok(server.send_json(method, url, Some(&body)).await?);
    }
    for (name, value) in arguments {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        url.query_pairs_mut().append_pair(&name, &text);
    }
    Ok(server.send_json(method, url, None).await?)
}

/// Text of an answer: the text parts of a tool result, or else the whole body.
fn answer_text(answer: &UpstreamResponse) -> String {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let failed = json["isError"] == true || !(200..300).contains(&answer.status);
    let body = || String::from_utf8_lossy(&answer.body).into_owned();
    with_error_prefix(text_parts(&json).unwrap_or_else(body), failed)
}

/// Text parts of a tool result, if it has any.
pub(crate) fn text_parts(result: &Value) -> Option<String> {
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Prefixes the text of a failed call with `Error: `.
pub(crate) fn with_error_prefix(text: String, failed: bool) -> String {
    match failed && !text.starts_with("Error: ") {
        true => format!("Error: {text}"),
        false => text,
    }
}
