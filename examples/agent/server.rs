//! Where tools are: at `GET /tools`, or at an MCP server.

use serde_json::{Map, Value};
use toolcrib::BoxError;
use toolcrib::upstream::http::header::ETAG;
use toolcrib::upstream::http::{Answer, Method, Url};

use super::mcp::McpServer;
use super::remote::Remote;
use super::tools::{Route, Tools};

/// Who has the tools.
pub(crate) enum Server {
    Manifest(Remote),
    Mcp(McpServer),
}

/// What came of a call.
pub(crate) struct Called {
    /// In words for the model.
    pub(crate) told: String,
    /// The server knows no such tool, so the list is an old one.
    pub(crate) is_gone: bool,
}

impl Server {
    /// Its tools; nothing if it says that they are those that are known.
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

    /// Waits until the server says by itself that its tools are others.
    pub(crate) async fn changed(&self) {
        match self {
            Self::Manifest(_) => std::future::pending().await,
            Self::Mcp(server) => server.changed().await,
        }
    }

    /// Calls a tool once.
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

/// An answer in words: the texts of a tool result, or the JSON that came.
fn told(answer: &Answer) -> String {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let failed = json["isError"] == true || !(200..300).contains(&answer.status);
    let body = || String::from_utf8_lossy(&answer.body).into_owned();
    in_words(texts(&json).unwrap_or_else(body), failed)
}

/// The texts of a tool result, if it has any.
pub(crate) fn texts(result: &Value) -> Option<String> {
    let parts = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(|part| part["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What failed begins with `Error: `.
pub(crate) fn in_words(text: String, failed: bool) -> String {
    match failed && !text.starts_with("Error: ") {
        true => format!("Error: {text}"),
        false => text,
    }
}
