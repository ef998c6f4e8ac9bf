//! By which way a request came: its id and the trace that it is part of, for the record of calls and for upstreams, and
//! how long it is waited for.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use model::TraceContext;
use toolcrib::{CallDoor, Identity, Means, ShownBy, Via};

use crate::app::App;
use crate::around::RequestId;

/// More headers than any list of members has.
const STATES: usize = 32;

/// What names a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coming {
    request: Option<RequestId>,
    trace: Option<TraceContext>,
    patience: Option<Duration>,
}

impl FromRequestParts<App> for Coming {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl Coming {
    pub(crate) fn of(parts: &Parts) -> Self {
        let request = parts.extensions.get::<RequestId>().cloned();
        // A span of ours stands between the caller and what is called.
        let own = parts.extensions.get::<TraceContext>().cloned();
        let trace = own.or_else(|| trace(&parts.headers));
        Self { request, trace, patience: patience(&parts.headers) }
    }

    /// Whether there is a trace to pass on.
    pub(crate) fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// How long it is waited for, if that was said.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// For somebody who comes by this door.
    pub(crate) fn via(&self, door: CallDoor, identity: &Identity) -> Via {
        let means = match identity.means {
            Means::Token => ShownBy::Token,
            Means::Key { .. } => ShownBy::Key,
            Means::Nothing => ShownBy::Anonymous,
        };
        let correlation_id = self.request.as_ref().map(|id| id.as_str().into());
        Via { door, means, correlation_id, trace: self.trace.clone() }
    }
}

/// The seconds of `Prefer: wait=10` (RFC 7240, section 4.3). What is said first counts.
fn patience(headers: &HeaderMap) -> Option<Duration> {
    let said = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = said.flat_map(|value| value.split([',', ';']));
    let wait = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"'))
    });
    let seconds: u32 = wait?.parse().ok().filter(|seconds| 0 < *seconds)?;
    Some(Duration::from_secs(seconds.into()))
}

/// The trace of its headers, if they are well-formed. Whoever is named twice is nobody.
pub(crate) fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?.to_str().ok()?, parents.next()) else { return None };
    let states = headers.get_all("tracestate").iter().map(|state| state.to_str().ok());
    let states: Option<Vec<&str>> = states.take(STATES).collect();
    TraceContext::read(parent, states.map(|states| states.join(",")).as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn patience_is_what_the_caller_prefers() {
        let seconds = |said: &[&str]| {
            let headers =
                said.iter().map(|said| ("prefer".parse().unwrap(), said.parse().unwrap()));
            patience(&headers.collect::<HeaderMap>()).map(|patience| patience.as_secs())
        };
        assert_eq!(seconds(&["wait=10"]), Some(10));
        assert_eq!(seconds(&["respond-async, Wait = \"7\"; foo=1"]), Some(7));
        assert_eq!(seconds(&["handling=lenient", "wait=3, wait=9"]), Some(3));
        for odd in ["", "wait", "wait=", "wait=0", "wait=-1", "wait=1.5", "await=3"] {
            assert_eq!(seconds(&[odd]), None, "{odd}");
        }
    }

    fn read(headers: &[(&str, &str)]) -> Option<TraceContext> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, value.parse().unwrap());
        }
        trace(&map)
    }

    #[test]
    fn a_trace_is_taken_from_its_headers_if_it_is_one() {
        let state = [("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")];
        let trace = read(&state).unwrap();
        assert_eq!((trace.parent().as_str(), trace.state()), (PARENT, Some("a=1,b=2")));
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
        assert_eq!(read(&[("traceparent", "00-0af7-b7ad-01"), ("tracestate", "a=1")]), None);
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        let many = vec![("tracestate", "a=1"); 100];
        let many: Vec<_> = [("traceparent", PARENT)].into_iter().chain(many).collect();
        assert_eq!(read(&many).unwrap().state(), None);
    }
}
