//! Why an MCP server did not answer, by possible remedy. Messages name at most an origin or a program, never a header,
//! an argument or a body.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use oauth::OAuthError;
use tokio::time::Instant;
use upstream::chunked::MessageTooLarge;
use upstream::http::HttpError;

use super::json_rpc::RpcError;

/// Why a call has no answer. It is `Clone`, because the end of a connection ends all of its calls.
#[derive(Clone, Debug, thiserror::Error)]
pub enum McpError {
    /// The HTTP request failed.
    #[error("the MCP server cannot be reached")]
    Http(#[source] Arc<HttpError>),
    /// The server requires a credential, or another one.
    #[error("`{origin}` answered {status}: check the credential of the source")]
    Unauthorized {
        origin: String,
        status: u16,
        /// The `WWW-Authenticate` header, needed to obtain a credential.
        challenge: Option<Box<str>>,
    },
    /// The server requires a token, and none can be obtained.
    #[error("`{origin}` wants a token, which cannot be had")]
    TokenUnavailable {
        origin: String,
        #[source]
        source: Arc<OAuthError>,
    },
    /// The response is not an MCP message.
    #[error("`{origin}` answered {status}, which is not MCP: {}", status_advice(*status))]
    UnexpectedStatus {
        origin: String,
        status: u16,
        /// The `Retry-After` delay of an overloaded server, in seconds.
        retry_after: Option<u64>,
    },
    /// The answer violates the protocol.
    #[error("the answer to `{method}` is not what MCP says: {why}; tell whoever runs the server")]
    InvalidAnswer {
        /// The method of the request.
        method: Box<str>,
        why: &'static str,
    },
    /// The call was not answered before its deadline.
    #[error("`{method}` was not answered within {deadline:?}: the server is slow or hangs")]
    Timeout {
        /// The method of the request.
        method: Box<str>,
        deadline: Duration,
    },
    /// The program cannot be started.
    #[error("`{program}` cannot be started: check the command, and that it is installed")]
    ProgramNotStarted {
        /// The command as configured.
        program: Box<str>,
        #[source]
        source: Arc<io::Error>,
    },
    /// The program exited.
    #[error(
        "the program ended ({how}) and had written {stderr_lines} lines to its standard error: look there for the reason"
    )]
    ProgramEnded {
        /// The exit status in the system's words.
        how: Box<str>,
        /// The number of lines the program wrote to its standard error.
        stderr_lines: u64,
        /// The last lines of standard error, for admins only: they may contain secrets.
        stderr: Box<str>,
        at: Instant,
    },
    /// The stream that carries all answers broke.
    #[error(
        "the stream of `{origin}` broke off, so the outcome is unknown: check there before you repeat the call"
    )]
    StreamBroken { origin: String },
    /// The connection was closed by this client.
    #[error("the connection was closed")]
    Closed,
    /// Too many consecutive lines of the program are not MCP messages.
    #[error(
        "more than {limit} lines in a row were not MCP: have the program write its log to standard error"
    )]
    TooMuchGarbage {
        /// How many such lines were tolerated.
        limit: u32,
    },
    /// The program does not read its input.
    #[error("the program does not read its input: it hangs, restart it")]
    NotReading,
    /// Too many concurrent calls, and the queue is full.
    #[error("{limit} calls are under way and as many as may wait do: try again later")]
    Busy {
        /// The maximum number of concurrent calls.
        limit: usize,
    },
    /// The server offers no protocol version that this client supports.
    #[error(
        "the server offers version `{offered}` of MCP, which is unknown: update toolcrib or the server"
    )]
    UnsupportedVersion {
        /// The offered version, shortened.
        offered: Box<str>,
    },
    /// The server rejected a request that the connection depends on.
    #[error("the server refused `{method}` with {code}: see its log")]
    Refused {
        /// The method of the request.
        method: Box<str>,
        /// The JSON-RPC error code.
        code: i64,
        /// The complete error.
        error: Box<RpcError>,
    },
    /// The answer is endless or exceeds a limit.
    #[error(
        "the answer to `{method}` has more than {limit} {what}, which are not read: ask for less, or have the server send less"
    )]
    AnswerTooLarge {
        /// The method of the request.
        method: Box<str>,
        /// The unit of the limit: `pages`, `items`, `bytes` or `values`.
        what: &'static str,
        limit: usize,
    },
    /// A paginated list repeats a cursor.
    #[error(
        "`{method}` goes round in circles: one cursor came twice; tell whoever runs the server"
    )]
    CursorLoop {
        /// The method of the request.
        method: Box<str>,
    },
    /// The HTTP+SSE transport names an endpoint at another origin.
    #[error(
        "the server wants messages sent to another origin: use the url of that origin if you trust it"
    )]
    EndpointOriginMismatch,
    /// An argument that must be repeated in a header has no suitable value.
    #[error(
        "the argument `{argument}` must be repeated in a header, and is no text, whole number or yes or no"
    )]
    InvalidHeaderArgument {
        /// The path of the argument.
        argument: Box<str>,
    },
    /// The connection failed recently and is cooling down before the next attempt.
    #[error("the server failed a moment ago and is tried again in {wait:?}")]
    CoolingDown {
        /// The remaining cooldown.
        wait: Duration,
        /// The last failure.
        #[source]
        source: Arc<Self>,
    },
}

impl McpError {
    /// Whether the connection is unusable from now on.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::ProgramEnded { .. }
                | Self::StreamBroken { .. }
                | Self::Closed
                | Self::TooMuchGarbage { .. }
        )
    }

    /// Adds the method, where the error was created without knowing it.
    pub(crate) fn with_method(self, asked: &str) -> Self {
        match self {
            Self::InvalidAnswer { why, .. } => Self::unreadable(asked, why),
            Self::AnswerTooLarge { what, limit, .. } => {
                Self::too_much(asked, MessageTooLarge { what, limit })
            }
            error => error,
        }
    }

    pub(crate) fn unreadable(method: &str, why: &'static str) -> Self {
        Self::InvalidAnswer { method: method.into(), why }
    }

    pub(crate) fn too_much(method: &str, too_much: MessageTooLarge) -> Self {
        let MessageTooLarge { what, limit } = too_much;
        Self::AnswerTooLarge { method: method.into(), what, limit }
    }
}

fn status_advice(status: u16) -> &'static str {
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
