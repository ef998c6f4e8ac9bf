//! Execution: turns the arguments of a call into a request, and the response into an outcome.
//!
//! ```text
//! arguments ── validation ──▶ problems, or valid
//!     │
//!     └─ request template ──▶ request ── security requirements ──▶ request with credentials
//!                                │                                     │
//!                          shown, logged                       sent by `upstream`
//!                                                                      │
//!                tool result ◀── outcome ◀── upstream response ◀───────┘
//! ```
//!
//! A long-running job takes this path again for each status request (module `async_poll`). Everything except
//! `http_tool`, which implements the whole path, is pure: no connection, no clock. Text of a manifest is checked once,
//! when it is compiled. Input from an agent or an upstream is data, whatever it contains.

mod answer;
mod arguments;
mod async_poll;
mod command;
mod credentials;
mod http;
mod projection;
mod request;
mod template;

pub use answer::{
    AnsweredRequest, ResponseParts, escape_dangerous, escape_json, is_hidden_char, is_retryable,
    outcome_of_api, outcome_of_document, outcome_of_mcp_result, outcome_of_tool_result, plain_text,
    to_tool_result, untrusted_source_meta,
};
pub use arguments::{
    ArgumentValidator, InvalidArgument, UndeclaredArguments, edit_distance, problems_by_schema,
    schema_problem,
};
pub use async_poll::{
    CANCEL_DEADLINE, JOB_DEADLINE, JobStart, PollResult, PolledJob, UpstreamReply,
};
pub use command::CommandLine;
pub use credentials::{
    CallCredentials, CredentialError, CredentialMask, Credentials, SecurityRequirements,
    SourceCredential, without_credentials,
};
pub use http::{
    HttpTool, HttpToolError, HttpToolResponse, RetrySafety, error_code_of,
    invalid_arguments_failure,
};
pub use projection::{InvalidProjection, ProjectionError, ResultProjection};
pub use request::RenderedRequest;
pub use template::{RequestTemplate, TemplateError};
