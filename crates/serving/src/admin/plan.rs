//! `/api/plan` and `/api/apply`: compares the catalog with a configuration document, and applies the difference. The
//! client has read the file; the server reads no files for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use model::Claims;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use toolcrib::{CommandError, JournalError, Snapshot};

use super::sources;
use crate::answer::Seen;
use crate::app::App;
use crate::body::Body;
use crate::caller::Admin;
use crate::change::Change;
use crate::declared::entry::{self, Entry};
use crate::declared::mistake::{Mistake, Mistakes};
use crate::declared::{Declared, LIMIT};
use crate::etag::Tag;
use crate::plan::{NotPlanned, Plan, Told, identities};
use crate::problem::{Code, FieldError, Problem};
use crate::route::Route;

/// Comparing many identities takes long.
const DEADLINE: Duration = Duration::from_secs(300);
/// Most named identities, in the request and the document together.
const IDENTITIES: usize = 1_000;
/// At most one plan is computed at a time.
static PLANS: Semaphore = Semaphore::const_new(1);
/// Most errors in one answer.
const MOST_MISTAKES: usize = 50;

const EXAMPLE: &str =
    r#"{"document": {"labels": [{"id": "careful", "name": "Careful"}]}, "prune": false}"#;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::post("plan_config", "/api/plan", plan)
            .admin("config", "Say what a configuration would change, and for whom")
            .takes::<Wanted>()
            .like(EXAMPLE)
            .without_key()
            .up_to(LIMIT as usize)
            .within(DEADLINE)
            .answers::<Told>(),
        Route::post("apply_config", "/api/apply", apply)
            .admin(
                "config",
                "Make the catalog as a configuration declares it, all of it or nothing",
            )
            .takes::<Wanted>()
            .like(EXAMPLE)
            .without_key()
            .if_unchanged()
            .up_to(LIMIT as usize)
            .within(DEADLINE)
            .answers_plain::<Told>(),
    ]
}

/// What is wanted.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "WantedConfiguration")]
struct Wanted {
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

async fn plan(
    Admin(_): Admin,
    State(app): State<App>,
    Body(wanted): Body<Wanted>,
) -> Result<Seen<Told>, Problem> {
    let Plan { told, .. } = make(&app, wanted).await?;
    Ok(Seen { tag: tag(&told), body: told })
}

async fn apply(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    Body(wanted): Body<Wanted>,
) -> Result<Json<Told>, Problem> {
    let Plan { mut told, supposed } = make(&app, wanted).await?;
    if !change.condition.holds(tag(&told)) {
        return Err(overtaken());
    }
    if !supposed.is_empty() {
        let done = app.crib.catalog().carry_out(supposed, change.context(&identity)).await;
        told.position = done.map_err(|error| match error {
            CommandError::Journal(JournalError::Conflict { .. }) => overtaken(),
            other => other.into(),
        })?;
    }
    Ok(Json(told))
}

/// Covers the changes, not the time of the plan.
fn tag(told: &Told) -> Tag {
    Tag::of(&told.changes)
}

fn overtaken() -> Problem {
    let detail =
        "somebody has changed the catalog since the plan was made: nothing was applied; plan again";
    Problem::new(Code::PreconditionFailed, detail)
}

async fn make(app: &App, wanted: Wanted) -> Result<Plan, Problem> {
    let Wanted { document, prune, identities: given } = wanted;
    let named = given
        .into_iter()
        .map(|NamedIdentity { name, claims }| entry::Identity { name, claims: Arc::new(claims) });
    let read = move || Declared::of_sections(Value::Object(document));
    let declared = upstream::aside(read).await.map_err(refused)?;
    let snapshot = app.snapshot();
    let wrong = not_here(app, &snapshot, &declared);
    if !wrong.is_empty() {
        return Err(refused(wrong));
    }
    let all = declared.identities.len() + named.len();
    if IDENTITIES < all {
        let message = format!("are at most {IDENTITIES}, with those of the document");
        return Err(Problem::field("identities", message));
    }
    let identities = identities(&snapshot, &declared, named.collect());
    let crib = app.crib.clone();
    let turn = PLANS.acquire().await.ok();
    let runtime = tokio::runtime::Handle::current();
    // Planning with many tools takes long; keep it off the request threads.
    let planning = tokio::task::spawn_blocking(move || {
        runtime.block_on(Plan::make(crib.catalog(), &declared, prune, identities))
    });
    let plan = planning.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    drop(turn);
    let mut plan = plan.map_err(|not_planned| match not_planned {
        NotPlanned::Refused(mistakes) => refused(mistakes),
        NotPlanned::Failed(error) => error.into(),
    })?;
    if let Some(followed) = app.followed.get() {
        let message = format!(
            "this server follows `{}`: what that says otherwise comes back when it changes",
            followed.now().file
        );
        plan.told.notes.push(Mistake::new("", message));
    }
    Ok(plan)
}

/// Sources that this server does not let admins register. Sources that exist already with this profile are accepted.
fn not_here(app: &App, snapshot: &Snapshot, declared: &Declared) -> Mistakes {
    let mut mistakes = Mistakes::new();
    for Entry { field, id, rest: profile, .. } in declared.sources.iter().flatten() {
        let is_known = snapshot.source(id).is_some_and(|entry| entry.source.profile == *profile);
        if !is_known && let Err(problem) = sources::check(app, profile) {
            mistakes.extend(Mistake::all_of(problem, field));
        }
    }
    mistakes
}

fn refused(mistakes: Mistakes) -> Problem {
    let errors = mistakes.into_iter().take(MOST_MISTAKES).map(|mistake| {
        let Mistake { field, message } = mistake.under("document");
        FieldError { field, message }
    });
    Problem::fields(errors.collect())
}
