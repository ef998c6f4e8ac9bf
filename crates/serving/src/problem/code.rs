//! The kinds of problem: a word that stays, a status and a title for each.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a problem in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProblemCode")]
pub(crate) enum Code {
    AlreadyExists,
    Busy,
    DeadlineExceeded,
    Forbidden,
    GroupIsGranted,
    HeaderTooLarge,
    IdempotencyKeyReused,
    InternalError,
    InvalidRequest,
    InventoryShrinks,
    JournalUnavailable,
    KeyRevoked,
    KeysUnavailable,
    KindIsFixed,
    KindNotDiscovered,
    MalformedJson,
    MethodNotAllowed,
    NotFound,
    NothingToReview,
    PreconditionFailed,
    SaveFailed,
    SourceDisabled,
    SpecFetchFailed,
    SpecParseFailed,
    StdioNotAllowed,
    TooLarge,
    ToolDeprecated,
    ToolHasChanged,
    Unauthorized,
    UnsupportedMediaType,
    ValidationError,
}

impl Code {
    pub(crate) fn status(self) -> u16 {
        self.row().0
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn title(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::InvalidRequest => (400, "invalid_request", "The request is malformed"),
            Self::MalformedJson => (400, "malformed_json", "The body is not JSON"),
            Self::Unauthorized => (401, "unauthorized", "A valid credential is needed"),
            Self::Forbidden => (403, "forbidden", "Not for this caller"),
            Self::StdioNotAllowed => {
                (403, "stdio_not_allowed", "Child processes are not started for this API")
            }
            Self::NotFound => (404, "not_found", "There is no such thing"),
            Self::MethodNotAllowed => (405, "method_not_allowed", "Not with this method"),
            Self::AlreadyExists => (409, "already_exists", "The id is taken"),
            Self::GroupIsGranted => (409, "group_is_granted", "Policies grant this group"),
            Self::InventoryShrinks => (409, "inventory_shrinks", "Too many tools would go"),
            Self::KeyRevoked => (409, "key_revoked", "The key is revoked for good"),
            Self::KindIsFixed => (409, "kind_is_fixed", "The kind of a source stays"),
            Self::KindNotDiscovered => {
                (409, "kind_not_discovered", "Sources of this kind are not asked for tools")
            }
            Self::NothingToReview => (409, "nothing_to_review", "Nothing waits for review"),
            Self::SourceDisabled => (409, "source_disabled", "The source is disabled"),
            Self::ToolDeprecated => (409, "tool_deprecated", "The tool is gone from its source"),
            Self::ToolHasChanged => (409, "tool_has_changed", "Another version waits by now"),
            Self::PreconditionFailed => (412, "precondition_failed", "It has changed meanwhile"),
            Self::TooLarge => (413, "too_large", "The body is too large"),
            Self::UnsupportedMediaType => (415, "unsupported_media_type", "Bodies are JSON"),
            Self::IdempotencyKeyReused => {
                (422, "idempotency_key_reused", "The key belongs to another request")
            }
            Self::ValidationError => (422, "validation_error", "The request cannot be used"),
            Self::HeaderTooLarge => (431, "header_too_large", "A header is too large"),
            Self::InternalError => (500, "internal_error", "Something went wrong inside"),
            Self::SpecFetchFailed => (502, "spec_fetch_failed", "The source could not be read"),
            Self::SpecParseFailed => (502, "spec_parse_failed", "The source makes no sense"),
            Self::Busy => (503, "busy", "Others are changing the same thing"),
            Self::DeadlineExceeded => (503, "deadline_exceeded", "It took too long"),
            Self::JournalUnavailable => (503, "journal_unavailable", "The journal does not work"),
            Self::KeysUnavailable => {
                (503, "keys_unavailable", "The keys of a token's issuer cannot be had")
            }
            Self::SaveFailed => (503, "save_failed", "What was found could not be stored"),
        }
    }

    /// The words of refreshes that failed are stored with the source; one that a later version wrote is not known.
    pub(super) fn of_refresh(word: &str) -> Self {
        let known = [
            Self::InventoryShrinks,
            Self::KindNotDiscovered,
            Self::SaveFailed,
            Self::SpecParseFailed,
        ];
        known.into_iter().find(|code| code.as_str() == word).unwrap_or(Self::SpecFetchFailed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_word_in_the_document_is_the_word_in_the_answer() {
        let schema = schemars::schema_for!(Code);
        let words = schema.get("enum").unwrap().as_array().unwrap().clone();
        assert!(words.contains(&json!("group_is_granted")));
        for code in [Code::NothingToReview, Code::SpecParseFailed, Code::UnsupportedMediaType] {
            assert_eq!(serde_json::to_value(code).unwrap(), json!(code.as_str()));
            assert!(words.contains(&json!(code.as_str())));
        }
    }
}
