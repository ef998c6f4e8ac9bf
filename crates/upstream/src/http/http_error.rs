//! Why a request failed, by meaning for the caller: whether it was sent, and whether it may be repeated.
//!
//! Messages name at most the origin, because the rest of a URL may contain secrets.

use std::error::Error;
use std::iter;
use std::time::Duration;

use reqwest::Method;
use url::Url;

use crate::egress::EgressError;
use crate::egress_resolver::TooManyLookups;

/// The error of a lower layer.
pub type HttpErrorCause = Box<dyn Error + Send + Sync>;

/// Why there is no response. A response with a status of 400 or more is not an error here.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The egress policy forbids the destination; nothing was sent.
    #[error(transparent)]
    EgressDenied(#[from] EgressError),
    /// No connection could be made; nothing was sent.
    #[error("cannot connect to `{origin}`: {}", connect_advice(&**source))]
    Connect {
        origin: String,
        #[source]
        source: HttpErrorCause,
    },
    /// The response was not complete at the deadline.
    #[error("`{origin}` did not answer within {deadline:?}{}", outcome_suffix(*sent, *repeatable))]
    Timeout {
        origin: String,
        deadline: Duration,
        /// Whether the request may have been sent; if false, it certainly was not.
        sent: bool,
        /// Whether the method is idempotent (RFC 9110, section 9.2.2).
        repeatable: bool,
    },
    /// The response began, and then nothing more arrived for too long.
    #[error(
        "`{origin}` began to answer and then said nothing for {silence:?}{}",
        outcome_suffix(true, *repeatable)
    )]
    Stalled {
        origin: String,
        silence: Duration,
        /// Whether the method is idempotent (RFC 9110, section 9.2.2).
        repeatable: bool,
    },
    /// The response is long, and other long responses of the upstream were read until the deadline.
    #[error(
        "`{origin}` answered at length, and other long answers of it were read first until there was no time left{}",
        outcome_suffix(true, *repeatable)
    )]
    QueuedTooLong {
        origin: String,
        /// Whether the method is idempotent (RFC 9110, section 9.2.2).
        repeatable: bool,
    },
    /// The response is too large to be read before the deadline, although no other response delayed it.
    #[error(
        "`{origin}` answered more than can be read in that time: allow for more time, or ask for less{}",
        outcome_suffix(true, *repeatable)
    )]
    TooLongToRead {
        origin: String,
        /// Whether the method is idempotent (RFC 9110, section 9.2.2).
        repeatable: bool,
    },
    /// The request was sent, and the response was lost or cannot be read.
    #[error("the answer of `{origin}` was lost{}", outcome_suffix(true, *repeatable))]
    ResponseLost {
        origin: String,
        /// Whether the method is idempotent (RFC 9110, section 9.2.2).
        repeatable: bool,
        #[source]
        source: HttpErrorCause,
    },
    /// The response exceeds the size limit. Reading stopped there.
    #[error("the answer is too large: at most {limit} bytes are read{}", announced_suffix(*announced))]
    TooLarge {
        /// The size limit, after decoding.
        limit: u64,
        /// The length that the upstream announced.
        announced: Option<u64>,
    },
    /// The response has a content encoding that was not requested.
    #[error("the answer is encoded in another way than `gzip`: turn that off upstream")]
    UnsupportedEncoding,
    /// A document redirects to another origin. Nothing was sent there.
    #[error("the document has moved to `{to}`: use its new url if you trust it")]
    Redirected {
        /// The other origin: scheme, host and port.
        to: String,
    },
    /// A document has more redirects than are followed.
    #[error("the document was not found after {limit} redirects: use the url where it is")]
    TooManyRedirects { limit: usize },
    /// The proxy is not a valid URL.
    #[error("the proxy must be an `http` or `https` url, as in `http://proxy.example.com:3128`")]
    InvalidProxy,
}

impl HttpError {
    /// Classifies an error by meaning. An egress error comes from the resolver, wrapped in the errors of all layers
    /// between.
    pub(super) fn from_reqwest(error: reqwest::Error, url: &Url, method: &Method) -> Self {
        if let Some(refusal) = find_egress_error(&error) {
            return Self::EgressDenied(refusal);
        }
        let origin = super::origin_text(url);
        let repeatable = method.is_idempotent();
        let unsent = error.is_connect() || error.is_builder();
        let source = error.without_url().into();
        match unsent {
            true => Self::Connect { origin, source },
            false => Self::ResponseLost { origin, repeatable, source },
        }
    }
}

pub(super) fn find_egress_error(error: &(dyn Error + 'static)) -> Option<EgressError> {
    find_cause(error)
}

fn find_cause<E: Error + Clone + 'static>(error: &(dyn Error + 'static)) -> Option<E> {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<E>().cloned())
}

/// What to do if no connection can be made.
fn connect_advice(error: &(dyn Error + 'static)) -> String {
    match find_cause::<TooManyLookups>(error) {
        Some(busy) => busy.to_string(),
        None => "check the address, its certificate, and that it is up".to_owned(),
    }
}

fn outcome_suffix(sent: bool, repeatable: bool) -> &'static str {
    match (sent, repeatable) {
        (false, _) => ": nothing was sent, try again later",
        (true, true) => "",
        (true, false) => ", so the outcome is unknown: check there before you repeat the request",
    }
}

fn announced_suffix(announced: Option<u64>) -> String {
    announced.map(|bytes| format!(", and {bytes} were announced")).unwrap_or_default()
}
