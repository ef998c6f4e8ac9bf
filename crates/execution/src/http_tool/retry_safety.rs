//! Whether a request may be sent again, by the known fate of the first attempt and the semantics of the method.
//!
//! RFC 9110 calls PUT and DELETE idempotent, which holds for the state of the upstream but not for the agent. A DELETE
//! that was executed before its response got lost is a 404 the second time, and a PUT may overwrite a change made in
//! between. They are therefore repeated only if the first attempt was certainly not executed.

use upstream::http;
use upstream::http::{HttpError, UpstreamResponse};

use crate::RenderedRequest;

/// Headers with an idempotency key. A retry sends the same key.
const IDEMPOTENCY_HEADERS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// The possible effect of sending a request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetrySafety {
    /// The same failure is expected.
    Useless,
    /// The request may be executed twice.
    MayExecuteTwice,
    /// The first attempt was not executed, so the request is executed once.
    NotExecuted,
}

impl RetrySafety {
    pub(super) fn after_error(error: &HttpError) -> Self {
        match error {
            HttpError::Connect { .. } => Self::NotExecuted,
            HttpError::ResponseLost { .. } | HttpError::Stalled { .. } => Self::MayExecuteTwice,
            // Do not send more to a slow or overloaded upstream; the other errors would recur.
            HttpError::Timeout { .. }
            | HttpError::QueuedTooLong { .. }
            | HttpError::TooLongToRead { .. }
            | HttpError::EgressDenied(_)
            | HttpError::InvalidProxy
            | HttpError::TooLarge { .. }
            | HttpError::UnsupportedEncoding
            | HttpError::Redirected { .. }
            | HttpError::TooManyRedirects { .. } => Self::Useless,
        }
    }

    /// Classifies a response status. An overloaded upstream states in `Retry-After` when to retry.
    pub(super) fn after_status(status: u16, retry_after: Option<u64>) -> Self {
        match status {
            502 | 504 => Self::MayExecuteTwice,
            // Only the upstream itself sends `Retry-After`; without it, a proxy may have forwarded the request.
            503 | 429 if retry_after.is_some() => Self::NotExecuted,
            503 => Self::MayExecuteTwice,
            _ => Self::Useless,
        }
    }

    /// Whether the request may be sent again after this result (RFC 9110, section 9.2).
    pub fn allows_retry(self, request: &RenderedRequest) -> bool {
        let has_key = IDEMPOTENCY_HEADERS
            .iter()
            .any(|name| request.header(name).is_some_and(|it| !it.is_empty()));
        match (self, request.method.as_str()) {
            (Self::Useless, _) => false,
            (Self::MayExecuteTwice | Self::NotExecuted, "GET" | "HEAD" | "OPTIONS") => true,
            (Self::NotExecuted, "PUT" | "DELETE") => true,
            (Self::MayExecuteTwice | Self::NotExecuted, _) => has_key,
        }
    }
}

/// The seconds after which an overloaded upstream asks for a retry.
pub(super) fn overload_retry_after(answer: &UpstreamResponse) -> Option<u64> {
    http::retry_after(&answer.headers).filter(|_| matches!(answer.status, 429 | 503))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> RenderedRequest {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        RenderedRequest {
            method: method.to_owned(),
            url: "https://pets.example/pets".parse().unwrap(),
            headers: headers.collect(),
            body: None,
        }
    }

    #[test]
    fn a_retry_depends_on_the_method_the_execution_and_an_idempotency_key() {
        let repeated = |method: &str| {
            [RetrySafety::Useless, RetrySafety::MayExecuteTwice, RetrySafety::NotExecuted]
                .map(|again| again.allows_retry(&request(method, &[])))
        };
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(repeated(method), [false, true, true], "{method}");
        }
        for method in ["PUT", "DELETE"] {
            assert_eq!(repeated(method), [false, false, true], "{method}");
        }
        for method in ["POST", "PATCH", "get", "BREW"] {
            assert_eq!(repeated(method), [false; 3], "{method}");
        }
        for method in ["POST", "PATCH", "DELETE"] {
            let keyed = request(method, &[("Idempotency-Key", "k1")]);
            assert!(
                RetrySafety::MayExecuteTwice.allows_retry(&keyed)
                    && !RetrySafety::Useless.allows_retry(&keyed)
            );
        }
        assert!(
            !RetrySafety::MayExecuteTwice
                .allows_retry(&request("POST", &[("idempotency-key", "")]))
        );
    }

    #[test]
    fn a_status_determines_the_retry_safety() {
        let after = |status| RetrySafety::after_status(status, None);
        assert_eq!([502, 503, 504].map(after), [RetrySafety::MayExecuteTwice; 3]);
        assert_eq!(
            [200, 400, 401, 404, 408, 425, 429, 500, 501].map(after),
            [RetrySafety::Useless; 9]
        );
        assert_eq!(
            [429, 503].map(|it| RetrySafety::after_status(it, Some(1))),
            [RetrySafety::NotExecuted; 2]
        );
    }
}
