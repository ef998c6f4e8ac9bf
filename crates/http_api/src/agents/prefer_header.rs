//! The `Prefer` header (RFC 7240): whether the caller accepts a pending call, and how long it waits for the outcome.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use endpoint::app_state::AppState;

/// Default wait before a call becomes pending, so that fast calls are answered at once.
const DEFAULT_WAIT: Duration = Duration::from_millis(200);
/// Maximum wait; shorter than the deadline of a request.
const MAX_WAIT: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreferHeader {
    pub(super) respond_async: bool,
    wait: Option<Duration>,
}

impl FromRequestParts<AppState> for PreferHeader {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self::from_headers(&parts.headers))
    }
}

impl PreferHeader {
    /// Parses the header. Unknown preferences are ignored, as the RFC requires.
    fn from_headers(headers: &HeaderMap) -> Self {
        let mut prefer = Self { respond_async: false, wait: None };
        let lines = headers.get_all("prefer").iter().filter_map(|line| line.to_str().ok());
        for preference in lines.flat_map(|line| line.split(',')) {
            let preference = preference.split(';').next().unwrap_or_default();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "respond-async" => prefer.respond_async = true,
                "wait" => {
                    let seconds = value.trim().trim_matches('"').parse().ok();
                    let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_WAIT));
                    prefer.wait = prefer.wait.or(wait);
                }
                _ => {}
            }
        }
        prefer
    }

    /// How long a caller waits before its call becomes pending.
    pub(super) fn wait_duration(self) -> Duration {
        self.wait.unwrap_or(DEFAULT_WAIT)
    }

    /// The time limit of a call whose caller does not poll.
    pub(crate) fn call_time_limit(self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_parsed_within_bounds() {
        let of = |text: &str| {
            PreferHeader::from_headers(&HeaderMap::from_iter([(
                "prefer".parse().unwrap(),
                text.parse().unwrap(),
            )]))
        };
        let prefer = |respond_async, wait| PreferHeader { respond_async, wait };
        assert_eq!(of("respond-async, wait=10"), prefer(true, Some(Duration::from_secs(10))));
        assert_eq!(of("Wait = \"7\"; x=y"), prefer(false, Some(Duration::from_secs(7))));
        assert_eq!(of("wait=3, wait=9"), prefer(false, Some(Duration::from_secs(3))));
        assert_eq!(of("wait=999999999999"), prefer(false, Some(MAX_WAIT)));
        assert_eq!(
            (of("wait=0").wait_duration(), of("wait=0").call_time_limit()),
            (Duration::ZERO, None)
        );
        for odd in ["", "wait", "wait=-1", "wait=NaN", "wait=1.5", "return=minimal", ",,=,"] {
            assert_eq!(of(odd), prefer(false, None), "{odd}");
        }
    }
}
