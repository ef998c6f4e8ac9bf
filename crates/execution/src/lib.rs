//! Execution: call → outcome.
//!
//! ```text
//! arguments ── Arguments::check ──▶ problems, or all is well
//!     │
//!     └─ RequestTemplate::render ──▶ Request ── Security::apply ──▶ Request with credentials
//!                                       │                               │
//!                                    shown, logged                 sent by `upstream`
//!                                                                       │
//!                tool_result ◀── Outcome ◀── outcome ◀── Answer ◀───────┘
//! ```
//!
//! A tool whose work goes on at the upstream takes the way again for every look at it (`async_poll.rs`). Everything but
//! `http.rs`, which walks this way, is pure: no connection, no clock. What comes from a manifest is
//! checked once, when it is compiled; what comes from an agent or an upstream is data, whatever it says.

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
