//! `POST /api/tools/{id}/try`: an admin calls a tool as somebody with other claims would, or sees what would be sent.
//!
//! It is a call like any other: found in the view of those claims, and recorded, under the name of the admin. Whoever may
//! write policies and keys could do the same with one of them.

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

/// With these claims, and nothing of what the admin came with: its token is not exchanged for somebody else's. Who the caller
/// is stays: sessions, limits and the record go by that.
fn as_if(admin: &Identity, claims: Claims) -> Identity {
    let mut identity = admin.clone();
    identity.agent.named_by = Some(admin.agent.claims.clone());
    identity.agent.claims = Arc::new(claims);
    identity.came_with = admin.came_with.without_credentials(&admin.agent);
    identity
}
