//! Problem answers for programs and people (RFC 9457). Only this file maps failures to status codes.

mod not_ready_reason;
mod problem_code;
mod scope_challenge;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{AppendHeaders, IntoResponse, Response};
use model::Finding;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib::{
    AuthenticationError, CommandError, CommandRefusal, JournalError, RefreshResult, SecretError,
    TokenError, ToolLookupError,
};

pub use self::not_ready_reason::NotReadyReason;
pub use self::problem_code::ProblemCode;
pub use self::scope_challenge::{INSUFFICIENT_SCOPE, insufficient_scope_challenge};

/// The media type of every problem.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why a request failed. A failure is logged once: when it becomes an answer.
#[derive(Debug)]
pub struct Problem {
    code: ProblemCode,
    detail: Box<str>,
    errors: Box<[FieldError]>,
    extensions: Option<Box<ProblemExtensions>>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Logged, and never sent to the caller.
    cause: Option<Box<str>>,
}

/// Extension members that only few problems have; [`ProblemBody`] documents them.
#[derive(Debug, Default)]
struct ProblemExtensions {
    result: Option<Box<Value>>,
    reasons: Vec<NotReadyReason>,
    findings: Vec<Finding>,
    scopes: Vec<String>,
}

/// What is wrong with one member of a body, or with one query parameter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct FieldError {
    /// Which: `selectors[0].name`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// What went wrong (RFC 9457).
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// Says the same as `code`, as an address.
    r#type: String,
    /// The kind of problem in a few words.
    title: &'static str,
    /// The status of the answer.
    status: u16,
    /// The kind of problem in one word that stays.
    code: ProblemCode,
    /// This problem in a sentence.
    detail: String,
    /// Whether to make the same request again, when `Retry-After` says: what was in the way goes by itself.
    retryable: bool,
    /// What is wrong with which member of the body or query parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// What a refresh that failed found all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<Value>>,
    /// Why a server is not ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<NotReadyReason>,
    /// What was found in the texts of a tool that was to be approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    findings: Vec<Finding>,
    /// All that the caller's token must allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
}

