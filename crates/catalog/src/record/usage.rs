//! Usage of tools and callers: running totals, updated in the same step as the rows, and kept when rows are removed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CallEnd, CallRecord};

/// The kind of name that usage is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageOf {
    /// A tool, a prompt or a resource, by its id. Calls of unknown tools count for the empty id.
    Tool,
    /// A caller, by its subject.
    Subject,
}

/// How often something was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
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
    pub of: UsageOf,
    /// Continue after the name with this usage count.
    pub after: Option<(u64, String)>,
    /// Upper bound for entries.
    pub limit: usize,
}

impl UsagePage {
    /// The first page.
    pub fn first(of: UsageOf, limit: usize) -> Self {
        Self { of, after: None, limit }
    }

    /// Start of the page and limit, as SQL parameters.
    pub(super) fn numbers(&self) -> (i64, &str, i64) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        // Larger than any usage count, so the page starts with the first entry.
        let (used, name) =
            self.after.as_ref().map_or((i64::MAX, ""), |(used, name)| (number(*used), name));
        (used, name, i64::try_from(self.limit).unwrap_or(i64::MAX))
    }
}

impl UsageOf {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Subject => "subject",
        }
    }
}

impl Usage {
    pub(super) fn add(&mut self, call: &CallRecord) {
        self.execution_count += 1;
        self.last_executed_at = self.last_executed_at.max(Some(call.time));
        if call.status == CallEnd::Failed {
            self.error_count += 1;
            self.last_error.clone_from(&call.error);
        }
    }
}

/// The totals to add for these calls, in sorted order: all writers lock the rows in the same order, so none deadlocks.
pub(super) fn added(calls: &[CallRecord]) -> BTreeMap<(UsageOf, &str), Usage> {
    let mut totals: BTreeMap<(UsageOf, &str), Usage> = BTreeMap::new();
    for call in calls {
        let tool = call.tool_id.as_deref().unwrap_or_default();
        totals.entry((UsageOf::Tool, tool)).or_default().add(call);
        totals.entry((UsageOf::Subject, &*call.subject)).or_default().add(call);
    }
    totals
}
