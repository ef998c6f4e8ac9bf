//! By which way a request came: its id and the trace that it is part of, for the record of calls, and how long it is
//! waited for.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use toolcrib::{CallDoor, Identity, Means, ShownBy, Via};

use crate::app::App;
use crate::around::RequestId;

/// What names a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coming {
    request: Option<RequestId>,
    trace_id: Option<Box<str>>,
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
        Self { request, trace_id: trace_id(&parts.headers), patience: patience(&parts.headers) }
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
        Via { door, means, correlation_id, trace_id: self.trace_id.clone() }
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

/// The trace of `traceparent`, if it is one (W3C Trace Context, 3.2.2).
fn trace_id(headers: &HeaderMap) -> Option<Box<str>> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str| text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    let is_good = version.len() == 2
        && is_hex(version)
        && trace.len() == 32
        && is_hex(trace)
        && trace.bytes().any(|c| c != b'0');
    is_good.then(|| trace.into())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_trace_is_taken_from_its_header_if_it_is_one() {
        let trace = |text: &str| {
            let headers =
                HeaderMap::from_iter([("traceparent".parse().unwrap(), text.parse().unwrap())]);
            trace_id(&headers)
        };
        let good = "0af7651916cd43dd8448eb211c80319c";
        let read = trace(&format!("00-{good}-b7ad6b7169203331-01"));
        assert_eq!(read.as_deref(), Some(good));
        for bad in ["", "00", "00-0af7-b7ad-01", "zz-0af7651916cd43dd8448eb211c80319c-1-1"] {
            assert_eq!(trace(bad), None, "{bad}");
        }
        assert_eq!(trace(&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32))), None);
        assert_eq!(trace(&format!("00-{}-b7ad6b7169203331-01", good.to_uppercase())), None);
    }
}
