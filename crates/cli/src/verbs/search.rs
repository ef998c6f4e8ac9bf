//! `toolcrib search`: prints the results of a search, for an identity or among all tools.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin_client::admin_backend::{AdminBackend, JournalAccess};
use crate::admin_client::entity_tables;
use crate::arguments::VerbOutcome;
use crate::arguments::search::SearchArgs;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::verbs::explain;

pub(crate) async fn search_tools(
    config: &ProgramConfig,
    given: &SearchArgs,
) -> Result<VerbOutcome, CliError> {
    let claims = match &given.claims {
        Some(claims) => Some(explain::read_claims(claims).await?),
        None => None,
    };
    let asked = json!({"query": given.words.join(" "), "claims": claims, "limit": given.limit});
    let place = AdminBackend::connect(config, &given.at, JournalAccess::Read).await?;
    let answered = place.send(Method::POST, "/api/access/search", Some(asked)).await;
    place.close().await;
    let found = match answered?.body["data"].take() {
        Value::Array(found) => found,
        _ => Vec::new(),
    };
    entity_tables::print_search_results(&found, &given.json)?;
    Ok(VerbOutcome::Success)
}
