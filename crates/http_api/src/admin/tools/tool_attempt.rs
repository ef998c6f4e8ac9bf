//! `POST /api/tools/{id}/try`: an admin calls a tool with the claims of another identity, or previews the request.
//!
//! The call is like any other: the tool must be visible with these claims, and the call log names the admin. This gives
//! no new power: an admin could also create a policy or a key with these claims.

use std::sync::Arc;

use api_types::problem::{Problem, ProblemCode};
use api_types::request_preview::RequestPreview;
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::json_body::ExactJsonBody;
use endpoint::request_context::RequestContext;
use endpoint::responses::PathId;
use model::{Claims, Outcome, ToolId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib::{CallContext, CallEndpoint, CallerIdentity};

use crate::agents::agent_call::{argument_errors, outcome_response};

/// What is called, and as whom.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ToolAttempt")]
pub(super) struct ToolAttempt {
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
pub(super) struct AttemptResult {
    /// What came of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    /// What a dry run would have sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<RequestPreview>,
}

pub(super) async fn try_tool(
    Admin(admin): Admin,
    State(app): State<AppState>,
    coming: RequestContext,
    PathId(id): PathId<ToolId>,
    ExactJsonBody(wanted): ExactJsonBody<ToolAttempt>,
) -> Result<Json<AttemptResult>, Problem> {
    super::find_tool(&app.snapshot(), &id)?;
    let identity = match wanted.claims {
        Some(claims) => with_claims(&admin, claims),
        None => admin,
    };
    let view = app
        .crib
        .view_for_identity(&identity)
        .with_request_credentials(&identity.request_credentials);
    let view = view.with_via(coming.via_endpoint(CallEndpoint::Rest, &identity));
    let missing =
        "whoever has these claims does not have the tool: `POST /api/access/explain` says why";
    let tool = view.find_by_id(&id).map_err(|_| Problem::new(ProblemCode::NotFound, missing))?;
    let arguments = wanted.arguments.unwrap_or_default();
    if wanted.dry_run {
        let request = view.preview_request(&tool, arguments);
        let request =
            request.map_err(|failure| Problem::invalid_fields(argument_errors(failure)))?;
        let none = "is for tools that send one HTTP request, and this one does not";
        let request = request.ok_or_else(|| Problem::invalid_field("dry_run", none))?;
        return Ok(Json(AttemptResult {
            outcome: None,
            request: Some(RequestPreview::from_request(&request)),
        }));
    }
    let outcome = view.call_for_outcome(&tool, arguments, &CallContext::silent()).await;
    let Json(outcome) = outcome_response(outcome)?;
    Ok(Json(AttemptResult { outcome: Some(outcome), request: None }))
}

/// The admin's identity with other claims and without the admin's credentials, so that the admin's token is never
/// exchanged for another identity. The caller stays the admin: sessions, limits and the call log go by that.
fn with_claims(admin: &CallerIdentity, claims: Claims) -> CallerIdentity {
    let mut identity = admin.clone();
    identity.agent.caller_claims = Some(admin.agent.claims.clone());
    identity.agent.claims = Arc::new(claims);
    identity.request_credentials = admin.request_credentials.without_credentials(&admin.agent);
    identity
}