impl Problem {
    pub fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into().into(),
            errors: Box::default(),
            extensions: None,
            headers: Vec::new(),
            cause: None,
        }
    }

    /// Invalid body fields or query parameters; needs at least one.
    pub fn invalid_fields(errors: Vec<FieldError>) -> Self {
        let first = errors.first().map(|error| match error.field.as_str() {
            "" => error.message.clone(),
            field => format!("`{field}`: {}", error.message),
        });
        let more = match errors.len() {
            0 | 1 => String::new(),
            several => format!(" (and {} more)", several - 1),
        };
        let detail = format!("{}{more}", first.unwrap_or_default());
        Self { errors: errors.into(), ..Self::new(ProblemCode::ValidationError, detail) }
    }

    /// One invalid body field or query parameter.
    pub fn invalid_field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid_fields(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// Prefixes the field paths with `place`, the path of the enclosing value in the body.
    pub fn nested_under(self, place: &str) -> Self {
        if self.errors.is_empty() || place.is_empty() {
            return self;
        }
        let move_there = |FieldError { field, message }: FieldError| match field.as_str() {
            "" => FieldError { field: place.to_owned(), message },
            field => FieldError { field: format!("{place}.{field}"), message },
        };
        Self::invalid_fields(self.errors.into_iter().map(move_there).collect())
    }

    /// The errors per field; one error without a field if the problem concerns no field.
    pub fn into_errors(self) -> Vec<FieldError> {
        match self.errors.is_empty() {
            true => vec![FieldError { field: String::new(), message: self.detail.into() }],
            false => self.errors.into(),
        }
    }

    pub fn not_found(what: &str, id: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        Self::new(ProblemCode::NotFound, format!("there is no {what} `{id}`"))
    }

    /// The request carries no credential (RFC 6750, 3).
    pub fn credential_missing(detail: impl Into<String>) -> Self {
        let asked = HeaderValue::from_static("Bearer");
        Self::new(ProblemCode::Unauthorized, detail).with_header(WWW_AUTHENTICATE, asked)
    }

    /// The credential is invalid (RFC 6750, 3).
    pub fn credential_refused(detail: impl Into<String>) -> Self {
        let asked = HeaderValue::from_static(r#"Bearer error="invalid_token""#);
        Self::new(ProblemCode::Unauthorized, detail).with_header(WWW_AUTHENTICATE, asked)
    }

    /// The token lacks required scopes (RFC 6750, 3.1).
    pub fn scopes_missing(detail: impl Into<String>, scopes: Vec<String>) -> Self {
        let asked = insufficient_scope_challenge(&scopes);
        let problem =
            Self::new(ProblemCode::InsufficientScope, detail).with_header(WWW_AUTHENTICATE, asked);
        problem.with_extensions(ProblemExtensions { scopes, ..ProblemExtensions::default() })
    }

    /// The server is not ready for requests.
    pub fn not_ready(reasons: Vec<NotReadyReason>) -> Self {
        let problem = Self::new(ProblemCode::NotReady, "ask another node, or again later");
        problem
            .with_extensions(ProblemExtensions { reasons, ..ProblemExtensions::default() })
            .retry_soon()
    }

    /// A failure that may go away: the caller may retry after this many seconds.
    pub fn retry_after(code: ProblemCode, detail: impl Into<String>, seconds: u64) -> Self {
        Self::new(code, detail).with_header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// A bug in the server. The cause goes to the log only.
    pub fn internal_error(cause: &str) -> Self {
        Self::new(
            ProblemCode::InternalError,
            "something went wrong inside; the server's log says what",
        )
        .with_cause(cause)
    }

    fn with_cause(self, cause: &str) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    fn with_extensions(self, more: ProblemExtensions) -> Self {
        Self { extensions: Some(Box::new(more)), ..self }
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn retry_soon(self) -> Self {
        self.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub fn has_code(&self, code: ProblemCode) -> bool {
        self.code == code
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let code = self.code.to_string();
        match &self.cause {
            Some(cause) => tracing::error!(code, cause, "answered {status} {code}: {cause}"),
            None if 500 <= status => {
                tracing::warn!(code, "answered {status} {code}: {}", self.detail);
            }
            None => {}
        }
        let ProblemExtensions { result, reasons, findings, scopes } =
            self.extensions.map(|more| *more).unwrap_or_default();
        let written = ProblemBody {
            r#type: format!("/problems/{code}"),
            title: self.code.title(),
            status,
            code: self.code,
            detail: self.detail.into(),
            retryable: self.headers.iter().any(|(name, _)| name == RETRY_AFTER),
            errors: self.errors.into(),
            result,
            reasons,
            findings,
            scopes,
        };
        let body = serde_json::to_string(&written).expect("a problem is JSON");
        let status = StatusCode::from_u16(status).expect("the codes have statuses that exist");
        let kind = [(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE))];
        (status, kind, AppendHeaders(self.headers), body).into_response()
    }
}

impl From<AuthenticationError> for Problem {
    fn from(error: AuthenticationError) -> Self {
        match error {
            AuthenticationError::NoCredential => Self::credential_missing(error.to_string()),
            AuthenticationError::Token(TokenError::KeysUnavailable) => {
                Self::new(ProblemCode::KeysUnavailable, error.to_string()).retry_soon()
            }
            AuthenticationError::NoIssuer
            | AuthenticationError::Token(_)
            | AuthenticationError::Key => Self::credential_refused(error.to_string()),
        }
    }
}

/// An unknown tool and one that is not granted give the same problem.
impl From<ToolLookupError> for Problem {
    fn from(error: ToolLookupError) -> Self {
        match error {
            ToolLookupError::NoSuchTool { name } => {
                let name = name.chars().take(200).collect::<String>().into();
                Self::new(ProblemCode::NotFound, ToolLookupError::NoSuchTool { name }.to_string())
            }
            ToolLookupError::Ambiguous { .. } => {
                Self::new(ProblemCode::AmbiguousName, error.to_string())
            }
        }
    }
}

impl From<CommandRefusal> for Problem {
    fn from(refusal: CommandRefusal) -> Self {
        let code = match &refusal {
            CommandRefusal::NotFound { .. } => ProblemCode::NotFound,
            CommandRefusal::AlreadyExists { .. } => ProblemCode::AlreadyExists,
            CommandRefusal::ToolIsDeprecated { .. } => ProblemCode::ToolDeprecated,
            CommandRefusal::ToolHasChanged { .. } => ProblemCode::ToolHasChanged,
            CommandRefusal::HasFindings { findings, .. } => {
                let findings = findings.as_slice().to_vec();
                let problem = Self::new(ProblemCode::ToolHasFindings, refusal.to_string());
                return problem.with_extensions(ProblemExtensions {
                    findings,
                    ..ProblemExtensions::default()
                });
            }
            CommandRefusal::NothingToReview { .. } => ProblemCode::NothingToReview,
            CommandRefusal::KeyIsRevoked { .. } => ProblemCode::KeyRevoked,
            CommandRefusal::HasChanged { .. } => ProblemCode::PreconditionFailed,
            CommandRefusal::SourceIsDisabled { .. } => ProblemCode::SourceDisabled,
            CommandRefusal::BeingRefreshed { .. } => {
                return Self::new(ProblemCode::BeingRefreshed, refusal.to_string()).retry_soon();
            }
            CommandRefusal::KindIsFixed { .. } => ProblemCode::KindIsFixed,
            CommandRefusal::GroupIsGranted { .. } => ProblemCode::GroupIsGranted,
            CommandRefusal::NoSuchGroups { .. } => {
                return Self::invalid_field("groups", refusal.to_string());
            }
            CommandRefusal::NoSuchLabels { .. } => {
                return Self::invalid_field("labels", refusal.to_string());
            }
            CommandRefusal::SelectorSaysNothing { number } => {
                return Self::invalid_field(
                    format!("selectors[{}]", number - 1),
                    refusal.to_string(),
                );
            }
            CommandRefusal::KindsExcludeEachOther => {
                return Self::invalid_field("selectors", refusal.to_string());
            }
            CommandRefusal::OnlyOfTools { member, .. } => {
                return Self::invalid_field(*member, refusal.to_string());
            }
            CommandRefusal::TooMany { what, .. } => {
                return Self::invalid_field(*what, refusal.to_string());
            }
            CommandRefusal::TooDeep => return Self::invalid_field("", refusal.to_string()),
            CommandRefusal::ShrinksTooMuch { .. } => ProblemCode::InventoryShrinks,
        };
        Self::new(code, refusal.to_string())
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Refused(refusal) => refusal.into(),
            CommandError::Busy { .. } => {
                Self::new(ProblemCode::Busy, "others are changing the same thing: try again")
                    .retry_soon()
            }
            CommandError::SnapshotBehind { .. } => {
                Self::new(ProblemCode::JournalUnavailable, error.to_string()).retry_soon()
            }
            CommandError::Journal(error) => error.into(),
        }
    }
}

impl From<JournalError> for Problem {
    /// Hides the location of the journal and the database's error from the caller.
    fn from(error: JournalError) -> Self {
        match &error {
            JournalError::KeyReused { .. } => Self::new(
                ProblemCode::IdempotencyKeyReused,
                "this idempotency key was used for another request: use a new key",
            ),
            JournalError::TooLarge { .. } => Self::new(ProblemCode::TooLarge, error.to_string()),
            JournalError::NotText { .. } => Self::invalid_field("", error.to_string()),
            JournalError::Unavailable { maybe_stored: true, .. } => {
                let detail = "the change may be stored: repeat it with the same idempotency key";
                Self::new(ProblemCode::JournalUnavailable, detail)
                    .with_cause(&error.to_string())
                    .retry_soon()
            }
            JournalError::TookTooLong { .. } => {
                let detail = "reading took too long: ask for less, such as a shorter time";
                Self::new(ProblemCode::JournalUnavailable, detail).with_cause(&error.to_string())
            }
            _ => {
                let detail = "the journal cannot be written or read now; the server's log says why";
                let problem = Self::new(ProblemCode::JournalUnavailable, detail)
                    .with_cause(&error.to_string());
                if error.is_retryable() { problem.retry_soon() } else { problem }
            }
        }
    }
}

/// No variant contains a secret value.
impl From<SecretError> for Problem {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Journal(error) => error.into(),
            SecretError::NotSealed { name } => Self::not_found("secret", &name),
            SecretError::Size => Self::invalid_field("value", error.to_string()),
            SecretError::Name | SecretError::Prefixed { .. } => {
                Self::invalid_field("name", error.to_string())
            }
            SecretError::NoKey => {
                let detail = "the server has no key to seal with: start it with TOOLCRIB_SEALING_KEY or \
                              --sealing-key-file (`openssl rand -base64 32 > FILE` makes one)";
                Self::new(ProblemCode::NoSealingKey, detail)
            }
            SecretError::OtherKey { .. } => {
                let detail = format!(
                    "{error} than the server has: start it with that key, or remove the secret"
                );
                Self::new(ProblemCode::OtherSealingKey, detail)
            }
            SecretError::NotInEnvironment { .. }
            | SecretError::File { .. }
            | SecretError::WeakKey => Self::internal_error(&error.to_string()),
        }
    }
}

/// A failed refresh.
impl From<RefreshResult> for Problem {
    fn from(result: RefreshResult) -> Self {
        let Some(error) = &result.error else {
            return Self::internal_error("a refresh failed and did not say why");
        };
        let code = ProblemCode::from_refresh_error(&error.code);
        let detail = error.message.to_string();
        let result = serde_json::to_value(&result).expect("a result is JSON");
        Self::new(code, detail).with_extensions(ProblemExtensions {
            result: Some(Box::new(result)),
            ..ProblemExtensions::default()
        })
    }
}

#[cfg(test)]
mod problems_page;
#[cfg(test)]
mod tests;
