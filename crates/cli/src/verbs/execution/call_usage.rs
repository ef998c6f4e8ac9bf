//! `toolcrib execution usage`: prints the number of calls, for one tool or caller or for all of them.

use axum::http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use toolcrib::UsageTotals;

use super::{EXECUTIONS, fetch_rows, with_query};
use crate::admin_client::admin_backend::AdminBackend;
use crate::admin_client::entity_tables;
use crate::arguments::execution::CallUsageArgs;
use crate::cli_error::CliError;
use crate::{output, text_table};

/// The usage of one tool or caller.
#[derive(Deserialize)]
struct UsageRow {
    name: String,
    #[serde(flatten)]
    usage: UsageTotals,
}

pub(super) async fn show_usage(place: &AdminBackend, of: &CallUsageArgs) -> Result<(), CliError> {
    let path = format!("{EXECUTIONS}/usage");
    let named = [("tool", &of.tool), ("subject", &of.subject)];
    let named = named.into_iter().find_map(|(name, value)| Some((name, value.as_deref()?)));
    match named {
        Some(named) => {
            let usage = place.send(Method::GET, &with_query(&path, [named]), None).await?;
            entity_tables::print_entity(&usage.body, &of.json)
        }
        None => {
            let rows = fetch_rows(place, &path, vec![("by", &of.by)], of.lines).await?;
            if of.json.json { output::print_json(&rows) } else { print_usage_rows(&of.by, rows) }
        }
    }
}

fn print_usage_rows(by: &str, rows: Vec<Value>) -> Result<(), CliError> {
    let rows: Result<Vec<UsageRow>, _> = rows.into_iter().map(serde_json::from_value).collect();
    let rows = rows.map_err(CliError::UnexpectedResponse)?;
    let title = output::count_noun(rows.len(), by, &format!("{by}s"));
    let titles = [&*by.to_uppercase(), "CALLS", "FAILED", "LAST", "LAST ERROR"];
    let rows = rows.into_iter().map(usage_columns).collect();
    output::print_text(text_table::table_section(&title, &titles, rows).trim_start_matches('\n'))
}

fn usage_columns(row: UsageRow) -> Vec<String> {
    let UsageTotals { execution_count, last_executed_at, error_count, last_error } = row.usage;
    let last = |time: Timestamp| format!("{time:.3}");
    vec![
        row.name,
        execution_count.to_string(),
        error_count.to_string(),
        last_executed_at.map(last).unwrap_or_default(),
        last_error.unwrap_or_default().into(),
    ]
}
