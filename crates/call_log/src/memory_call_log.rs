//! A call log in memory, for tests and for embedding without a database. It keeps only the last calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use catalog::journal::{JournalError, JournalFuture};
use jiff::Timestamp;

use super::{
    CallFilter, CallLog, CallLogRow, CallRecord, ChainBounds, ChainLink, REMOVAL_BATCH,
    RecordedCall, UsageKind, UsagePage, UsageTotals, chain_rows,
};

/// Upper bound for rows; older ones are removed.
const ROW_LIMIT: usize = 10_000;

/// A call log in memory.
#[derive(Default)]
pub struct MemoryCallLog(Mutex<MemoryRows>);

#[derive(Default)]
struct MemoryRows {
    anchor: Option<ChainLink>,
    rows: VecDeque<CallLogRow>,
    usage: BTreeMap<(UsageKind, String), UsageTotals>,
}

impl MemoryRows {
    fn anchor_link(&self) -> ChainLink {
        self.anchor.unwrap_or_else(ChainLink::start)
    }

    fn head_link(&self) -> ChainLink {
        self.rows.back().map_or_else(|| self.anchor_link(), CallLogRow::chain_link)
    }

    fn remove_first(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            self.anchor = Some(row.chain_link());
        }
    }
}

impl MemoryCallLog {
    fn lock_rows(&self) -> MutexGuard<'_, MemoryRows> {
        self.0.lock().expect("no one panics while holding the record")
    }

    fn ready_future<'a, T: Send + 'a>(result: Result<T, JournalError>) -> JournalFuture<'a, T> {
        Box::pin(std::future::ready(result))
    }
}

impl CallLog for MemoryCallLog {
    fn store_calls(&self, calls: Arc<[CallRecord]>) -> JournalFuture<'_, ()> {
        let mut kept = self.lock_rows();
        let rows = chain_rows(kept.head_link(), &calls);
        kept.rows.extend(rows);
        while ROW_LIMIT < kept.rows.len() {
            kept.remove_first();
        }
        for call in &*calls {
            let tool = call.tool_id.as_deref().unwrap_or_default().to_owned();
            kept.usage.entry((UsageKind::Tool, tool)).or_default().add_call(call);
            let subject = (UsageKind::Subject, call.subject.to_string());
            kept.usage.entry(subject).or_default().add_call(call);
        }
        Self::ready_future(Ok(()))
    }

    fn read_rows(&self, filter: CallFilter) -> JournalFuture<'_, Vec<CallLogRow>> {
        let kept = self.lock_rows();
        let wanted =
            |row: &&CallLogRow| row.parse_call().is_some_and(|call| matches_filter(&filter, &call));
        let rows = match filter.oldest_first {
            true => kept.rows.iter().filter(wanted).take(filter.limit).cloned().collect(),
            false => kept.rows.iter().rev().filter(wanted).take(filter.limit).cloned().collect(),
        };
        Self::ready_future(Ok(rows))
    }

    fn usage_totals(
        &self,
        of: UsageKind,
        names: Vec<String>,
    ) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        let kept = self.lock_rows();
        let find = |name: String| {
            let usage = kept.usage.get(&(of, name.clone()))?.clone();
            Some((name, usage))
        };
        Self::ready_future(Ok(names.into_iter().filter_map(find).collect()))
    }

    fn most_used(&self, page: UsagePage) -> JournalFuture<'_, Vec<(String, UsageTotals)>> {
        let kept = self.lock_rows();
        let all = kept.usage.iter().filter(|((of, name), _)| *of == page.of && !name.is_empty());
        let place = |name: &str, used: u64| (Reverse(used), name.to_owned());
        let after = page.after.map(|(used, name)| place(&name, used));
        let mut used: Vec<_> = all
            .map(|((_, name), usage)| (place(name, usage.execution_count), usage))
            .filter(|(place, _)| after.as_ref().is_none_or(|after| after < place))
            .collect();
        used.sort_by(|(one, _), (two, _)| one.cmp(two));
        let used = used.into_iter().take(page.limit);
        Self::ready_future(Ok(used.map(|((_, name), usage)| (name, usage.clone())).collect()))
    }

    fn chain_bounds(&self) -> JournalFuture<'_, ChainBounds> {
        let kept = self.lock_rows();
        let tools = kept.usage.iter().filter(|((of, _), _)| *of == UsageKind::Tool);
        let counted = tools.map(|(_, usage)| usage.execution_count).sum();
        Self::ready_future(Ok(ChainBounds {
            anchor: kept.anchor_link(),
            head: kept.head_link(),
            counted,
        }))
    }

    fn remove_before(&self, time: Timestamp) -> JournalFuture<'_, u64> {
        let mut kept = self.lock_rows();
        let is_old = |row: &&CallLogRow| row.parse_call().is_some_and(|call| call.call.time < time);
        let old = kept.rows.iter().take(REMOVAL_BATCH).take_while(is_old).count().saturating_sub(1);
        (0..old).for_each(|_| kept.remove_first());
        Self::ready_future(Ok(old as u64))
    }
}

fn matches_filter(filter: &CallFilter, row: &RecordedCall) -> bool {
    let call = &row.call;
    let is = |wanted: &Option<String>, found: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
    };
    let code = call.code.and_then(|code| serde_json::to_value(code).ok());
    is(&filter.tool, call.tool_id.as_deref())
        && is(&filter.source, call.source_id.as_deref())
        && is(&filter.subject, Some(&call.subject))
        && is(&filter.issuer, call.issuer.as_deref())
        && filter.door.is_none_or(|door| door == call.door)
        && is(&filter.correlation_id, call.correlation_id.as_deref())
        && is(&filter.trace_id, call.trace_id.as_deref())
        && filter.status.is_none_or(|status| status == call.status)
        && is(&filter.code, code.as_ref().and_then(|code| code.as_str()))
        && filter.since.is_none_or(|since| since <= call.time)
        && filter.until.is_none_or(|until| call.time < until)
        && filter.before.is_none_or(|before| row.id < before)
        && filter.after.is_none_or(|after| after < row.id)
}
