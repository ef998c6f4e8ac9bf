//! The request id and the trace context of a request, for the call log and for upstreams.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use model::TraceContext;
use toolcrib::{AuthMethod, CallEndpoint, CallOrigin, CallerCredentialKind, CallerIdentity};

use crate::app_state::AppState;
use crate::request_id::RequestId;

/// Most `tracestate` headers read; more than any legitimate client sends.
const MAX_TRACESTATE_HEADERS: usize = 32;

/// What identifies a request: its id, and the trace that it is part of.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    request: Option<RequestId>,
    trace: Option<TraceContext>,
}

impl FromRequestParts<AppState> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self::from_parts(parts))
    }
}

impl RequestContext {
    pub fn from_parts(parts: &Parts) -> Self {
        let request = parts.extensions.get::<RequestId>().cloned();
        // The server's own span, if there is one, is the parent of outgoing calls instead of the caller's span.
        let own = parts.extensions.get::<TraceContext>().cloned();
        Self { request, trace: own.or_else(|| parse_trace_context(&parts.headers)) }
    }

    /// Whether there is a trace to propagate.
    pub fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Describes for the call log how a caller reached this endpoint.
    pub fn via_endpoint(&self, door: CallEndpoint, identity: &CallerIdentity) -> CallOrigin {
        let means = match identity.auth_method {
            AuthMethod::Token => CallerCredentialKind::Token,
            AuthMethod::Key { .. } => CallerCredentialKind::Key,
            AuthMethod::Anonymous => CallerCredentialKind::Anonymous,
        };
        let correlation_id = self.request.as_ref().map(|id| id.as_str().into());
        CallOrigin { door, means, correlation_id, trace: self.trace.clone() }
    }
}

/// The trace context of well-formed headers. More than one `traceparent` is ignored, as the specification requires.
pub(crate) fn parse_trace_context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?.to_str().ok()?, parents.next()) else { return None };
    let states = headers.get_all("tracestate").iter().map(|state| state.to_str().ok());
    let states: Option<Vec<&str>> = states.take(MAX_TRACESTATE_HEADERS).collect();
    TraceContext::from_headers(parent, states.map(|states| states.join(",")).as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(headers: &[(&str, &str)]) -> Option<TraceContext> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        parse_trace_context(&map)
    }

    #[test]
    fn well_formed_trace_headers_are_parsed_and_others_are_ignored() {
        let state = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
        let trace = read(&state).unwrap();
        assert_eq!(
            (trace.to_traceparent().as_str(), trace.tracestate()),
            (PARENT, Some("a=1,b=2"))
        );
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
        assert_eq!(read(&[("traceparent", "00-0af7-b7ad-01"), ("tracestate", "a=1")]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        let many = vec![("tracestate", "a=1"); 100];
        let many: Vec<_> = [("traceparent", PARENT)].into_iter().chain(many).collect();
        assert_eq!(read(&many).unwrap().tracestate(), None);
    }
}
