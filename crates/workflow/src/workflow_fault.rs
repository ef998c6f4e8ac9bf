//! Workflow faults: errors of the DSL (RFC 7807), which a `try` may catch.

use model::{CallFailure, ErrorCode};
use serde_json::{Map, Value};

/// Prefix of the DSL's standard error types.
const STANDARD_ERROR_PREFIX: &str = "https://serverlessworkflow.io/spec/1.0.0/errors/";

/// An error that ends the workflow unless a `try` catches it.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkflowFault {
    /// Error type, a URI.
    pub kind: String,
    /// Status, in the range of HTTP statuses.
    pub status: u16,
    pub title: String,
    pub detail: Option<String>,
    /// JSON pointer to the step that failed.
    pub instance: String,
    /// The failure of the tool, if a tool call failed.
    pub failure: Option<Box<CallFailure>>,
    /// A limit was reached; no `try` catches the fault.
    pub is_final: bool,
}

/// The failure of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallFailure {
    /// The failure, with our error code.
    pub failure: CallFailure,
    /// The upstream's status, if there was one.
    pub status: Option<u16>,
}

impl WorkflowFault {
    pub(crate) fn standard_error(
        word: &str,
        status: u16,
        title: impl Into<String>,
        at: &str,
    ) -> Self {
        Self {
            kind: format!("{STANDARD_ERROR_PREFIX}{word}"),
            status,
            title: title.into(),
            detail: None,
            instance: at.to_owned(),
            failure: None,
            is_final: false,
        }
    }

    /// A limit of the run was reached; no `try` catches this fault.
    pub(crate) fn limit_reached(what: &str, at: &str) -> Self {
        Self {
            is_final: true,
            ..Self::standard_error("runtime", 500, format!("the workflow {what}"), at)
        }
    }

    pub(crate) fn expression_failed(why: &str, at: &str) -> Self {
        let title = "an expression could not be evaluated";
        Self { detail: Some(why.to_owned()), ..Self::standard_error("expression", 400, title, at) }
    }

    pub(crate) fn timed_out(at: &str) -> Self {
        Self::standard_error("timeout", 408, "the task took longer than its timeout", at)
    }

    /// The fault of a failed tool call.
    pub(crate) fn from_call_failure(failed: ToolCallFailure, at: &str) -> Self {
        let (word, status) = standard_type_for(failed.failure.code);
        let title = failed.failure.message.clone();
        let status = failed.status.unwrap_or(status);
        Self {
            failure: Some(Box::new(failed.failure)),
            ..Self::standard_error(word, status, title, at)
        }
    }

    /// The error object that expressions see.
    pub(crate) fn to_value(&self) -> Value {
        let mut members = Map::new();
        members.insert("type".to_owned(), self.kind.clone().into());
        members.insert("status".to_owned(), self.status.into());
        members.insert("title".to_owned(), self.title.clone().into());
        if let Some(detail) = &self.detail {
            members.insert("detail".to_owned(), detail.clone().into());
        }
        members.insert("instance".to_owned(), self.instance.clone().into());
        Value::Object(members)
    }

    /// The failure that the workflow's caller gets. It carries no scopes, no `retry_after` and is not retryable,
    /// because earlier steps may have had effects. A caller that retried after getting wider rights or fixing its
    /// arguments would repeat them.
    pub fn into_failure(self) -> CallFailure {
        let detail = self.detail.map(|detail| format!(": {detail}")).unwrap_or_default();
        let message = format!("{}{detail} (at {})", self.title, self.instance);
        let code = match self.failure.map(|failure| failure.code) {
            // The step's arguments were invalid, not those of the workflow's caller.
            Some(ErrorCode::ValidationError) => ErrorCode::BuiltinError,
            Some(code) => code,
            None if self.status == 408 => ErrorCode::UpstreamTimeout,
            None => ErrorCode::BuiltinError,
        };
        CallFailure::new(code, message, false)
    }
}

/// The DSL's closest standard error type, with its status.
fn standard_type_for(code: ErrorCode) -> (&'static str, u16) {
    match code {
        ErrorCode::ValidationError => ("validation", 400),
        // The caller cannot distinguish a tool without a grant from a tool that does not exist.
        ErrorCode::NotGranted => ("configuration", 404),
        ErrorCode::InsufficientScope => ("authorization", 403),
        ErrorCode::TokenExchangeFailed | ErrorCode::ClientCredentialsFailed => {
            ("authentication", 401)
        }
        ErrorCode::UpstreamTimeout | ErrorCode::PollTimeout => ("timeout", 408),
        ErrorCode::RateLimited => ("communication", 429),
        ErrorCode::CircuitOpen => ("communication", 503),
        ErrorCode::UpstreamConnectionError | ErrorCode::UpstreamError | ErrorCode::PollFailed => {
            ("communication", 500)
        }
        ErrorCode::TemplateError | ErrorCode::BuiltinError | ErrorCode::InternalError => {
            ("runtime", 500)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_scope_of_a_step_is_reported_only_in_the_message() {
        let scopes = vec!["pets".to_owned()];
        let failure = CallFailure::new(ErrorCode::InsufficientScope, "this takes `pets`", false);
        let failure = CallFailure { scopes, retry_after: Some(1), ..failure };
        let fault = WorkflowFault::from_call_failure(
            ToolCallFailure { failure, status: None },
            "/do/1/order",
        );
        let message = "this takes `pets` (at /do/1/order)";
        let told = CallFailure::new(ErrorCode::InsufficientScope, message, false);
        assert_eq!(fault.into_failure(), told);
    }

    #[test]
    fn no_failure_claims_that_no_step_was_carried_out() {
        let told = |fault: WorkflowFault| {
            let failure = fault.into_failure();
            (failure.code, failure.retryable)
        };
        let of_call = |code| {
            let failure = CallFailure::new(code, "no", true);
            told(WorkflowFault::from_call_failure(
                ToolCallFailure { failure, status: None },
                "/do/1/order",
            ))
        };
        assert_eq!(of_call(ErrorCode::RateLimited), (ErrorCode::RateLimited, false));
        assert_eq!(of_call(ErrorCode::ValidationError), (ErrorCode::BuiltinError, false));
        assert_eq!(
            told(WorkflowFault::timed_out("/do/1/order")),
            (ErrorCode::UpstreamTimeout, false)
        );
    }
}
