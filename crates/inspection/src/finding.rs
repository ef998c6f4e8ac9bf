//! A finding of the text inspection: something in an upstream's text that is invisible or suspicious (requirement T2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something in a text of an upstream that a person cannot see or should not trust. It is safe to print.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A stable word: `unicode.hidden`.
    pub check: Box<str>,
    /// How bad it is.
    pub severity: Severity,
    /// In which text of the tool: a JSON pointer into its manifest.
    pub at: Box<str>,
    /// At which character of that text, from 0 on.
    #[serde(default)]
    pub offset: usize,
    /// What is there, in one sentence; what cannot be seen is written out.
    pub what: Box<str>,
}

/// How bad a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know. It stops nothing.
    Note,
    /// An admin who approves the version says that this was seen.
    Warning,
    /// The version is kept back until an admin approves it all the same.
    Critical,
}

impl Severity {
    /// The severity as written in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Finding {
    /// Whether the finding quarantines a version, regardless of the trust in its source.
    pub fn is_critical(&self) -> bool {
        self.severity == Severity::Critical
    }

    /// Whether an admin must acknowledge the finding to approve a version.
    pub fn needs_acknowledgement(&self) -> bool {
        Severity::Warning <= self.severity
    }
}
