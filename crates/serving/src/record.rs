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
    let at = match verb {
        ExecutionVerb::Verify(format) => return verify::verify(&config.journal, format).await,
        ExecutionVerb::List(list) => &list.at,
        ExecutionVerb::Show(one) => &one.at,
        ExecutionVerb::Usage(of) => &of.at,
        ExecutionVerb::Export(export) => &export.at,
    };
    let place = Place::open_record(config, at).await?;
    let done = match verb {
        ExecutionVerb::List(list) => list::list(&place, list).await,
        ExecutionVerb::Show(one) => show(&place, one).await,
        ExecutionVerb::Usage(of) => usage(&place, of).await,
        ExecutionVerb::Export(export) => export::export(&place, &export.which).await,
        ExecutionVerb::Verify(_) => Ok(()),
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
