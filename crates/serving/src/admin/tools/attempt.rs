//! `POST /api/tools/{id}/try`: an admin calls a tool with the claims of another identity, or previews the request.
//!
//! The call is like any other: the tool must be visible with these claims, and the call log names the admin. This gives
//! no new power: an admin could also create a policy or a key with these claims.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use model::{Claims, Outcome, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib::{CallContext, CallDoor, Identity};

use crate::agents::call::{answer, wrong_arguments};
use crate::answer::Id;
use crate::app::App;
use crate::body::Exact;
use crate::call::shown::Shown;
use crate::caller::Admin;
use crate::coming::Coming;
use crate::problem::{Code, Problem};

/// What is called, and as whom.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolAttempt")]
pub(super) struct Attempt {
    /// Its arguments, as its schema says.
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    /// Whose tools it must be one of; those of the caller if they are left out.
    #[serde(default)]
    claims: Option<Claims>,
    /// Only show the request that would be sent, without credentials.
    #[serde(default)]
    dry_run: bool,
}

/// What came of it: one of the two.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AttemptedTool")]
pub(super) struct Attempted {
    /// What came of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    /// What a dry run would have sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Shown>,
}

pub(super) async fn attempt(
    Admin(admin): Admin,
    State(app): State<App>,
    coming: Coming,
    Id(id): Id<ToolId>,
    Exact(wanted): Exact<Attempt>,
) -> Result<Json<Attempted>, Problem> {
    super::find(&app.snapshot(), &id)?;
    let identity = match wanted.claims {
        Some(claims) => as_if(&admin, claims),
        None => admin,
    };
    let view = app.crib.view_of(&identity).came_with(&identity.came_with);
    let view = view.via(coming.via(CallDoor::Rest, &identity));
    let missing =
        "whoever has these claims does not have the tool: `POST /api/access/explain` says why";
    let tool = view.find_id(&id).map_err(|_| Problem::new(Code::NotFound, missing))?;
    let arguments = wanted.arguments.unwrap_or_default();
    if wanted.dry_run {
        let request = view.request_of(&tool, arguments);
        let request = request.map_err(|failure| Problem::fields(wrong_arguments(failure)))?;
        let none = "is for tools that send one HTTP request, and this one does not";
        let request = request.ok_or_else(|| Problem::field("dry_run", none))?;
        return Ok(Json(Attempted { outcome: None, request: Some(Shown::of(&request)) }));
    }
    let outcome = view.outcome_of(&tool, arguments, &CallContext::silent()).await;
    let Json(outcome) = answer(outcome)?;
    Ok(Json(Attempted { outcome: Some(outcome), request: None }))
}

/// The admin's identity with other claims and without the admin's credentials, so that the admin's token is never
/// exchanged for another identity. The caller stays the admin: sessions, limits and the call log go by that.
fn as_if(admin: &Identity, claims: Claims) -> Identity {
    let mut identity = admin.clone();
    identity.agent.named_by = Some(admin.agent.claims.clone());
    identity.agent.claims = Arc::new(claims);
    identity.came_with = admin.came_with.without_credentials(&admin.agent);
    identity
}
