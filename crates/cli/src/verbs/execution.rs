//! `toolcrib execution …`: queries the call log through the API routes; `verify` reads its store directly.

mod call_usage;
mod export_calls;
mod list_calls;
mod verify_calls;

use axum::http::Method;
use serde_json::Value;
use url::form_urlencoded;

use crate::admin_client::admin_backend::AdminBackend;
use crate::admin_client::entity_tables;
use crate::arguments::VerbOutcome;
use crate::arguments::execution::{ExecutionVerb, ShowCallArgs};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;

const EXECUTIONS: &str = "/api/executions";
/// Maximum rows of one API page.
const MAX_PAGE_ROWS: usize = 200;

pub(crate) async fn run_execution_verb(
    config: &ProgramConfig,
    verb: &ExecutionVerb,
) -> Result<VerbOutcome, CliError> {
    let open = async |at| AdminBackend::connect_to_call_log(config, at).await;
    let (place, done) = match verb {
        ExecutionVerb::Verify(given) => {
            return verify_calls::verify_calls(&config.journal, given).await;
        }
        ExecutionVerb::List(list) => {
            let place = open(&list.at).await?;
            let done = list_calls::list_calls(&place, list).await;
            (place, done)
        }
        ExecutionVerb::Show(one) => {
            let place = open(&one.at).await?;
            let done = show_call(&place, one).await;
            (place, done)
        }
        ExecutionVerb::Usage(of) => {
            let place = open(&of.at).await?;
            let done = call_usage::show_usage(&place, of).await;
            (place, done)
        }
        ExecutionVerb::Export(export) => {
            let place = open(&export.at).await?;
            let done = export_calls::export_calls(&place, &export.which).await;
            (place, done)
        }
    };
    place.close().await;
    done.map(|()| VerbOutcome::Success)
}

async fn show_call(place: &AdminBackend, one: &ShowCallArgs) -> Result<(), CliError> {
    let id: String = form_urlencoded::byte_serialize(one.id.as_bytes()).collect();
    let call = place.send(Method::GET, &format!("{EXECUTIONS}/{id}"), None).await?.body;
    entity_tables::print_entity(&call, &one.json)
}

/// The first `wanted` rows of a list, page by page.
async fn fetch_rows(
    place: &AdminBackend,
    path: &str,
    pairs: Vec<(&'static str, &str)>,
    wanted: u32,
) -> Result<Vec<Value>, CliError> {
    let wanted = wanted as usize;
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    while rows.len() < wanted {
        let limit = (wanted - rows.len()).min(MAX_PAGE_ROWS).to_string();
        let mut pairs = pairs.clone();
        pairs.push(("limit", &limit));
        pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let mut page = place.send(Method::GET, &with_query(path, pairs), None).await?.body;
        if let Value::Array(data) = page["data"].take() {
            rows.extend(data);
        }
        match page["next_cursor"].as_str() {
            Some(next) if cursor.as_deref() != Some(next) => cursor = Some(next.to_owned()),
            _ => break,
        }
    }
    Ok(rows)
}

/// Appends a query string to a path.
fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'static str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
