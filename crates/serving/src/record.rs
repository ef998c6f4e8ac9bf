//! `toolcrib execution …`: queries the call log through the API routes; `verify` reads its store directly.

mod export;
mod list;
mod usage;
mod verify;

use axum::http::Method;
use serde_json::Value;
use url::form_urlencoded;

use crate::cli::Ended;
use crate::cli::execution::{ExecutionVerb, ShowCall};
use crate::config::Config;
use crate::counter::place::Place;
use crate::counter::tables;
use crate::failure::Failure;

const EXECUTIONS: &str = "/api/executions";
/// Maximum rows of one API page.
const PAGE: usize = 200;

pub(crate) async fn execution(config: &Config, verb: &ExecutionVerb) -> Result<Ended, Failure> {
    let open = async |at| Place::open_record(config, at).await;
    let (place, done) = match verb {
        ExecutionVerb::Verify(given) => return verify::verify(&config.journal, given).await,
        ExecutionVerb::List(list) => {
            let place = open(&list.at).await?;
            let done = list::list(&place, list).await;
            (place, done)
        }
        ExecutionVerb::Show(one) => {
            let place = open(&one.at).await?;
            let done = show(&place, one).await;
            (place, done)
        }
        ExecutionVerb::Usage(of) => {
            let place = open(&of.at).await?;
            let done = usage::usage(&place, of).await;
            (place, done)
        }
        ExecutionVerb::Export(export) => {
            let place = open(&export.at).await?;
            let done = export::export(&place, &export.which).await;
            (place, done)
        }
    };
    place.close().await;
    done.map(|()| Ended::Fine)
}

async fn show(place: &Place, one: &ShowCall) -> Result<(), Failure> {
    let id: String = form_urlencoded::byte_serialize(one.id.as_bytes()).collect();
    let call = place.ask(Method::GET, &format!("{EXECUTIONS}/{id}"), None).await?.body;
    tables::show(&call, &one.json)
}

/// The first `wanted` rows of a list, page by page.
async fn pages(
    place: &Place,
    path: &str,
    pairs: Vec<(&'static str, &str)>,
    wanted: u32,
) -> Result<Vec<Value>, Failure> {
    let wanted = wanted as usize;
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    while rows.len() < wanted {
        let limit = (wanted - rows.len()).min(PAGE).to_string();
        let mut pairs = pairs.clone();
        pairs.push(("limit", &limit));
        pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let mut page = place.ask(Method::GET, &with(path, pairs), None).await?.body;
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
fn with<'a>(path: &str, pairs: impl IntoIterator<Item = (&'static str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
