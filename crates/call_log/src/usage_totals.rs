//! Usage of tools and callers: running totals, updated in the same step as the rows, and kept when rows are removed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallRecord, FinalCallStatus};

/// The kind of name that usage is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageKind {
    /// A tool, a prompt or a resource, by its id. Calls of unknown tools count for the empty id.
    Tool,
    /// A caller, by its subject.
    Subject,
}

/// How often something was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub struct UsageTotals {
    /// How often.
    pub execution_count: u64,
    /// When the last of them began.
    pub last_executed_at: Option<Timestamp>,
    /// How often it failed.
    pub error_count: u64,
    /// Why it last failed.
    pub last_error: Option<Box<str>>,
}

/// A page of the list of names by usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsagePage {
    pub of: UsageKind,
    /// Continue after the name with this usage count.
    pub after: Option<(u64, String)>,
    /// Upper bound for entries.
    pub limit: usize,
}

impl UsagePage {
    /// The first page.
    pub fn first_page(of: UsageKind, limit: usize) -> Self {
        Self { of, after: None, limit }
    }

    /// Start of the page and limit, as SQL parameters.
    pub(super) fn sql_parameters(&self) -> (i64, &str, i64) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // Larger than any usage count, so the page starts with the first entry.
        let (used, name) =
            self.after.as_ref().map_or((i64::MAX, ""), |(used, name)| (number(*used), name));
        (used, name, i64::try_from(self.limit).unwrap_or(i64::MAX))
    }
}

impl UsageKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Subject => "subject",
        }
    }
}

impl UsageTotals {
    pub(super) fn add_call(&mut self, call: &CallRecord) {
        self.execution_count += 1;
        self.last_executed_at = self.last_executed_at.max(Some(call.time));
        if call.status == FinalCallStatus::Failed {
            self.error_count += 1;
            self.last_error.clone_from(&call.error);
        }
    }
}

/// The totals to add for these calls, in sorted order: all writers lock the rows in the same order, so none deadlocks.
pub(super) fn totals_of_calls(calls: &[CallRecord]) -> BTreeMap<(UsageKind, &str), UsageTotals> {
    let mut totals: BTreeMap<(UsageKind, &str), UsageTotals> = BTreeMap::new();
    for call in calls {
        let tool = call.tool_id.as_deref().unwrap_or_default();
        totals.entry((UsageKind::Tool, tool)).or_default().add_call(call);
        totals.entry((UsageKind::Subject, &*call.subject)).or_default().add_call(call);
    }
    totals
}
