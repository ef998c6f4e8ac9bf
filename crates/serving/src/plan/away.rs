//! Plans of a running server: sends the catalog sections of a file, and reports problems with the lines of the file.

use axum::http::{HeaderValue, Method};
use serde_json::{Value, json};

use super::{Told, named};
use crate::cli::plan::Wanted;
use crate::config::Config;
use crate::counter::place::{Answered, Place, Reach};
use crate::declared::Declared;
use crate::declared::document::Document;
use crate::declared::mistake::{Mistake, Mistakes};
use crate::failure::Failure;

/// The field of the request that holds the catalog sections.
const DOCUMENT: &str = "document";

/// The plan of a running server.
pub(super) struct Planned {
    pub(super) told: Told,
    pub(super) document: Document,
    server: Place,
    request: Value,
    /// The entity tag of exactly this plan.
    tag: Option<HeaderValue>,
}

pub(super) async fn plan(config: &Config, wanted: &Wanted) -> Result<(Told, Document), Failure> {
    let Planned { told, document, .. } = ask(config, wanted).await?;
    Ok((told, document))
}

pub(super) async fn ask(config: &Config, wanted: &Wanted) -> Result<Planned, Failure> {
    let path = wanted.file.clone();
    let (declared, sections) = upstream::aside(move || Declared::read_to_send(&path)).await?;
    let identities = named(&wanted.identities).await?.into_iter();
    let identities: Vec<Value> =
        identities.map(|one| json!({"name": one.name, "claims": one.claims})).collect();
    let request = json!({DOCUMENT: sections, "prune": wanted.prune, "identities": identities});
    let server = Place::open(config, &wanted.at, Reach::Read).await?;
    let document = declared.document;
    let (told, tag) = send(&server, "/api/plan", &request, None, &document).await?;
    Ok(Planned { told, document, server, request, tag })
}

impl Planned {
    /// Applies the plan; the server changes nothing if the plan would be different by now.
    pub(super) async fn apply(self) -> Result<Told, Failure> {
        let Self { document, server, request, tag, .. } = self;
        let sent = send(&server, "/api/apply", &request, tag, &document).await;
        sent.map(|(told, _)| told)
    }
}

async fn send(
    server: &Place,
    path: &str,
    request: &Value,
    tag: Option<HeaderValue>,
    document: &Document,
) -> Result<(Told, Option<HeaderValue>), Failure> {
    let asked = server.ask_if(Method::POST, path, Some(request.clone()), tag).await;
    let Answered { body, tag } = asked.map_err(|failure| with_lines(failure, document))?;
    Ok((serde_json::from_value(body).map_err(Failure::ServerOdd)?, tag))
}

/// Converts problems that the server reports into problems with lines, as if they had been found locally.
fn with_lines(failure: Failure, document: &Document) -> Failure {
    let Failure::Refused { errors, .. } = &failure else { return failure };
    let inside = |(field, message): &(String, String)| {
        let rest = field.strip_prefix(DOCUMENT)?;
        Some(Mistake::new(rest.strip_prefix('.').unwrap_or(rest), message))
    };
    let mistakes: Mistakes = errors.iter().filter_map(inside).collect();
    match mistakes.is_empty() || mistakes.len() < errors.len() {
        true => failure,
        false => document.refuse(mistakes),
    }
}
