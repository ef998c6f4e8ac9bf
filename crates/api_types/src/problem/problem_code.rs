//! Problem codes: a stable code, a status and a title for each kind of problem.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a problem in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProblemCode")]
pub enum ProblemCode {
    AlreadyExists,
    AmbiguousName,
    BeingRefreshed,
    Busy,
    CircuitOpen,
    DeadlineExceeded,
    Forbidden,
    GoneSince,
    GroupIsGranted,
    HeaderTooLarge,
    IdempotencyKeyReused,
    InsufficientScope,
    InternalError,
    InvalidRequest,
    InventoryShrinks,
    JournalUnavailable,
    KeyRevoked,
    KeysUnavailable,
    KindIsFixed,
    KindNotDiscovered,
    MalformedJson,
    McpConnectFailed,
    McpListFailed,
    MethodNotAllowed,
    MisdirectedRequest,
    NotAcceptable,
    NotFound,
    NotReady,
    NoSealingKey,
    NothingToReview,
    OtherSealingKey,
    PreconditionFailed,
    RateLimited,
    SaveFailed,
    SourceDisabled,
    SpecFetchFailed,
    SpecParseFailed,
    StdioNotAllowed,
    TooLarge,
    TooSlow,
    ToolDeprecated,
    ToolHasChanged,
    ToolHasFindings,
    Unauthorized,
    UnsupportedMediaType,
    ValidationError,
}

/// The code as answers and the OpenAPI document spell it.
impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ProblemCode {
    pub(crate) fn status(self) -> u16 {
        self.status_and_title().0
    }

    pub(crate) fn title(self) -> &'static str {
        self.status_and_title().1
    }

    fn status_and_title(self) -> (u16, &'static str) {
        match self {
            Self::InvalidRequest => (400, "The request is malformed"),
            Self::MalformedJson => (400, "The body is not JSON"),
            Self::Unauthorized => (401, "A valid credential is needed"),
            Self::Forbidden => (403, "Not for this caller"),
            Self::InsufficientScope => (403, "The token does not allow this"),
            Self::StdioNotAllowed => (403, "Child processes are not started for this API"),
            Self::NotFound => (404, "There is no such thing"),
            Self::MethodNotAllowed => (405, "Not with this method"),
            Self::NotAcceptable => (406, "Not in a form you take"),
            Self::TooSlow => (408, "The body comes too slowly"),
            Self::AlreadyExists => (409, "The id is taken"),
            Self::AmbiguousName => (409, "Several tools go by this name"),
            Self::BeingRefreshed => (409, "Another node is refreshing the source"),
            Self::GoneSince => (409, "It was made, and is gone since"),
            Self::GroupIsGranted => (409, "Policies grant this group"),
            Self::InventoryShrinks => (409, "Too many tools would go"),
            Self::KeyRevoked => (409, "The key is revoked for good"),
            Self::KindIsFixed => (409, "The kind of a source stays"),
            Self::KindNotDiscovered => (409, "Sources of this kind are not asked for tools"),
            Self::NoSealingKey => (409, "The server has no key that seals"),
            Self::NothingToReview => (409, "Nothing waits for review"),
            Self::OtherSealingKey => (409, "Secrets are sealed with another key"),
            Self::SourceDisabled => (409, "The source is disabled"),
            Self::ToolDeprecated => (409, "The tool is gone from its source"),
            Self::ToolHasChanged => (409, "Another version waits by now"),
            Self::ToolHasFindings => (409, "Something was found in the tool's texts"),
            Self::PreconditionFailed => (412, "It has changed meanwhile"),
            Self::TooLarge => (413, "The body is too large"),
            Self::UnsupportedMediaType => (415, "Bodies are JSON"),
            Self::MisdirectedRequest => (421, "Not for this server"),
            Self::IdempotencyKeyReused => (422, "The key belongs to another request"),
            Self::ValidationError => (422, "The request cannot be used"),
            Self::RateLimited => (429, "Too many calls"),
            Self::HeaderTooLarge => (431, "A header is too large"),
            Self::InternalError => (500, "Something went wrong inside"),
            Self::McpConnectFailed => (502, "The MCP server cannot be spoken to"),
            Self::McpListFailed => (502, "The MCP server does not say what it offers"),
            Self::SpecFetchFailed => (502, "The source could not be read"),
            Self::SpecParseFailed => (502, "The source makes no sense"),
            Self::CircuitOpen => (503, "The source is left alone for a while"),
            Self::Busy => (503, "Others are changing the same thing"),
            Self::DeadlineExceeded => (503, "It took too long"),
            Self::JournalUnavailable => (503, "The journal does not work"),
            Self::KeysUnavailable => (503, "The keys of a token's issuer cannot be had"),
            Self::NotReady => (503, "The server is not ready"),
            Self::SaveFailed => (503, "What was found could not be stored"),
        }
    }

    /// The problem code for the stored code of a failed refresh. Codes of later versions map to the most general one.
    pub(super) fn from_refresh_error(word: &str) -> Self {
        let known = [
            Self::InventoryShrinks,
            Self::KindNotDiscovered,
            Self::McpConnectFailed,
            Self::McpListFailed,
            Self::SaveFailed,
            Self::SpecParseFailed,
        ];
        known.into_iter().find(|code| code.to_string() == word).unwrap_or(Self::SpecFetchFailed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_spells_codes_like_the_answers() {
        let schema = schemars::schema_for!(ProblemCode);
        let words = schema.get("enum").unwrap().as_array().unwrap().clone();
        assert!(words.contains(&json!("group_is_granted")));
        for code in [
            ProblemCode::NothingToReview,
            ProblemCode::SpecParseFailed,
            ProblemCode::UnsupportedMediaType,
        ] {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.to_string()));
            assert!(words.contains(&json!(code.to_string())));
        }
    }
}
