//! `/api/whoami`: how the server identifies the caller.

use axum::Json;
use axum::extract::State;
use model::Claims;
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib::Means;

use crate::app::App;
use crate::caller::Caller;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("whoami", "/api/whoami", whoami)
            .agent("about", "Say who the caller is")
            .answers_plain::<Whoami>(),
    ]
}

/// Who is calling.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Whoami")]
struct Whoami {
    /// Who it is, for the record.
    subject: String,
    /// What was shown: `key`, `token` or `nothing`.
    means: &'static str,
    /// Whether the caller may change the catalog.
    is_admin: bool,
    /// What policies see of it.
    claims: Claims,
}

async fn whoami(Caller(identity): Caller, State(app): State<App>) -> Json<Whoami> {
    Json(Whoami {
        means: match identity.means {
            Means::Key { .. } => "key",
            Means::Token => "token",
            Means::Nothing => "nothing",
        },
        is_admin: app.crib.is_admin(&identity),
        subject: identity.agent.subject.to_string(),
        claims: Claims::clone(&identity.agent.claims),
    })
}
