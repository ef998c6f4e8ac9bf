//! Whether a request may be sent again: what is known of the first, and what the method promises.
//!
//! RFC 9110 calls PUT and DELETE idempotent, and so they are for the upstream. For the agent they are not: a DELETE that
//! was carried out before its answer got lost is a 404 the second time, and a PUT may undo what somebody else did
//! meanwhile. So they are repeated only if the first is known to have done nothing.

use upstream::http::{self, Answer, HttpError};

use crate::Request;

/// Headers by which an upstream knows a request that it has seen before. What is sent again has the same one.
const KEYS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// What may come of trying a request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nothing else than before.
    InVain,
    /// It may be done twice.
    Twice,
    /// It is done once: the first was not carried out.
    Once,
}

impl Again {
    pub(super) fn after(error: &HttpError) -> Self {
        match error {
            HttpError::Connect { .. } => Self::Once,
            HttpError::Broken { .. } | HttpError::Stalled { .. } => Self::Twice,
            // Whoever is slow or has too much is not asked for more; of the others the same would come again.
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

    /// Whoever has had too much says when it may be more, or does not want to be asked.
    pub(super) fn after_status(status: u16, retry_after: Option<u64>) -> Self {
        match status {
            502 | 504 => Self::Twice,
            // Who says when is the upstream itself; a proxy may have passed it on before.
            503 | 429 if retry_after.is_some() => Self::Once,
            503 => Self::Twice,
            _ => Self::InVain,
        }
    }

    /// Whether a request that ended so may be sent again (RFC 9110, section 9.2).
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

/// In how many seconds an upstream that has too much to do wants to be asked again.
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
    fn what_reads_is_repeated_what_writes_only_if_it_was_not_done_and_the_rest_with_a_key() {
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
    fn a_status_says_what_may_come_of_it() {
        let after = |status| Again::after_status(status, None);
        assert_eq!([502, 503, 504].map(after), [Again::Twice; 3]);
        assert_eq!([200, 400, 401, 404, 408, 425, 429, 500, 501].map(after), [Again::InVain; 9]);
        assert_eq!([429, 503].map(|it| Again::after_status(it, Some(1))), [Again::Once; 2]);
    }
}
