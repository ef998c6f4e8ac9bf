//! Plans of a running server: sends the catalog sections of a file, and reports problems with the lines of the file.

use axum::http::{HeaderValue, Method};
use config::declared_config::DeclaredConfig;
use config::declared_config::config_document::ConfigDocument;
use config::declared_config::config_problem::{ConfigProblem, ConfigProblems};
use serde_json::{Value, json};

use super::{PlanReport, named_identities};
use crate::admin_client::admin_backend::{AdminBackend, AdminResponse, JournalAccess};
use crate::arguments::plan::PlanOptions;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;

/// The field of the request that holds the catalog sections.
const DOCUMENT_FIELD: &str = "document";

/// The plan of a running server.
pub(super) struct RemotePlan {
    pub(super) report: PlanReport,
    pub(super) document: ConfigDocument,
    server: AdminBackend,
    request: Value,
    /// The entity tag of exactly this plan.
    tag: Option<HeaderValue>,
}

pub(super) async fn fetch_report(
    config: &ProgramConfig,
    wanted: &PlanOptions,
) -> Result<(PlanReport, ConfigDocument), CliError> {
    let RemotePlan { report: told, document, .. } = request_plan(config, wanted).await?;
    Ok((told, document))
}

pub(super) async fn request_plan(
    config: &ProgramConfig,
    wanted: &PlanOptions,
) -> Result<RemotePlan, CliError> {
    let path = wanted.file.clone();
    let (declared, sections) =
        limits::run_low_priority(move || DeclaredConfig::read_with_sections(&path)).await?;
    let identities = named_identities(&wanted.identities).await?.into_iter();
    let identities: Vec<Value> =
        identities.map(|one| json!({"name": one.name, "claims": one.claims})).collect();
    let request =
        json!({DOCUMENT_FIELD: sections, "prune": wanted.prune, "identities": identities});
    let server = AdminBackend::connect(config, &wanted.at, JournalAccess::Read).await?;
    let document = declared.document;
    let (told, tag) = send_request(&server, "/api/plan", &request, None, &document).await?;
    Ok(RemotePlan { report: told, document, server, request, tag })
}

impl RemotePlan {
    /// Applies the plan; the server changes nothing if the plan would be different by now.
    pub(super) async fn apply(self) -> Result<PlanReport, CliError> {
        let Self { document, server, request, tag, .. } = self;
        let sent = send_request(&server, "/api/apply", &request, tag, &document).await;
        sent.map(|(told, _)| told)
    }
}

async fn send_request(
    server: &AdminBackend,
    path: &str,
    request: &Value,
    tag: Option<HeaderValue>,
    document: &ConfigDocument,
) -> Result<(PlanReport, Option<HeaderValue>), CliError> {
    let asked = server.send_if_match(Method::POST, path, Some(request.clone()), tag).await;
    let AdminResponse { body, tag } = asked.map_err(|failure| add_lines(failure, document))?;
    Ok((serde_json::from_value(body).map_err(CliError::UnexpectedResponse)?, tag))
}

/// Converts problems that the server reports into problems with lines, as if they had been found locally.
fn add_lines(failure: CliError, document: &ConfigDocument) -> CliError {
    let CliError::Rejected { errors, .. } = &failure else { return failure };
    let inside = |(field, message): &(String, String)| {
        let rest = field.strip_prefix(DOCUMENT_FIELD)?;
        Some(ConfigProblem::new(rest.strip_prefix('.').unwrap_or(rest), message))
    };
    let mistakes: ConfigProblems = errors.iter().filter_map(inside).collect();
    match mistakes.is_empty() || mistakes.len() < errors.len() {
        true => failure,
        false => document.to_failure(mistakes).into(),
    }
}
