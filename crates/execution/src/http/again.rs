//! Whether a request may be sent again, by the known fate of the first attempt and the semantics of the method.
//!
//! RFC 9110 calls PUT and DELETE idempotent, which holds for the state of the upstream but not for the agent. A DELETE
//! that was executed before its response got lost is a 404 the second time, and a PUT may overwrite a change made in
//! between. They are therefore repeated only if the first attempt was certainly not executed.

use upstream::http::{self, Answer, HttpError};

use crate::Request;

/// Headers with an idempotency key. A retry sends the same key.
const KEYS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// The possible effect of sending a request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The same failure is expected.
    InVain,
    /// The request may be executed twice.
    Twice,
    /// The first attempt was not executed, so the request is executed once.
    Once,
}

impl Again {
    pub(super) fn after(error: &HttpError) -> Self {
        match error {
            HttpError::Connect { .. } => Self::Once,
            HttpError::Broken { .. } | HttpError::Stalled { .. } => Self::Twice,
            // Do not send more to a slow or overloaded upstream; the other errors would recur.
            HttpError::Timeout { .. }
            | HttpError::Crowded { .. }
            | HttpError::Lengthy { .. }
            | HttpError::Refused(_)
            | HttpError::Proxy
            | HttpError::TooLarge { .. }
            | HttpError::Encoded
            | HttpError::Redirected { .. }
            | HttpError::TooManyRedirects { .. } => Self::InVain,
        }
    }

    /// Classifies a response status. An overloaded upstream states in `Retry-After` when to retry.
    pub(super) fn after_status(status: u16, retry_after: Option<u64>) -> Self {
        match status {
            502 | 504 => Self::Twice,
            // Only the upstream itself sends `Retry-After`; without it, a proxy may have forwarded the request.
            503 | 429 if retry_after.is_some() => Self::Once,
            503 => Self::Twice,
            _ => Self::InVain,
        }
    }

    /// Whether the request may be sent again after this result (RFC 9110, section 9.2).
    pub fn does_no_harm(self, request: &Request) -> bool {
        let has_key = KEYS.iter().any(|name| request.header(name).is_some_and(|it| !it.is_empty()));
        match (self, request.method.as_str()) {
            (Self::InVain, _) => false,
            (Self::Twice | Self::Once, "GET" | "HEAD" | "OPTIONS") => true,
            (Self::Once, "PUT" | "DELETE") => true,
            (Self::Twice | Self::Once, _) => has_key,
        }
    }
}

/// The seconds after which an overloaded upstream asks for a retry.
pub(super) fn retry_after(answer: &Answer) -> Option<u64> {
    http::retry_after(&answer.headers).filter(|_| matches!(answer.status, 429 | 503))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Request {
            method: method.to_owned(),
            url: "https://pets.example/pets".parse().unwrap(),
            headers: headers.collect(),
            body: None,
        }
    }

    #[test]
    fn a_retry_depends_on_the_method_the_execution_and_an_idempotency_key() {
        let repeated = |method: &str| {
            [Again::InVain, Again::Twice, Again::Once]
                .map(|again| again.does_no_harm(&request(method, &[])))
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
            assert!(Again::Twice.does_no_harm(&keyed) && !Again::InVain.does_no_harm(&keyed));
        }
        assert!(!Again::Twice.does_no_harm(&request("POST", &[("idempotency-key", "")])));
    }

    #[test]
    fn a_status_determines_the_retry_safety() {
        let after = |status| Again::after_status(status, None);
        assert_eq!([502, 503, 504].map(after), [Again::Twice; 3]);
        assert_eq!([200, 400, 401, 404, 408, 425, 429, 500, 501].map(after), [Again::InVain; 9]);
        assert_eq!([429, 503].map(|it| Again::after_status(it, Some(1))), [Again::Once; 2]);
    }
}
