//! Errors of JSON-RPC and MCP, with the HTTP statuses of the modern era.

use std::time::Duration;

use api_types::problem::insufficient_scope_challenge;
use axum::http::header::HeaderValue;
use model::CallFailure;
use serde_json::{Value, json};
use toolcrib::CallerCapability;

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcErrorResponse {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Box<Value>>,
    /// HTTP status, where the era uses statuses for errors.
    pub(crate) status: u16,
    /// `WWW-Authenticate` value with the scopes that the client's token lacks.
    pub(crate) challenge: Option<Box<HeaderValue>>,
}

impl RpcErrorResponse {
    fn new(code: i64, status: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status, challenge: None }
    }

    fn with_data(self, data: Value) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// The body is not valid JSON.
    pub(crate) fn parse_error(why: impl Into<String>) -> Self {
        Self::new(-32700, 400, why)
    }

    /// The body is JSON but not a JSON-RPC message.
    pub(crate) fn invalid_request(why: impl Into<String>) -> Self {
        Self::new(-32600, 400, why)
    }

    pub(crate) fn method_not_found(method: &str) -> Self {
        let method: String = method.chars().take(80).collect();
        Self::new(-32601, 404, format!("there is no method `{method}`"))
    }

    /// The parameters are invalid.
    pub(crate) fn invalid_params(why: impl Into<String>) -> Self {
        Self::new(-32602, 200, why)
    }

    /// The required metadata is missing or invalid.
    pub(crate) fn invalid_meta(why: impl Into<String>) -> Self {
        Self::new(-32602, 400, why)
    }

    pub(crate) fn no_such_prompt(name: &str) -> Self {
        Self::invalid_params(format!("Prompt not found: {name}"))
    }

    pub(crate) fn no_such_resource(uri: &str) -> Self {
        Self::invalid_params("Resource not found").with_data(json!({"uri": uri}))
    }

    /// A header contradicts the body.
    pub(crate) fn header_mismatch(why: impl Into<String>) -> Self {
        Self::new(-32020, 400, why)
    }

    /// The client lacks a required capability.
    pub(crate) fn missing_capability(ability: CallerCapability) -> Self {
        let data = json!({"requiredCapabilities": ability.to_capabilities()});
        Self::new(-32021, 400, toolcrib::InputError::Unsupported(ability).to_string())
            .with_data(data)
    }

    pub(crate) fn unsupported_version(requested: &str, supported: &[&str]) -> Self {
        let requested: String = requested.chars().take(80).collect();
        let message = format!("the protocol version `{requested}` is not spoken here");
        let data = json!({"supported": supported, "requested": requested});
        Self::new(-32022, 400, message).with_data(data)
    }

    /// An internal error; the log has the cause.
    pub(crate) fn internal_error(why: impl Into<String>) -> Self {
        Self::new(-32603, 200, why)
    }

    /// A failure, with the stable code that REST also uses.
    pub(crate) fn from_failure(failure: &CallFailure) -> Self {
        Self::internal_error(&*failure.message).with_data(Value::Object(failure.to_meta()))
    }

    /// The token lacks scopes. The challenge names them, so a client can get a wider token and retry by itself.
    pub(crate) fn scopes_missing(failure: &CallFailure) -> Self {
        let challenge = Some(Box::new(insufficient_scope_challenge(&failure.scopes)));
        let error = Self::new(-32000, 403, &*failure.message);
        Self { challenge, ..error }.with_data(Value::Object(failure.to_meta()))
    }

    /// An error that the tool itself reported.
    pub(crate) fn from_tool(code: i64, message: String) -> Self {
        Self::new(code, 200, message)
    }

    /// The server is overloaded.
    pub(crate) fn server_busy(why: impl Into<String>) -> Self {
        Self::new(-32000, 503, why)
            .with_data(json!({"toolcrib/retryable": true, "toolcrib/retry_after": 1}))
    }

    /// The call exceeded the time limit for clients that accept no event stream.
    pub(crate) fn deadline_exceeded(within: Duration) -> Self {
        let within = within.as_secs();
        let why = format!("no answer within {within} s: accept `text/event-stream` to wait longer");
        Self::new(-32000, 503, why).with_data(json!({"toolcrib/retryable": false}))
    }

    /// The client cancelled the request.
    pub(crate) fn request_cancelled() -> Self {
        Self::new(-32000, 200, "the request was cancelled")
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = Value::clone(data);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use model::ErrorCode;

    use super::*;

    #[test]
    fn a_failure_carries_its_code_and_retry_delay() {
        let failure = CallFailure::new(ErrorCode::RateLimited, "too many", true);
        let error =
            RpcErrorResponse::from_failure(&CallFailure { retry_after: Some(7), ..failure })
                .to_value();
        let data = json!({"toolcrib/code": "rate_limited", "toolcrib/retryable": true, "toolcrib/retry_after": 7});
        assert_eq!(error, json!({"code": -32603, "message": "too many", "data": data}));
    }
}
