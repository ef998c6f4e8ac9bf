//! `toolcrib execution list`: prints the last logged calls.

use toolcrib::{CallRecord, RecordedCall};

use super::{EXECUTIONS, fetch_rows};
use crate::admin_client::admin_backend::AdminBackend;
use crate::arguments::execution::ListCallsArgs;
use crate::cli_error::CliError;
use crate::{output, text_table};

pub(super) async fn list_calls(
    place: &AdminBackend,
    given: &ListCallsArgs,
) -> Result<(), CliError> {
    let mut rows = fetch_rows(place, EXECUTIONS, given.which.query_pairs(), given.lines).await?;
    rows.reverse();
    if given.json.json {
        return output::print_json(&rows);
    }
    let calls: Result<Vec<RecordedCall>, _> =
        rows.into_iter().map(serde_json::from_value).collect();
    let calls = calls.map_err(CliError::UnexpectedResponse)?;
    let titles = ["ID", "TIME", "SUBJECT", "TOOL", "STATUS", "MS"];
    let title = output::count_noun(calls.len(), "call", "calls");
    let rows = calls.iter().map(call_columns).collect();
    output::print_text(text_table::table_section(&title, &titles, rows).trim_start_matches('\n'))
}

fn call_columns(row: &RecordedCall) -> Vec<String> {
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
