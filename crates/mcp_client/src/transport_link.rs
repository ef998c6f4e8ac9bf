//! The three transports behind one interface. Only this file and `negotiation.rs` know that there are three.

use std::sync::Arc;

use serde_json::{Map, Value};
use upstream::http::header::HeaderMap;

use super::McpError;
use super::connection_settings::McpCallOptions;
use super::dispatch::{CallRecipient, MessageDispatcher};
use super::http_link::StreamableHttpLink;
use super::http_sse::HttpSseLink;
use super::json_rpc::McpAnswer;
use super::stdio_link::StdioLink;

#[derive(Clone)]
pub(crate) enum TransportLink {
    Http(Arc<StreamableHttpLink>),
    HttpSse(Arc<HttpSseLink>),
    Stdio(Arc<StdioLink>),
}

impl TransportLink {
    /// Sends a request and waits for its answer.
    pub(crate) async fn send_call(
        &self,
        method: &str,
        params: &mut Map<String, Value>,
        call: &McpCallOptions,
        whose: CallRecipient,
    ) -> Result<McpAnswer, McpError> {
        match self {
            Self::Http(link) => link.send_call(method, params, call, whose).await,
            Self::HttpSse(link) => link.send_call(method, params, call, whose).await,
            Self::Stdio(link) => link.send_call(method, params, call, whose).await,
        }
    }

    pub(crate) async fn send_notification(
        &self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<(), McpError> {
        match self {
            Self::Http(link) => link.send_notification(method, params, &HeaderMap::new()).await,
            Self::HttpSse(link) => link.send_notification(method, params, &HeaderMap::new()).await,
            Self::Stdio(link) => link.send_notification(method, params),
        }
    }

    pub(crate) fn dispatcher(&self) -> &Arc<MessageDispatcher> {
        match self {
            Self::Http(link) => &link.dispatcher,
            Self::HttpSse(link) => &link.dispatcher,
            Self::Stdio(link) => &link.dispatcher,
        }
    }

    /// Closes the connection without waiting. Every call in progress on a shared stream fails.
    pub(crate) fn close(&self) {
        match self {
            Self::Http(link) => {
                link.dispatcher.fail_all(McpError::Closed);
                link.end_in_background();
            }
            Self::HttpSse(link) => link.close(),
            Self::Stdio(link) => link.close(),
        }
    }
}
