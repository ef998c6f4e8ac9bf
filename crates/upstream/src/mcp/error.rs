//! Why an MCP server did not answer, by what can be done about it. Messages name an origin or a program at most; never a
//! header, an argument or a body.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::message::RpcError;
use super::oauth::OAuthError;
use crate::http::HttpError;
use crate::pieces::TooMuch;

/// Why there is no answer. It can be copied: one end of a connection is the end of all its calls.
#[derive(Clone, Debug, thiserror::Error)]
pub enum McpError {
    /// There was no answer over HTTP.
    #[error("the MCP server cannot be reached")]
    Http(#[source] Arc<HttpError>),
    /// It wants another credential, or one at all.
    #[error("`{origin}` answered {status}: check the credential of the source")]
    Unauthorized {
        /// Scheme, host and port.
        origin: String,
        /// 401 or 403.
        status: u16,
        /// The header `WWW-Authenticate`, for whoever can get a credential.
        challenge: Option<Box<str>>,
    },
    /// It wants a token, and none is to be had.
    #[error("`{origin}` wants a token, which cannot be had")]
    Authorization {
        /// Scheme, host and port.
        origin: String,
        /// Why.
        #[source]
        source: Arc<OAuthError>,
    },
    /// An answer that is not MCP.
    #[error("`{origin}` answered {status}, which is not MCP: {}", advice(*status))]
    Status {
        /// Scheme, host and port.
        origin: String,
        /// The status code.
        status: u16,
        /// In how many seconds who has too much to do wants to be asked again.
        retry_after: Option<u64>,
    },
    /// An answer that cannot be read.
    #[error("the answer to `{method}` is not what MCP says: {why}; tell whoever runs the server")]
    Unreadable {
        /// What was asked.
        method: Box<str>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It was not done in time.
    #[error("`{method}` was not answered within {deadline:?}: the server is slow or hangs")]
    Timeout {
        /// What was asked.
        method: Box<str>,
        /// The deadline.
        deadline: Duration,
    },
    /// The program cannot be started.
    #[error("`{program}` cannot be started: check the command, and that it is installed")]
    Start {
        /// As it was written.
        program: Box<str>,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The program ended.
    #[error(
        "the program ended ({how}) and had written {stderr_lines} lines to its standard error: look there for the reason"
    )]
    Ended {
        /// As the system says it.
        how: Box<str>,
        /// How much there is to read.
        stderr_lines: u64,
        /// The last lines of it, for whoever may see them: there may be secrets among them.
        stderr: Box<str>,
        /// When.
        at: Instant,
    },
    /// The stream that carries all answers broke off.
    #[error(
        "the stream of `{origin}` broke off, so the outcome is unknown: check there before you repeat the call"
    )]
    Broken {
        /// Scheme, host and port.
        origin: String,
    },
    /// It was closed on our side.
    #[error("the connection was closed")]
    Closed,
    /// Something other than MCP comes.
    #[error(
        "more than {limit} lines in a row were not MCP: have the program write its log to standard error"
    )]
    Garbage {
        /// How many were borne.
        limit: u32,
    },
    /// The program does not read.
    #[error("the program does not read its input: it hangs, restart it")]
    NotReading,
    /// Too much is asked at once.
    #[error("{limit} calls are under way and as many as may wait do: try again later")]
    Busy {
        /// How many may be.
        limit: usize,
    },
    /// It speaks no version that we do.
    #[error(
        "the server offers version `{offered}` of MCP, which is unknown: update toolcrib or the server"
    )]
    Version {
        /// What it offers, shortened.
        offered: Box<str>,
    },
    /// It refused what a connection cannot do without.
    #[error("the server refused `{method}` with {code}: see its log")]
    Refused {
        /// What was asked.
        method: Box<str>,
        /// The number of JSON-RPC.
        code: i64,
        /// All that it said.
        error: Box<RpcError>,
    },
    /// An answer that has no end, or more than may be.
    #[error(
        "the answer to `{method}` has more than {limit} {what}, which are not read: ask for less, or have the server send less"
    )]
    TooMuch {
        /// What was asked.
        method: Box<str>,
        /// `pages`, `items`, `bytes` or `values`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A list that leads back to where it was.
    #[error(
        "`{method}` goes round in circles: one cursor came twice; tell whoever runs the server"
    )]
    Circle {
        /// What was asked.
        method: Box<str>,
    },
    /// The old transport names another place to send to.
    #[error(
        "the server wants messages sent to another origin: use the url of that origin if you trust it"
    )]
    Elsewhere,
    /// An argument that must be repeated in a header cannot be.
    #[error(
        "the argument `{argument}` must be repeated in a header, and is no text, whole number or yes or no"
    )]
    Header {
        /// Its name.
        argument: Box<str>,
    },
    /// It failed a moment ago, and is not tried again yet.
    #[error("the server failed a moment ago and is tried again in {wait:?}")]
    Resting {
        /// How long from now.
        wait: Duration,
        /// How it failed.
        #[source]
        source: Arc<Self>,
    },
}

impl McpError {
    /// Whether the connection is of no more use.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Ended { .. } | Self::Broken { .. } | Self::Closed | Self::Garbage { .. }
        )
    }

    /// The same, where it is known only now what was asked.
    pub(crate) fn about(self, asked: &str) -> Self {
        match self {
            Self::Unreadable { why, .. } => Self::unreadable(asked, why),
            Self::TooMuch { what, limit, .. } => Self::too_much(asked, TooMuch { what, limit }),
            error => error,
        }
    }

    pub(crate) fn unreadable(method: &str, why: &'static str) -> Self {
        Self::Unreadable { method: method.into(), why }
    }

    pub(crate) fn too_much(method: &str, too_much: TooMuch) -> Self {
        let TooMuch { what, limit } = too_much;
        Self::TooMuch { method: method.into(), what, limit }
    }
}

fn advice(status: u16) -> &'static str {
    match status {
        425 | 429 | 503 => "it has too much to do, try again later",
        408 | 502 | 504 => "it is in trouble, and what was asked may have been done or not",
        _ => "check that the url is that of an MCP server",
    }
}

impl From<HttpError> for McpError {
    fn from(error: HttpError) -> Self {
        Self::Http(Arc::new(error))
    }
}
