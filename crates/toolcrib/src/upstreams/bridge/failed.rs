//! Why an MCP server gave no answer, and the verdict on the server.

use model::{ErrorCode, Failure};
use upstream::http::HttpError;
use upstream::mcp::McpError;

use crate::gates::Verdict;

/// Why a request failed, with the verdict on the server.
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// On the server.
    pub(crate) verdict: Verdict,
    pub(crate) retry: Retry,
}

/// Whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    InVain,
    /// The server rejected the credential and has done nothing.
    WithAnotherToken,
    /// The server has not answered, or says when to retry.
    IfHarmless,
}

impl Failed {
    /// The server gave no answer.
    pub(crate) fn after(error: &McpError) -> Self {
        let retry = match is_lost(error) || is_put_off(error) {
            true => Retry::IfHarmless,
            false => Retry::InVain,
        };
        Self { failure: failure(error), verdict: verdict(error), retry }
    }

    /// The server is at fault.
    pub(crate) fn broken(failure: Failure) -> Self {
        Self { failure, verdict: Verdict::Fails, retry: Retry::InVain }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { failure, verdict: Verdict::Nothing, retry: Retry::InVain }
    }
}

/// The verdict on a server that gave no answer. A program that exits is restarted after a cooldown, so it needs no
/// breaker; a server whose answer is too large may send smaller ones to other callers.
fn verdict(error: &McpError) -> Verdict {
    match error {
        McpError::Http(error) => match **error {
            HttpError::Connect { .. }
            | HttpError::Timeout { .. }
            | HttpError::Stalled { .. }
            | HttpError::Broken { .. } => Verdict::Fails,
            HttpError::TooLarge { .. }
            | HttpError::Lengthy { .. }
            | HttpError::Crowded { .. }
            | HttpError::Encoded
            | HttpError::Redirected { .. } => Verdict::Answers,
            _ => Verdict::Nothing,
        },
        McpError::Unauthorized { .. }
        | McpError::TooMuch { .. }
        | McpError::Status { status: 400..500, .. } => Verdict::Answers,
        McpError::Status { .. }
        | McpError::Timeout { .. }
        | McpError::Broken { .. }
        | McpError::Unreadable { .. }
        | McpError::NotReading => Verdict::Fails,
        _ => Verdict::Nothing,
    }
}

/// Whether the connection failed or was lost, or a proxy could not reach the server.
fn is_lost(error: &McpError) -> bool {
    match error {
        McpError::Http(error) => {
            matches!(**error, HttpError::Connect { .. } | HttpError::Broken { .. })
        }
        McpError::Status { status, .. } => matches!(status, 502..=504),
        McpError::Broken { .. } => true,
        _ => false,
    }
}

/// Whether the server has done nothing, and says when to retry.
fn is_put_off(error: &McpError) -> bool {
    matches!(error, McpError::Status { status: 429, retry_after: Some(_), .. })
}

/// The failure to report for an error of an MCP connection.
fn failure(error: &McpError) -> Failure {
    let (code, retryable) = match error {
        McpError::Http(error) => execution::code_of(error),
        // The server may have carried it out.
        McpError::Timeout { .. } => (ErrorCode::UpstreamTimeout, false),
        McpError::Ended { .. } | McpError::Broken { .. } | McpError::Closed => {
            (ErrorCode::UpstreamConnectionError, false)
        }
        McpError::Start { .. } | McpError::Resting { .. } => {
            (ErrorCode::UpstreamConnectionError, true)
        }
        McpError::Busy { .. } => (ErrorCode::RateLimited, true),
        // It is unknown here whether the call is idempotent.
        McpError::Status { status, .. } => {
            (ErrorCode::UpstreamError, execution::is_retryable("POST", *status))
        }
        _ => (ErrorCode::UpstreamError, false),
    };
    let retry_after = match error {
        // Calls end all the time, so capacity is soon free.
        McpError::Busy { .. } => Some(1),
        McpError::Status { retry_after, .. } => *retry_after,
        _ => None,
    };
    Failure { retry_after, ..Failure::new(code, model::sentence(error), retryable) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_server_that_answers_too_much_is_not_broken() {
        let (method, what) = ("tools/call".into(), "bytes");
        let http = |error| McpError::Http(Arc::new(error));
        for (error, says) in [
            (McpError::TooMuch { method, what, limit: 7 }, Verdict::Answers),
            (http(HttpError::TooLarge { limit: 7, announced: None }), Verdict::Answers),
            (http(HttpError::Encoded), Verdict::Answers),
            (McpError::NotReading, Verdict::Fails),
        ] {
            assert_eq!(verdict(&error), says, "{error}");
        }
    }

    #[test]
    fn too_many_concurrent_calls_are_reported_with_a_retry_time() {
        assert_eq!(failure(&McpError::Busy { limit: 7 }).retry_after, Some(1));
        assert_eq!(failure(&McpError::Closed).retry_after, None);
    }
}
