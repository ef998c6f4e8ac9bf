//! Failures of calls over HTTP without a response, with the codes of requirement E3.
//!
//! A request that may have arrived and is not safe to repeat is never called retryable: its outcome is unknown.

use std::error::Error;
use std::time::Duration;

use model::{ErrorCode, Failure, WrongArgument};
use upstream::http::{HttpError, Url};

use crate::Problem;

pub(super) fn of(error: &HttpError) -> Failure {
    let (code, retryable) = code_of(error);
    Failure::new(code, with_cause(error), retryable)
}

/// The error code, and whether the call can be retried.
pub fn code_of(error: &HttpError) -> (ErrorCode, bool) {
    match error {
        HttpError::Connect { .. } => (ErrorCode::UpstreamConnectionError, true),
        HttpError::Timeout { sent, repeatable, .. } => {
            (ErrorCode::UpstreamTimeout, *repeatable || !sent)
        }
        // The upstream works: this code does not open the circuit for other callers.
        HttpError::Crowded { repeatable, .. } => (ErrorCode::UpstreamError, *repeatable),
        HttpError::Stalled { repeatable, .. } => (ErrorCode::UpstreamTimeout, *repeatable),
        HttpError::Broken { repeatable, .. } => (ErrorCode::UpstreamConnectionError, *repeatable),
        HttpError::Refused(_) | HttpError::Proxy => (ErrorCode::UpstreamConnectionError, false),
        HttpError::TooLarge { .. }
        | HttpError::Lengthy { .. }
        | HttpError::Encoded
        | HttpError::Redirected { .. }
        | HttpError::TooManyRedirects { .. } => (ErrorCode::UpstreamError, false),
    }
}

/// The failure for invalid arguments, with one line for each problem.
pub fn wrong_arguments(problems: Vec<Problem>) -> Failure {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    let one = |Problem { path, message }| WrongArgument { path, message };
    let arguments = problems.into_iter().map(one).collect();
    Failure { arguments, ..Failure::new(ErrorCode::ValidationError, lines.join("\n"), false) }
}

/// The failure for a response that could not be decoded before the deadline.
pub(super) fn unread(url: &Url, deadline: Duration) -> Failure {
    let origin = url.origin().ascii_serialization();
    let message = format!(
        "the answer of `{origin}` came, and is so long that it was not read within {deadline:?}: ask for less"
    );
    Failure::new(ErrorCode::UpstreamError, message, false)
}

pub(super) fn unsendable() -> Failure {
    let message = "the request has a header or a method that cannot be sent".to_owned();
    Failure::new(ErrorCode::InternalError, message, false)
}

/// The message with the innermost cause, the most specific one: `Connection refused`, `certificate has expired`.
fn with_cause(error: &HttpError) -> String {
    let message = error.to_string();
    let Some(first) = error.source() else { return message };
    let innermost = std::iter::successors(Some(first), |&error| error.source()).last();
    let cause = innermost.map(ToString::to_string).unwrap_or_default();
    if message.contains(&cause) { message } else { format!("{message} ({cause})") }
}
