//! `toolcrib record list`: the last recorded calls.

use toolcrib::{CallFilter, CallRecord, JournalPlace, RecordedCall};

use crate::cli::{Ended, ListCalls};
use crate::failure::Failure;
use crate::{out, table};

pub(crate) async fn list(place: &JournalPlace, arguments: &ListCalls) -> Result<Ended, Failure> {
    let records = super::open(place).await?;
    let filter = CallFilter {
        tool: arguments.tool.clone(),
        subject: arguments.subject.clone(),
        limit: arguments.lines as usize,
        ..CallFilter::default()
    };
    let mut rows = records.read(filter).await?;
    rows.reverse();
    if arguments.json {
        for row in &rows {
            out::print(&row.to_line())?;
        }
        return Ok(Ended::Fine);
    }
    let calls = rows.iter().filter_map(|row| row.call()).map(|call| columns(&call)).collect();
    let titles = ["ID", "TIME", "SUBJECT", "TOOL", "STATUS", "MS"];
    out::print(table::section("Calls", &titles, calls).trim_start_matches('\n'))?;
    Ok(Ended::Fine)
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
        out::plain(subject).into_owned(),
        out::plain(tool).into_owned(),
        status,
        format!("{}.{}", duration_us / 1_000, duration_us % 1_000 / 100),
    ]
}
