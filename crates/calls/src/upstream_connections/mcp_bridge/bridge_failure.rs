//! Why an MCP server gave no answer, and the verdict on the server.

use mcp_client::McpError;
use model::{CallFailure, ErrorCode};
use upstream::http::HttpError;

use crate::source_gates::SourceVerdict;

/// Why a request failed, with the verdict on the server.
pub struct BridgeFailure {
    pub failure: CallFailure,
    /// On the server.
    pub(crate) verdict: SourceVerdict,
    pub retry: RetryAdvice,
}

/// Whether a retry may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    Never,
    /// The server rejected the credential and has done nothing.
    WithNewToken,
    /// The server has not answered, or says when to retry.
    IfIdempotent,
}

impl BridgeFailure {
    /// The server gave no answer.
    pub fn from_mcp_error(error: &McpError) -> Self {
        let retry = match is_connection_lost(error) || is_retry_scheduled(error) {
            true => RetryAdvice::IfIdempotent,
            false => RetryAdvice::Never,
        };
        Self { failure: mcp_failure(error), verdict: mcp_verdict(error), retry }
    }

    /// The server is at fault.
    pub fn server_fault(failure: CallFailure) -> Self {
        Self { failure, verdict: SourceVerdict::Fails, retry: RetryAdvice::Never }
    }
}

impl From<CallFailure> for BridgeFailure {
    fn from(failure: CallFailure) -> Self {
        Self { failure, verdict: SourceVerdict::Inconclusive, retry: RetryAdvice::Never }
    }
}

/// The verdict on a server that gave no answer. A program that exits is restarted after a cooldown, so it needs no
/// breaker; a server whose answer is too large may send smaller ones to other callers.
fn mcp_verdict(error: &McpError) -> SourceVerdict {
    match error {
        McpError::Http(error) => match **error {
            HttpError::Connect { .. }
            | HttpError::Timeout { .. }
            | HttpError::Stalled { .. }
            | HttpError::ResponseLost { .. } => SourceVerdict::Fails,
            HttpError::TooLarge { .. }
            | HttpError::TooLongToRead { .. }
            | HttpError::QueuedTooLong { .. }
            | HttpError::UnsupportedEncoding
            | HttpError::Redirected { .. } => SourceVerdict::OnlyAnswers,
            _ => SourceVerdict::Inconclusive,
        },
        McpError::Unauthorized { .. }
        | McpError::AnswerTooLarge { .. }
        | McpError::UnexpectedStatus { status: 400..500, .. } => SourceVerdict::OnlyAnswers,
        McpError::UnexpectedStatus { .. }
        | McpError::Timeout { .. }
        | McpError::StreamBroken { .. }
        | McpError::InvalidAnswer { .. }
        | McpError::NotReading => SourceVerdict::Fails,
        _ => SourceVerdict::Inconclusive,
    }
}

/// Whether the connection failed or was lost, or a proxy could not reach the server.
fn is_connection_lost(error: &McpError) -> bool {
    match error {
        McpError::Http(error) => {
            matches!(**error, HttpError::Connect { .. } | HttpError::ResponseLost { .. })
        }
        McpError::UnexpectedStatus { status, .. } => matches!(status, 502..=504),
        McpError::StreamBroken { .. } => true,
        _ => false,
    }
}

/// Whether the server has done nothing, and says when to retry.
fn is_retry_scheduled(error: &McpError) -> bool {
    matches!(error, McpError::UnexpectedStatus { status: 429, retry_after: Some(_), .. })
}

/// The failure to report for an error of an MCP connection.
fn mcp_failure(error: &McpError) -> CallFailure {
    let (code, retryable) = match error {
        McpError::Http(error) => execution::error_code_of(error),
        // The server may have carried it out.
        McpError::Timeout { .. } => (ErrorCode::UpstreamTimeout, false),
        McpError::ProgramEnded { .. } | McpError::StreamBroken { .. } | McpError::Closed => {
            (ErrorCode::UpstreamConnectionError, false)
        }
        McpError::ProgramNotStarted { .. } | McpError::CoolingDown { .. } => {
            (ErrorCode::UpstreamConnectionError, true)
        }
        McpError::Busy { .. } => (ErrorCode::RateLimited, true),
        // It is unknown here whether the call is idempotent.
        McpError::UnexpectedStatus { status, .. } => {
            (ErrorCode::UpstreamError, execution::is_retryable("POST", *status))
        }
        _ => (ErrorCode::UpstreamError, false),
    };
    let retry_after = match error {
        // Calls end all the time, so capacity is soon free.
        McpError::Busy { .. } => Some(1),
        McpError::UnexpectedStatus { retry_after, .. } => *retry_after,
        _ => None,
    };
    CallFailure {
        retry_after,
        ..CallFailure::new(code, model::format_error_chain(error), retryable)
    }
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
            (McpError::AnswerTooLarge { method, what, limit: 7 }, SourceVerdict::OnlyAnswers),
            (http(HttpError::TooLarge { limit: 7, announced: None }), SourceVerdict::OnlyAnswers),
            (http(HttpError::UnsupportedEncoding), SourceVerdict::OnlyAnswers),
            (McpError::NotReading, SourceVerdict::Fails),
        ] {
            assert_eq!(mcp_verdict(&error), says, "{error}");
        }
    }

    #[test]
    fn too_many_concurrent_calls_are_reported_with_a_retry_time() {
        assert_eq!(mcp_failure(&McpError::Busy { limit: 7 }).retry_after, Some(1));
        assert_eq!(mcp_failure(&McpError::Closed).retry_after, None);
    }
}
