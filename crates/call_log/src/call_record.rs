//! One recorded call: caller, tool, time and outcome. Arguments are recorded only if the operator enables it.

use std::sync::Arc;

use jiff::Timestamp;
use model::{Digest, ErrorCode, McpPrimitive};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// A call that was carried out, refused or given up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRecord {
    /// When it began.
    #[serde(serialize_with = "six_digits")]
    pub time: Timestamp,
    /// The process that carried it out; each start has another name.
    pub node: Arc<str>,
    /// Who called.
    pub subject: Arc<str>,
    /// Whose token was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Box<str>>,
    /// The program that the token was issued to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Box<str>>,
    /// What was shown.
    pub means: CallerCredentialKind,
    /// By which way the call came.
    pub door: CallEndpoint,
    /// What was called.
    pub kind: McpPrimitive,
    /// Which; none if there is none that the caller may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_id: Option<Box<str>>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_id: Option<Box<str>>,
    /// How it ended.
    pub status: FinalCallStatus,
    /// Why it failed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// Why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<str>>,
    /// The upstream's HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_status: Option<u16>,
    /// How long it took, in microseconds.
    pub duration_us: u64,
    /// The size of the arguments as JSON.
    pub argument_bytes: u64,
    /// The size of the result as JSON.
    pub result_bytes: u64,
    /// Names the request, in the log and in its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Box<str>>,
    /// The trace that the call is part of (W3C Trace Context).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<Box<str>>,
    /// The arguments as JSON without what looks like a secret, if the operator wants them; cut off at 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<str>>,
}

/// A call with its place in the chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedCall {
    /// Counts from one, without gaps.
    pub id: u64,
    /// The hash of the row before.
    pub previous: Digest,
    #[serde(flatten)]
    pub call: CallRecord,
    /// Of everything above, as it stands in an export.
    pub hash: Digest,
}

/// The content of a row, whose JSON text is hashed.
#[derive(Serialize)]
pub(super) struct ChainedCall<'a> {
    pub(super) id: u64,
    pub(super) previous: Digest,
    #[serde(flatten)]
    pub(super) call: &'a CallRecord,
}

/// What a caller showed of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ShownBy")]
pub enum CallerCredentialKind {
    /// A token of a known issuer.
    Token,
    /// An API key.
    Key,
    /// Nothing, where that is allowed.
    Anonymous,
    /// Whoever embeds us knows.
    #[default]
    Unknown,
}

/// By which way a call came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CallDoor")]
pub enum CallEndpoint {
    /// MCP over HTTP.
    Mcp,
    /// MCP over standard input and output.
    Stdio,
    /// The API for agents.
    Rest,
    /// The convention of http manifests.
    Manifest,
    /// Code that embeds us.
    #[default]
    Library,
}

impl CallEndpoint {
    /// The value as rows contain it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Stdio => "stdio",
            Self::Rest => "rest",
            Self::Manifest => "manifest",
            Self::Library => "library",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "CallEnd")]
pub enum FinalCallStatus {
    /// There is a result.
    Completed,
    /// It failed or was refused.
    Failed,
    /// The caller went away before it was done.
    Cancelled,
}

impl FinalCallStatus {
    /// The value as rows contain it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

fn six_digits<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&super::format_time(*time))
}
