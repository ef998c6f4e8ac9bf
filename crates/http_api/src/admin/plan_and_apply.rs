//! `/api/plan` and `/api/apply`: compares the catalog with a configuration document, and applies the difference. The
//! client has read the file; the server reads no files for it.

use std::sync::Arc;
use std::time::Duration;

use api_types::problem::{FieldError, Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use config::config_plan::{ConfigPlan, PlanError, PlanReport, all_identities};
use config::declared_config::config_problem::{ConfigProblem, ConfigProblems};
use config::declared_config::section_entries::EntityDeclaration;
use config::declared_config::{DeclaredConfig, MAX_CONFIG_BYTES, section_entries};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::JsonBody;
use endpoint::responses::TaggedResponse;
use endpoint::route::ApiRoute;
use model::Claims;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use toolcrib::{CommandError, JournalError, Snapshot};

use super::sources;
use crate::change_request::ChangeRequest;

/// Comparing many identities takes long.
const DEADLINE: Duration = Duration::from_secs(300);
/// Most named identities, in the request and the document together.
const MAX_PLAN_IDENTITIES: usize = 1_000;
/// At most one plan is computed at a time.
static PLAN_PERMIT: Semaphore = Semaphore::const_new(1);
/// Most errors in one answer.
const MAX_MISTAKES: usize = 50;

const EXAMPLE: &str =
    r#"{"document": {"labels": [{"id": "careful", "name": "Careful"}]}, "prune": false}"#;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("plan_config", "/api/plan", plan_config)
            .for_admins("config", "Say what a configuration would change, and for whom")
            .with_body::<PlanRequest>()
            .with_example(EXAMPLE)
            .without_idempotency_key()
            .with_body_limit(MAX_CONFIG_BYTES as usize)
            .with_deadline(DEADLINE)
            .returns_tagged::<PlanReport>(),
        ApiRoute::post("apply_config", "/api/apply", apply_config)
            .for_admins(
                "config",
                "Make the catalog as a configuration declares it, all of it or nothing",
            )
            .with_body::<PlanRequest>()
            .with_example(EXAMPLE)
            .without_idempotency_key()
            .with_precondition()
            .with_body_limit(MAX_CONFIG_BYTES as usize)
            .with_deadline(DEADLINE)
            .returns_json::<PlanReport>(),
    ]
}

/// What is wanted.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "WantedConfiguration")]
struct PlanRequest {
    /// What a configuration file says of the catalog: `sources`, `labels`, `tools`, `groups`, `policies` and
    /// `identities`, as `toolcrib config schema` describes them.
    document: Map<String, Value>,
    /// Whether what the document does not name is removed, in the sections it has.
    #[serde(default)]
    prune: bool,
    /// Whose tools are compared, beside the holders of API keys and the `identities` of the document.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    identities: Vec<NamedIdentity>,
}

/// Somebody whose tools are compared.
#[derive(Deserialize, JsonSchema)]
struct NamedIdentity {
    /// For the answer.
    name: String,
    /// What a token of the identity says.
    claims: Claims,
}

async fn plan_config(
    Admin(_): Admin,
    State(app): State<AppState>,
    JsonBody(wanted): JsonBody<PlanRequest>,
) -> Result<TaggedResponse<PlanReport>, Problem> {
    let ConfigPlan { report: told, .. } = make_plan(&app, wanted).await?;
    Ok(TaggedResponse { tag: plan_tag(&told), body: told })
}

async fn apply_config(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    JsonBody(wanted): JsonBody<PlanRequest>,
) -> Result<Json<PlanReport>, Problem> {
    let ConfigPlan { report: mut told, supposed } = make_plan(&app, wanted).await?;
    if !change.condition.is_satisfied_by(plan_tag(&told)) {
        return Err(conflict_problem());
    }
    if !supposed.is_empty() {
        let done =
            app.crib.catalog().execute_plan(supposed, change.command_context(&identity)).await;
        told.position = done.map_err(|error| match error {
            CommandError::Journal(JournalError::Conflict { .. }) => conflict_problem(),
            other => other.into(),
        })?;
    }
    Ok(Json(told))
}

/// Covers the changes, not the time of the plan.
fn plan_tag(told: &PlanReport) -> EntityTag {
    EntityTag::of_state(&told.changes)
}

fn conflict_problem() -> Problem {
    let detail =
        "somebody has changed the catalog since the plan was made: nothing was applied; plan again";
    Problem::new(ProblemCode::PreconditionFailed, detail)
}

async fn make_plan(app: &AppState, wanted: PlanRequest) -> Result<ConfigPlan, Problem> {
    let PlanRequest { document, prune, identities: given } = wanted;
    let named = given.into_iter().map(|NamedIdentity { name, claims }| {
        section_entries::PlanIdentity { name, claims: Arc::new(claims) }
    });
    let read = move || DeclaredConfig::from_sections(Value::Object(document));
    let declared = limits::run_low_priority(read).await.map_err(problem_from_mistakes)?;
    let snapshot = app.snapshot();
    let wrong = disallowed_sources(app, &snapshot, &declared);
    if !wrong.is_empty() {
        return Err(problem_from_mistakes(wrong));
    }
    let all = declared.identities.len() + named.len();
    if MAX_PLAN_IDENTITIES < all {
        let message = format!("are at most {MAX_PLAN_IDENTITIES}, with those of the document");
        return Err(Problem::invalid_field("identities", message));
    }
    let identities = all_identities(&snapshot, &declared, named.collect());
    let crib = app.crib.clone();
    let turn = PLAN_PERMIT.acquire().await.ok();
    let runtime = tokio::runtime::Handle::current();
    // Planning with many tools takes long; keep it off the request threads.
    let planning = tokio::task::spawn_blocking(move || {
        runtime.block_on(ConfigPlan::compute(crib.catalog(), &declared, prune, identities))
    });
    let plan = planning.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    drop(turn);
    let mut plan = plan.map_err(|not_planned| match not_planned {
        PlanError::Rejected(mistakes) => problem_from_mistakes(mistakes),
        PlanError::Failed(error) => error.into(),
    })?;
    if let Some(followed) = app.config_follower.get() {
        let message = format!(
            "this server follows `{}`: what that says otherwise comes back when it changes",
            followed.current_status().file
        );
        plan.report.notes.push(ConfigProblem::new("", message));
    }
    Ok(plan)
}

/// Sources that this server does not let admins register. Sources that exist already with this profile are accepted.
fn disallowed_sources(
    app: &AppState,
    snapshot: &Snapshot,
    declared: &DeclaredConfig,
) -> ConfigProblems {
    let mut mistakes = ConfigProblems::new();
    for EntityDeclaration { field, id, body: profile, .. } in declared.sources.iter().flatten() {
        let is_known = snapshot.source(id).is_some_and(|entry| entry.source.profile == *profile);
        if !is_known && let Err(problem) = sources::check_profile(app, profile) {
            mistakes.extend(ConfigProblem::from_problem(problem, field));
        }
    }
    mistakes
}

fn problem_from_mistakes(mistakes: ConfigProblems) -> Problem {
    let errors = mistakes.into_iter().take(MAX_MISTAKES).map(|mistake| {
        let ConfigProblem { field, message } = mistake.under_field("document");
        FieldError { field, message }
    });
    Problem::invalid_fields(errors.collect())
}
