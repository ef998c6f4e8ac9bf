//! Failures of calls that have an internal cause.

use std::error::Error;
use std::fmt::Display;

use model::{CallFailure, ErrorCode};

pub fn internal_failure(message: &str) -> CallFailure {
    CallFailure::new(ErrorCode::InternalError, message.to_owned(), false)
}

/// Logs the cause and returns a failure without it: the cause may name files, variables and addresses, which are for
/// admins.
pub fn report_unusable(what: &impl Display, cause: &dyn Error, message: &str) -> CallFailure {
    tracing::error!(%what, %cause, "`{what}` cannot be used: {cause}");
    internal_failure(message).with_cause(model::format_error_chain(cause))
}
