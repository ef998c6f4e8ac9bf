//! Why there is no answer, by what it means to the caller: was anything sent, and may it be sent again.
//!
//! Messages name the origin at most: the rest of a url may hold secrets.

use std::error::Error;
use std::iter;
use std::time::Duration;

use reqwest::Method;
use url::Url;

use crate::egress::EgressError;
use crate::resolver::TooManyLookups;

/// What went wrong below.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why there is no answer. An answer with a status of 400 or more is one.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// It may not be reached; nothing was sent.
    #[error(transparent)]
    Refused(#[from] EgressError),
    /// There is no connection; nothing was sent.
    #[error("cannot connect to `{origin}`: {}", advice(&**source))]
    Connect {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The answer was not complete at the deadline.
    #[error("`{origin}` did not answer within {deadline:?}{}", after(*sent, *repeatable))]
    Timeout {
        /// Scheme, host and port.
        origin: String,
        /// The deadline.
        deadline: Duration,
        /// Whether the request may have left; if not, it certainly did not.
        sent: bool,
        /// Whether asking twice has the effect of asking once (RFC 9110, 9.2.2).
        repeatable: bool,
    },
    /// The answer began, and nothing more of it came for too long.
    #[error(
        "`{origin}` began to answer and then said nothing for {silence:?}{}",
        after(true, *repeatable)
    )]
    Stalled {
        /// Scheme, host and port.
        origin: String,
        /// How long nothing came.
        silence: Duration,
        /// Whether asking twice has the effect of asking once (RFC 9110, 9.2.2).
        repeatable: bool,
    },
    /// The answer is long, and others of the same upstream were read until there was no time left for it.
    #[error(
        "`{origin}` answered at length, and other long answers of it were read first until there was no time left{}",
        after(true, *repeatable)
    )]
    Crowded {
        /// Scheme, host and port.
        origin: String,
        /// Whether asking twice has the effect of asking once (RFC 9110, 9.2.2).
        repeatable: bool,
    },
    /// The answer is so large that there was no time to read all of it, though no other kept it waiting.
    #[error(
        "`{origin}` answered more than can be read in that time: allow for more time, or ask for less{}",
        after(true, *repeatable)
    )]
    Lengthy {
        /// Scheme, host and port.
        origin: String,
        /// Whether asking twice has the effect of asking once (RFC 9110, 9.2.2).
        repeatable: bool,
    },
    /// The request left and the answer was lost, or cannot be read.
    #[error("the answer of `{origin}` was lost{}", after(true, *repeatable))]
    Broken {
        /// Scheme, host and port.
        origin: String,
        /// Whether asking twice has the effect of asking once (RFC 9110, 9.2.2).
        repeatable: bool,
        /// Why.
        #[source]
        source: Cause,
    },
    /// More than may be read. Reading stopped there.
    #[error("the answer is too large: at most {limit} bytes are read{}", size(*announced))]
    TooLarge {
        /// The most that is read, after decoding.
        limit: u64,
        /// What the upstream said it would be, if it did.
        announced: Option<u64>,
    },
    /// Encoded in a way that was not asked for.
    #[error("the answer is encoded in another way than `gzip`: turn that off upstream")]
    Encoded,
    /// A document is somewhere else. Nothing was asked there.
    #[error("the document has moved to `{to}`: use its new url if you trust it")]
    Redirected {
        /// Scheme, host and port.
        to: String,
    },
    /// A document is always one redirect away.
    #[error("the document was not found after {limit} redirects: use the url where it is")]
    TooManyRedirects {
        /// How many were followed.
        limit: usize,
    },
    /// The proxy's url is not one.
    #[error("the proxy must be an `http` or `https` url, as in `http://proxy.example.com:3128`")]
    Proxy,
}

impl HttpError {
    /// By meaning. A refusal comes from the resolver, wrapped in everything between.
    pub(super) fn from_reqwest(error: reqwest::Error, url: &Url, method: &Method) -> Self {
        if let Some(refusal) = refusal(&error) {
            return Self::Refused(refusal);
        }
        let origin = super::origin(url);
        let repeatable = method.is_idempotent();
        let unsent = error.is_connect() || error.is_builder();
        let source = error.without_url().into();
        match unsent {
            true => Self::Connect { origin, source },
            false => Self::Broken { origin, repeatable, source },
        }
    }
}

pub(super) fn refusal(error: &(dyn Error + 'static)) -> Option<EgressError> {
    cause(error)
}

fn cause<E: Error + Clone + 'static>(error: &(dyn Error + 'static)) -> Option<E> {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<E>().cloned())
}

/// What to do where there is no connection.
fn advice(error: &(dyn Error + 'static)) -> String {
    match cause::<TooManyLookups>(error) {
        Some(busy) => busy.to_string(),
        None => "check the address, its certificate, and that it is up".to_owned(),
    }
}

fn after(sent: bool, repeatable: bool) -> &'static str {
    match (sent, repeatable) {
        (false, _) => ": nothing was sent, try again later",
        (true, true) => "",
        (true, false) => ", so the outcome is unknown: check there before you repeat the request",
    }
}

fn size(announced: Option<u64>) -> String {
    announced.map(|bytes| format!(", and {bytes} were announced")).unwrap_or_default()
}
