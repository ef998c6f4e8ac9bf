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
//! Everything but `http.rs`, which walks this way, is pure: no connection, no clock. What comes from a manifest is
//! checked once, when it is compiled; what comes from an agent or an upstream is data, whatever it says.

mod answer;
mod arguments;
mod credentials;
mod http;
mod request;
mod template;

pub use answer::{
    Answer, Asked, is_hidden, outcome, outcome_of_server, outcome_of_tool_result, plain_json,
    tool_result,
};
pub use arguments::{Arguments, Others, Problem, distance};
pub use credentials::{CredentialError, Credentials, Given, Own, Security, without_credentials};
pub use http::{Again, Answers, HttpTool, HttpToolError, code_of};
pub use request::Request;
pub use template::{RequestTemplate, TemplateError};
