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
    Answer, Asked, is_hidden, is_retryable, outcome, outcome_of_document, outcome_of_server,
    outcome_of_tool_result, plain_json, plain_text, tame, tool_result, whose_words,
};
pub use arguments::{Arguments, Others, Problem, distance, misfits, schema_problem};
pub use async_poll::{Begun, CANCEL_DEADLINE, JOB_DEADLINE, Job, Looked, Reply};
pub use command::CommandLine;
pub use credentials::{
    CredentialError, Credentials, Given, Mask, Own, Security, without_credentials,
};
pub use http::{Again, Answers, HttpTool, HttpToolError, code_of, wrong_arguments};
pub use projection::{InvalidProjection, Projection, ProjectionError};
pub use request::Request;
pub use template::{RequestTemplate, TemplateError};
