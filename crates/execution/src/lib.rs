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

mod arguments;
mod async_poll;
mod command_line;
mod credentials;
mod http_tool;
mod projection;
mod rendered_request;
mod response;
mod template;

pub use arguments::{
    ArgumentValidator, InvalidArgument, UndeclaredArguments, edit_distance, problems_by_schema,
    schema_problem,
};
pub use async_poll::{
    CANCEL_DEADLINE, JOB_DEADLINE, JobStart, PollResult, PolledJob, UpstreamReply,
};
pub use command_line::CommandLine;
pub use credentials::{
    CallCredentials, CredentialError, CredentialMask, Credentials, SecurityRequirements,
    SourceCredential, without_credentials,
};
pub use http_tool::{
    HttpTool, HttpToolError, HttpToolResponse, RetrySafety, error_code_of,
    invalid_arguments_failure,
};
pub use projection::{InvalidProjection, ProjectionError, ResultProjection};
pub use rendered_request::RenderedRequest;
pub use response::{
    AnsweredRequest, ResponseParts, escape_dangerous, escape_for_terminal, escape_json,
    is_hidden_char, is_retryable, outcome_of_api, outcome_of_document, outcome_of_mcp_result,
    outcome_of_tool_result, plain_text, to_tool_result, untrusted_source_meta,
};
pub use template::{RequestTemplate, TemplateError};
