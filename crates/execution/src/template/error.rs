//! Why a template cannot be used, or gives no request for these arguments.

use model::ErrorCode;

/// Why a template cannot be used, or gives no request for these arguments. Never holds the value of an argument.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TemplateError {
    /// Cheap to refuse, dear to parse.
    #[error("a template has at most {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// No `}}`, or one in the wrong place.
    #[error("an expression in `{{{{ }}}}` does not end")]
    NotClosed,
    /// A statement, a comment, or an operator that builds text.
    #[error(
        "`{found}` cannot be used in a template: write expressions in `{{{{ }}}}`, and text with `{{` as a string in one"
    )]
    NotAllowed {
        /// What was found.
        found: String,
    },
    /// The template engine does not understand it.
    #[error("the expression `{expression}` is wrong: {reason}")]
    Expression {
        /// The expression.
        expression: String,
        /// What the engine says.
        reason: String,
    },
    /// Neither `args` nor a function.
    #[error("templates know no `{name}`")]
    UnknownName {
        /// The name.
        name: String,
    },
    /// The address does not begin with a fixed origin, or could lead elsewhere.
    #[error("the address {rule}")]
    Address {
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A header that cannot be sent, or that no argument may set.
    #[error("the header `{name}` {rule}")]
    Header {
        /// Its name.
        name: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A body that is not of its encoding for any arguments.
    #[error("the body {rule}")]
    Body {
        /// The rule it breaks.
        rule: &'static str,
    },
    /// Not a method.
    #[error("`{method}` is not a method")]
    Method {
        /// What was given instead.
        method: String,
    },
    /// The first answer does not tell it.
    #[error("{what} is not in the first answer")]
    Untold {
        /// What it should tell.
        what: String,
    },
    /// An argument that cannot be sent in its place.
    #[error("{argument} {problem}")]
    Argument {
        /// Which one, or the expression if it has several.
        argument: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl TemplateError {
    /// Whether the arguments are to blame, or the template.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Argument { .. } => ErrorCode::ValidationError,
            Self::TooLong { .. }
            | Self::NotClosed
            | Self::NotAllowed { .. }
            | Self::Expression { .. }
            | Self::UnknownName { .. }
            | Self::Address { .. }
            | Self::Untold { .. }
            | Self::Header { .. }
            | Self::Body { .. }
            | Self::Method { .. } => ErrorCode::TemplateError,
        }
    }
}
