//! The three transports behind one interface. Only this file and `negotiation.rs` know that there are three.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::McpError;
use super::hearing::{Hearing, Whose};
use super::http::HttpLink;
use super::http_sse::SseLink;
use super::message::Answer;
use super::pipe::PipeLink;
use super::settings::Call;
use crate::http::header::HeaderMap;

#[derive(Clone)]
pub(crate) enum Link {
    Http(Arc<HttpLink>),
    Sse(Arc<SseLink>),
    Pipe(Arc<PipeLink>),
}

impl Link {
    /// Sends a request and waits for its answer.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &mut Map<String, Value>,
        call: &Call,
        whose: Whose,
    ) -> Result<Answer, McpError> {
        match self {
            Self::Http(link) => link.call(method, params, call, whose).await,
            Self::Sse(link) => link.call(method, params, call, whose).await,
            Self::Pipe(link) => link.call(method, params, call, whose).await,
        }
    }

    pub(crate) async fn notify(
        &self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<(), McpError> {
        match self {
            Self::Http(link) => link.notify(method, params, &HeaderMap::new()).await,
            Self::Sse(link) => link.notify(method, params, &HeaderMap::new()).await,
            Self::Pipe(link) => link.notify(method, params),
        }
    }

    pub(crate) fn hearing(&self) -> &Arc<Hearing> {
        match self {
            Self::Http(link) => &link.hearing,
            Self::Sse(link) => &link.hearing,
            Self::Pipe(link) => &link.hearing,
        }
    }

    /// Closes the connection without waiting. Every call in progress on a shared stream fails.
    pub(crate) fn close(&self) {
        match self {
            Self::Http(link) => {
                link.hearing.fail(McpError::Closed);
                link.end_aside();
            }
            Self::Sse(link) => link.close(),
            Self::Pipe(link) => link.close(),
        }
    }
}
