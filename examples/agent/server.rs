//! The server that has the tools: `GET /tools` or MCP.

use serde_json::{Map, Value};
use toolcrib::BoxError;
use toolcrib::upstream::http::header::ETAG;
use toolcrib::upstream::http::{Answer, Method, Url};

use super::mcp::McpServer;
use super::remote::Remote;
use super::tools::{Route, Tools};

/// Server that has the tools.
pub(crate) enum Server {
    Manifest(Remote),
    Mcp(McpServer),
}

/// Outcome of a tool call.
pub(crate) struct Called {
    /// Result or error, as text for the model.
    pub(crate) told: String,
    /// The server does not know the tool, so the list of tools is out of date.
    pub(crate) is_gone: bool,
}

impl Server {
    /// Lists the tools; `None` if they are unchanged since `known`.
    pub(crate) async fn list(&self, known: &Tools) -> Result<Option<Tools>, BoxError> {
        let server = match self {
            Self::Manifest(server) => server,
            Self::Mcp(server) => return Ok(Some(Tools::listed(server.list().await?))),
        };
        let answer = server.get(server.at("/tools"), known.etag.clone()).await?;
        match answer.status {
            304 => Ok(None),
            200 => {
                let etag = answer.headers.get(ETAG).cloned();
                Ok(Some(Tools::read(&answer.body, etag, server)?))
            }
            status => Err(format!("`GET /tools` was answered with {status}").into()),
        }
    }

    /// Waits until the server announces that its tools have changed. A server with `GET /tools` never does.
    pub(crate) async fn changed(&self) {
        match self {
            Self::Manifest(_) => std::future::pending().await,
            Self::Mcp(server) => server.changed().await,
        }
    }

    /// Calls a tool, without retries.
    pub(crate) async fn call(
        &self,
        route: Route,
        arguments: Map<String, Value>,
    ) -> Result<Called, BoxError> {
        match (self, route) {
            (Self::Manifest(server), Route::Http { method, url }) => {
                let answer = send(server, (method, url), arguments).await?;
                Ok(Called { told: told(&answer), is_gone: answer.status == 404 })
            }
            (Self::Mcp(server), Route::Mcp { name, schema }) => {
                server.call(&name, schema, arguments).await
            }
            _ => Err("the tool is of another server".into()),
        }
    }
}

async fn send(
    server: &Remote,
    (method, mut url): (Method, Url),
    arguments: Map<String, Value>,
) -> Result<Answer, BoxError> {
    if method != Method::GET && method != Method::DELETE {
        let body = Value::Object(arguments);
        return Ok(server.send(method, url, Some(&body)).await?);
    }
    for (name, value) in arguments {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        url.query_pairs_mut().append_pair(&name, &text);
    }
    Ok(server.send(method, url, None).await?)
}

/// Text of an answer: the text parts of a tool result, or else the whole body.
fn told(answer: &Answer) -> String {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let failed = json["isError"] == true || !(200..300).contains(&answer.status);
    let body = || String::from_utf8_lossy(&answer.body).into_owned();
    in_words(texts(&json).unwrap_or_else(body), failed)
}

/// Text parts of a tool result, if it has any.
pub(crate) fn texts(result: &Value) -> Option<String> {
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Prefixes the text of a failed call with `Error: `.
pub(crate) fn in_words(text: String, failed: bool) -> String {
    match failed && !text.starts_with("Error: ") {
        true => format!("Error: {text}"),
        false => text,
    }
}
