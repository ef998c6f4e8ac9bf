//! `toolcrib execution usage`: prints the number of calls, for one tool or caller or for all of them.

use axum::http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use toolcrib::Usage;

use super::{EXECUTIONS, pages, with};
use crate::cli::execution::CallsOf;
use crate::counter::place::Place;
use crate::counter::tables;
use crate::failure::Failure;
use crate::{out, table};

/// The usage of one tool or caller.
#[derive(Deserialize)]
struct Counted {
    name: String,
    #[serde(flatten)]
    usage: Usage,
}

pub(super) async fn usage(place: &Place, of: &CallsOf) -> Result<(), Failure> {
    let path = format!("{EXECUTIONS}/usage");
    let named = [("tool", &of.tool), ("subject", &of.subject)];
    let named = named.into_iter().find_map(|(name, value)| Some((name, value.as_deref()?)));
    match named {
        Some(named) => {
            let usage = place.ask(Method::GET, &with(&path, [named]), None).await?;
            tables::show(&usage.body, &of.json)
        }
        None => {
            let rows = pages(place, &path, vec![("by", &of.by)], of.lines).await?;
            if of.json.json { out::print_json(&rows) } else { print(&of.by, rows) }
        }
    }
}

fn print(by: &str, rows: Vec<Value>) -> Result<(), Failure> {
    let rows: Result<Vec<Counted>, _> = rows.into_iter().map(serde_json::from_value).collect();
    let rows = rows.map_err(Failure::ServerOdd)?;
    let title = out::counted(rows.len(), by, &format!("{by}s"));
    let titles = [&*by.to_uppercase(), "CALLS", "FAILED", "LAST", "LAST ERROR"];
    let rows = rows.into_iter().map(columns).collect();
    out::print(table::section(&title, &titles, rows).trim_start_matches('\n'))
}

fn columns(row: Counted) -> Vec<String> {
    let Usage { execution_count, last_executed_at, error_count, last_error } = row.usage;
    let last = |time: Timestamp| format!("{time:.3}");
    vec![
        row.name,
        execution_count.to_string(),
        error_count.to_string(),
        last_executed_at.map(last).unwrap_or_default(),
        last_error.unwrap_or_default().into(),
    ]
}
