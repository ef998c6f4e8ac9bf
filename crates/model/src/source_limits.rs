//! Limits on calls to a source: rates, concurrency, timeout, retries and response size (requirement E5).

use std::num::NonZeroU32;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a source is given to do. What is not said is not limited, but for `concurrent` of all its calls, which is 64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SourceLimits {
    /// All calls to the source.
    #[serde(default, skip_serializing_if = "CallLimit::is_none")]
    pub all: CallLimit,
    /// Those of each agent.
    #[serde(default, skip_serializing_if = "CallLimit::is_none")]
    pub per_agent: CallLimit,
    /// Those of each tool.
    #[serde(default, skip_serializing_if = "CallLimit::is_none")]
    pub per_tool: CallLimit,
    /// Seconds that a call may take; 30 if not said, and for MCP servers 120, or 900 if they can ask on the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<NonZeroU32>,
    /// How often a call is tried again that failed and may be repeated without harm: at most 5 times, twice if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 5))]
    pub retries: Option<u8>,
    /// MiB of an answer over HTTP that are read, 1 to 64; 10 if not said. An answer that has more is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub max_answer_mb: Option<u8>,
}

/// Retries by default, and the maximum.
const DEFAULT_RETRIES: u8 = 2;
const MAX_RETRIES: u8 = 5;
/// Largest allowed response limit, in MiB.
const MAX_ANSWER_MIB: u8 = 64;

impl SourceLimits {
    /// Number of retries of a repeatable call.
    pub fn retries(&self) -> u8 {
        self.retries.unwrap_or(DEFAULT_RETRIES).min(MAX_RETRIES)
    }

    /// The time limit of a call, if one is set.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.get().into()))
    }

    /// The limit on the response body in bytes, if one is set.
    pub fn max_answer_bytes(&self) -> Option<u64> {
        self.max_answer_mb.map(|mebibytes| u64::from(mebibytes.clamp(1, MAX_ANSWER_MIB)) << 20)
    }

    /// Whether no limit is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How many calls there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Limit")]
pub struct CallLimit {
    /// In a minute, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<NonZeroU32>,
    /// At once after a pause; as many as in a minute if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<NonZeroU32>,
    /// Under way at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent: Option<NonZeroU32>,
}

impl CallLimit {
    /// Whether no limit is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_response_limit_is_configurable_up_to_64_mib() {
        let of =
            |limits| serde_json::from_value::<SourceLimits>(limits).unwrap().max_answer_bytes();
        assert_eq!(of(json!({})), None);
        assert_eq!(of(json!({"max_answer_mb": 64})), Some(64 * 1024 * 1024));
        assert_eq!(of(json!({"max_answer_mb": 0})), Some(1024 * 1024));
        assert_eq!(of(json!({"max_answer_mb": 255})), Some(64 * 1024 * 1024));
    }
}
