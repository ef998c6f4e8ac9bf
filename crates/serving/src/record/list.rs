//! `toolcrib execution list`: prints the last logged calls.

use toolcrib::{CallRecord, RecordedCall};

use super::{EXECUTIONS, pages};
use crate::cli::execution::ListCalls;
use crate::counter::place::Place;
use crate::failure::Failure;
use crate::{out, table};

pub(super) async fn list(place: &Place, given: &ListCalls) -> Result<(), Failure> {
    let mut rows = pages(place, EXECUTIONS, given.which.pairs(), given.lines).await?;
    rows.reverse();
    if given.json.json {
        return out::print_json(&rows);
    }
    let calls: Result<Vec<RecordedCall>, _> =
        rows.into_iter().map(serde_json::from_value).collect();
    let calls = calls.map_err(Failure::ServerOdd)?;
    let titles = ["ID", "TIME", "SUBJECT", "TOOL", "STATUS", "MS"];
    let title = out::counted(calls.len(), "call", "calls");
    let rows = calls.iter().map(columns).collect();
    out::print(table::section(&title, &titles, rows).trim_start_matches('\n'))
}

fn columns(row: &RecordedCall) -> Vec<String> {
    let CallRecord { time, subject, tool_id, status, code, duration_us, .. } = &row.call;
    let code = code.and_then(|code| serde_json::to_value(code).ok());
    let status = match code.as_ref().and_then(|code| code.as_str()) {
        Some(code) => format!("{} ({code})", status.as_str()),
        None => status.as_str().to_owned(),
    };
    let tool = tool_id.as_deref().unwrap_or("-");
    vec![
        row.id.to_string(),
        format!("{time:.3}"),
        subject.to_string(),
        tool.to_owned(),
        status,
        format!("{}.{}", duration_us / 1_000, duration_us % 1_000 / 100),
    ]
}
