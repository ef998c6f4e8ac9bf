//! Failures of calls over HTTP without a response, with the codes of requirement E3.
//!
//! A request that may have arrived and is not safe to repeat is never called retryable: its outcome is unknown.

use std::error::Error;
use std::time::Duration;

use model::{ArgumentProblem, CallFailure, ErrorCode};
use upstream::http::{HttpError, Url};

use crate::InvalidArgument;

pub(super) fn failure_of_error(error: &HttpError) -> CallFailure {
    let (code, retryable) = error_code_of(error);
    CallFailure::new(code, message_with_cause(error), retryable)
}

/// The error code, and whether the call can be retried.
pub fn error_code_of(error: &HttpError) -> (ErrorCode, bool) {
    match error {
        HttpError::Connect { .. } => (ErrorCode::UpstreamConnectionError, true),
        HttpError::Timeout { sent, repeatable, .. } => {
            (ErrorCode::UpstreamTimeout, *repeatable || !sent)
        }
        // The upstream works: this code does not open the circuit for other callers.
        HttpError::QueuedTooLong { repeatable, .. } => (ErrorCode::UpstreamError, *repeatable),
        HttpError::Stalled { repeatable, .. } => (ErrorCode::UpstreamTimeout, *repeatable),
        HttpError::ResponseLost { repeatable, .. } => {
            (ErrorCode::UpstreamConnectionError, *repeatable)
        }
        HttpError::EgressDenied(_) | HttpError::InvalidProxy => {
            (ErrorCode::UpstreamConnectionError, false)
        }
        HttpError::TooLarge { .. }
        | HttpError::TooLongToRead { .. }
        | HttpError::UnsupportedEncoding
        | HttpError::Redirected { .. }
        | HttpError::TooManyRedirects { .. } => (ErrorCode::UpstreamError, false),
    }
}

/// The failure for invalid arguments, with one line for each problem.
pub fn invalid_arguments_failure(problems: Vec<InvalidArgument>) -> CallFailure {
    let lines: Vec<String> = problems.iter().map(InvalidArgument::to_string).collect();
    let one = |InvalidArgument { path, message }| ArgumentProblem { path, message };
    let arguments = problems.into_iter().map(one).collect();
    CallFailure {
        arguments,
        ..CallFailure::new(ErrorCode::ValidationError, lines.join("\n"), false)
    }
}

/// The failure for a response that could not be decoded before the deadline.
pub(super) fn undecoded_failure(url: &Url, deadline: Duration) -> CallFailure {
    let origin = url.origin().ascii_serialization();
    let message = format!(
        "the answer of `{origin}` came, and is so long that it was not read within {deadline:?}: ask for less"
    );
    CallFailure::new(ErrorCode::UpstreamError, message, false)
}

pub(super) fn unsendable_failure() -> CallFailure {
    let message = "the request has a header or a method that cannot be sent".to_owned();
    CallFailure::new(ErrorCode::InternalError, message, false)
}

/// The message with the innermost cause, the most specific one: `Connection refused`, `certificate has expired`.
fn message_with_cause(error: &HttpError) -> String {
    let message = error.to_string();
    let Some(first) = error.source() else { return message };
    let innermost = std::iter::successors(Some(first), |&error| error.source()).last();
    let cause = innermost.map(ToString::to_string).unwrap_or_default();
    if message.contains(&cause) { message } else { format!("{message} ({cause})") }
}
