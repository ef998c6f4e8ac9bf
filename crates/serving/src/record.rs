//! `toolcrib execution …`: the record of calls, by the routes of the API. It is checked where it lies.

mod export;
mod list;
mod verify;

use axum::http::Method;
use url::form_urlencoded;

use crate::cli::Ended;
use crate::cli::execution::{CallsOf, ExecutionVerb, ShowCall};
use crate::config::Config;
use crate::counter::place::Place;
use crate::counter::tables;
use crate::failure::Failure;

const EXECUTIONS: &str = "/api/executions";

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
            let done = usage(&place, of).await;
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

async fn usage(place: &Place, of: &CallsOf) -> Result<(), Failure> {
    let named = [("tool", &of.tool), ("subject", &of.subject)];
    let named = named.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let usage = place.ask(Method::GET, &with(&format!("{EXECUTIONS}/usage"), named), None).await?;
    tables::show(&usage.body, &of.json)
}

/// A path with a query.
fn with<'a>(path: &str, pairs: impl IntoIterator<Item = (&'static str, &'a str)>) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
