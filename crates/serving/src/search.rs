//! `toolcrib search`: prints the results of a search, for an identity or among all tools.

use axum::http::Method;
use serde_json::{Value, json};

use crate::cli::Ended;
use crate::cli::search::Search;
use crate::config::Config;
use crate::counter::place::{Place, Reach};
use crate::counter::tables;
use crate::explain;
use crate::failure::Failure;

pub(crate) async fn search(config: &Config, given: &Search) -> Result<Ended, Failure> {
    let claims = match &given.claims {
        Some(claims) => Some(explain::claims(claims).await?),
        None => None,
    };
    let asked = json!({"query": given.words.join(" "), "claims": claims, "limit": given.limit});
    let place = Place::open(config, &given.at, Reach::Read).await?;
    let answered = place.ask(Method::POST, "/api/access/search", Some(asked)).await;
    place.close().await;
    let found = match answered?.body["data"].take() {
        Value::Array(found) => found,
        _ => Vec::new(),
    };
    tables::found(&found, &given.json)?;
    Ok(Ended::Fine)
}
