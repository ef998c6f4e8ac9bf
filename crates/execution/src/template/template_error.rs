//! The error of templates that cannot be used, or that render no request for some arguments.

use model::ErrorCode;

/// Why a template cannot be used, or renders no request for these arguments. Never contains the value of an argument.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// The template is too long; checking its length is cheap, parsing it is not.
    #[error("a template has at most {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// An expression has no `}}`, or one in the wrong position.
    #[error("an expression in `{{{{ }}}}` does not end")]
    NotClosed,
    /// A statement, a comment, or an operator that builds text.
    #[error(
        "`{found}` cannot be used in a template: write expressions in `{{{{ }}}}`, and text with `{{` as a string in one"
    )]
    NotAllowed {
        /// The forbidden syntax.
        found: String,
    },
    /// The template engine rejects the expression.
    #[error("the expression `{expression}` is wrong: {reason}")]
    Expression {
        expression: String,
        /// The message of the engine.
        reason: String,
    },
    /// A name that is neither a variable nor a function.
    #[error("templates know no `{name}`")]
    UnknownName { name: String },
    /// The URL does not start with a fixed origin, or could lead elsewhere.
    #[error("the address {rule}")]
    Address {
        /// The violated rule.
        rule: &'static str,
    },
    /// A header that cannot be sent, or that arguments must not set.
    #[error("the header `{name}` {rule}")]
    Header {
        /// The name of the header.
        name: String,
        /// The violated rule.
        rule: &'static str,
    },
    /// A body that is not valid in its encoding for any arguments.
    #[error("the body {rule}")]
    Body {
        /// The violated rule.
        rule: &'static str,
    },
    /// An invalid HTTP method.
    #[error("`{method}` is not a method")]
    Method {
        /// The invalid method.
        method: String,
    },
    /// The first response does not contain a needed value.
    #[error("{what} is not in the first answer")]
    MissingInResponse {
        /// The missing value.
        what: String,
    },
    /// An argument that cannot be sent in its position.
    #[error("{argument} {problem}")]
    Argument {
        /// The argument, or the expression if it has several.
        argument: String,
        /// The problem of the argument.
        problem: String,
    },
}

impl TemplateError {
    /// The error code, which says whether the arguments or the template are at fault.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Argument { .. } => ErrorCode::ValidationError,
            Self::TooLong { .. }
            | Self::NotClosed
            | Self::NotAllowed { .. }
            | Self::Expression { .. }
            | Self::UnknownName { .. }
            | Self::Address { .. }
            | Self::MissingInResponse { .. }
            | Self::Header { .. }
            | Self::Body { .. }
            | Self::Method { .. } => ErrorCode::TemplateError,
        }
    }
}
