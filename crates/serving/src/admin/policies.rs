//! `/api/policies`: policies, which grant groups to identities whose claims match.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use model::{PolicyId, PolicyRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::policy::{Policy, PolicyCommand};
use toolcrib::{Command, Snapshot};

use super::id_for;
use crate::answer::{Id, Made, Removed, Seen};
use crate::app::App;
use crate::body::{Body, New};
use crate::caller::Admin;
use crate::change::Change;
use crate::etag::Tag;
use crate::page::{Page, Paging};
use crate::problem::Problem;
use crate::query::Asked;
use crate::route::Route;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("list_policies", "/api/policies", list)
            .admin("policies", "List policies, those of the highest priority first")
            .asks::<Filter>()
            .answers_plain::<Page<SeenPolicy>>(),
        Route::post("define_policy", "/api/policies", define)
            .admin("policies", "Define a policy")
            .takes::<New<PolicyId, PolicyRules>>()
            .like(
                r#"{"name": "Staff may read", "groups": ["read-pets"],
                    "matchers": [{"claim": "realm_access.roles", "operator": "contains", "value": "staff"}]}"#,
            )
            .makes::<SeenPolicy>(),
        Route::get("get_policy", "/api/policies/{id}", get)
            .admin("policies", "Show a policy")
            .answers::<SeenPolicy>(),
        Route::put("update_policy", "/api/policies/{id}", update)
            .admin("policies", "Change a policy")
            .takes::<PolicyRules>()
            .answers::<SeenPolicy>(),
        Route::delete("delete_policy", "/api/policies/{id}", delete)
            .admin("policies", "Delete a policy")
            .answers_plain::<Removed>(),
        Route::post("activate_policy", "/api/policies/{id}/activate", activate)
            .admin("policies", "Let a policy grant")
            .answers::<SeenPolicy>(),
        Route::post("deactivate_policy", "/api/policies/{id}/deactivate", deactivate)
            .admin("policies", "Let a policy grant nothing")
            .answers::<SeenPolicy>(),
    ]
}

/// Which policies.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "PolicyFilter")]
struct Filter {
    #[serde(flatten)]
    paging: Paging,
    /// Only those that are active, or only the others.
    #[serde(default)]
    active: Option<bool>,
    /// Only those that make admins, or only the others.
    #[serde(default)]
    admin: Option<bool>,
    /// Only those that grant this group.
    #[serde(default)]
    group: Option<String>,
}

/// A policy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Policy")]
struct SeenPolicy {
    /// For ever.
    id: PolicyId,
    #[serde(flatten)]
    rules: PolicyRules,
    /// The admin's switch.
    is_active: bool,
    /// When it was defined.
    created_at: Timestamp,
    /// When it last changed.
    updated_at: Timestamp,
}

impl SeenPolicy {
    fn of(policy: &Policy) -> Self {
        let Policy { id, rules, active, created_at, updated_at, .. } = policy.clone();
        Self { id, rules, is_active: active, created_at, updated_at }
    }
}

fn tag(policy: &Policy) -> Tag {
    Tag::of(&(&policy.rules, policy.active))
}

fn tag_in<'a>(id: &'a PolicyId) -> impl Fn(&Snapshot) -> Option<Tag> + 'a {
    |snapshot| snapshot.policy(id).map(|policy| tag(policy))
}

fn seen(app: &App, id: &PolicyId) -> Result<Seen<SeenPolicy>, Problem> {
    let snapshot = app.snapshot();
    let policy = snapshot.policy(id).ok_or_else(|| Problem::not_found("policy", id.as_str()))?;
    Ok(Seen { tag: tag(policy), body: SeenPolicy::of(policy) })
}

/// Sorts the highest priority first, then by id.
fn order(policy: &Policy) -> String {
    format!("{:010} {}", u32::MAX - policy.rules.priority, policy.id)
}

async fn list(
    Admin(_): Admin,
    State(app): State<App>,
    Asked(filter): Asked<Filter>,
) -> Result<Json<Page<SeenPolicy>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.policies().filter(|policy| {
        let rules = &policy.rules;
        let grants = |id: &String| rules.groups().iter().any(|group| group.as_str() == id);
        filter.paging.finds(policy.id.as_str(), rules.name.as_str())
            && filter.active.is_none_or(|active| policy.active == active)
            && filter.admin.is_none_or(|admin| rules.makes_admins() == admin)
            && filter.group.as_ref().is_none_or(grants)
    });
    filter.paging.of(wanted, |policy| order(policy), |policy| SeenPolicy::of(policy)).map(Json)
}

async fn define(
    Admin(identity): Admin,
    State(app): State<App>,
    change: Change,
    new: New<PolicyId, PolicyRules>,
) -> Result<Made<SeenPolicy>, Problem> {
    let id = id_for(new.id, &new.rest.name)?;
    let command = Command::Policy(id.clone(), PolicyCommand::Define(new.rest));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    Made::at(format!("/api/policies/{id}"), seen(&app, &id))
}

async fn get(
    Admin(_): Admin,
    State(app): State<App>,
    Id(id): Id<PolicyId>,
) -> Result<Seen<SeenPolicy>, Problem> {
    seen(&app, &id)
}

async fn update(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<PolicyId>,
    change: Change,
    Body(rules): Body<PolicyRules>,
) -> Result<Seen<SeenPolicy>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Update(rules));
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn activate(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<PolicyId>,
    change: Change,
) -> Result<Seen<SeenPolicy>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Activate);
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn deactivate(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<PolicyId>,
    change: Change,
) -> Result<Seen<SeenPolicy>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Deactivate);
    change.make(&app, &identity, command, tag_in(&id)).await?;
    seen(&app, &id)
}

async fn delete(
    Admin(identity): Admin,
    State(app): State<App>,
    Id(id): Id<PolicyId>,
    change: Change,
) -> Result<Json<Removed>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Delete);
    let executed = change.make(&app, &identity, command, tag_in(&id)).await?;
    Ok(Removed::of(&id, &executed.answer))
}
