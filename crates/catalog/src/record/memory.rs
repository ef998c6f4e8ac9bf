//! A call log in memory, for tests and for embedding without a database. It keeps only the last calls.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;

use super::{
    CallFilter, CallRecord, Chain, Link, RecordedCall, Records, Row, STEP, Usage, UsageOf,
    UsagePage, chained,
};
use crate::journal::{Answering, JournalError};

/// Upper bound for rows; older ones are removed.
const KEPT: usize = 10_000;

/// A call log in memory.
#[derive(Default)]
pub struct MemoryRecords(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    anchor: Option<Link>,
    rows: VecDeque<Row>,
    usage: BTreeMap<(UsageOf, String), Usage>,
}

impl Kept {
    fn anchor(&self) -> Link {
        self.anchor.unwrap_or_else(Link::start)
    }

    fn head(&self) -> Link {
        self.rows.back().map_or_else(|| self.anchor(), Row::link)
    }

    fn forget_first(&mut self) {
        if let Some(row) = self.rows.pop_front() {
            self.anchor = Some(row.link());
        }
    }
}

impl MemoryRecords {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no one panics while holding the record")
    }

    fn ready<'a, T: Send + 'a>(result: Result<T, JournalError>) -> Answering<'a, T> {
        Box::pin(std::future::ready(result))
    }
}

impl Records for MemoryRecords {
    fn store(&self, calls: Arc<[CallRecord]>) -> Answering<'_, ()> {
        let mut kept = self.kept();
        let rows = chained(kept.head(), &calls);
        kept.rows.extend(rows);
        while KEPT < kept.rows.len() {
            kept.forget_first();
        }
        for call in &*calls {
            let tool = call.tool_id.as_deref().unwrap_or_default().to_owned();
            kept.usage.entry((UsageOf::Tool, tool)).or_default().add(call);
            let subject = (UsageOf::Subject, call.subject.to_string());
            kept.usage.entry(subject).or_default().add(call);
        }
        Self::ready(Ok(()))
    }

    fn read(&self, filter: CallFilter) -> Answering<'_, Vec<Row>> {
        let kept = self.kept();
        let wanted = |row: &&Row| row.call().is_some_and(|call| is_wanted(&filter, &call));
        let rows = match filter.oldest_first {
            true => kept.rows.iter().filter(wanted).take(filter.limit).cloned().collect(),
            false => kept.rows.iter().rev().filter(wanted).take(filter.limit).cloned().collect(),
        };
        Self::ready(Ok(rows))
    }

    fn usage(&self, of: UsageOf, names: Vec<String>) -> Answering<'_, Vec<(String, Usage)>> {
        let kept = self.kept();
        let find = |name: String| {
            let usage = kept.usage.get(&(of, name.clone()))?.clone();
            Some((name, usage))
        };
        Self::ready(Ok(names.into_iter().filter_map(find).collect()))
    }

    fn most_used(&self, page: UsagePage) -> Answering<'_, Vec<(String, Usage)>> {
        let kept = self.kept();
        let all = kept.usage.iter().filter(|((of, name), _)| *of == page.of && !name.is_empty());
        let place = |name: &str, used: u64| (Reverse(used), name.to_owned());
        let after = page.after.map(|(used, name)| place(&name, used));
        let mut used: Vec<_> = all
            .map(|((_, name), usage)| (place(name, usage.execution_count), usage))
            .filter(|(place, _)| after.as_ref().is_none_or(|after| after < place))
            .collect();
        used.sort_by(|(one, _), (two, _)| one.cmp(two));
        let used = used.into_iter().take(page.limit);
        Self::ready(Ok(used.map(|((_, name), usage)| (name, usage.clone())).collect()))
    }

    fn chain(&self) -> Answering<'_, Chain> {
        let kept = self.kept();
        let tools = kept.usage.iter().filter(|((of, _), _)| *of == UsageOf::Tool);
        let counted = tools.map(|(_, usage)| usage.execution_count).sum();
        Self::ready(Ok(Chain { anchor: kept.anchor(), head: kept.head(), counted }))
    }

    fn forget_before(&self, time: Timestamp) -> Answering<'_, u64> {
        let mut kept = self.kept();
        let is_old = |row: &&Row| row.call().is_some_and(|call| call.call.time < time);
        let old = kept.rows.iter().take(STEP).take_while(is_old).count().saturating_sub(1);
        (0..old).for_each(|_| kept.forget_first());
        Self::ready(Ok(old as u64))
    }
}

fn is_wanted(filter: &CallFilter, row: &RecordedCall) -> bool {
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
