//! `/api/policies`: policies, which grant groups to identities whose claims match.

use api_types::problem::Problem;
use axum::Json;
use axum::extract::State;
use catalog::policy::{Policy, PolicyCommand};
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::etag::EntityTag;
use endpoint::json_body::{CreateBody, JsonBody};
use endpoint::pagination::{ListPage, PageQuery};
use endpoint::query_params::QueryParams;
use endpoint::responses::{CreatedResponse, PathId, RemovalBody, TaggedResponse};
use endpoint::route::ApiRoute;
use jiff::Timestamp;
use model::{PolicyId, PolicyRules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib::{Command, Snapshot};

use super::id_or_from_name;
use crate::change_request::ChangeRequest;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("list_policies", "/api/policies", list_policies)
            .for_admins("policies", "List policies, those of the highest priority first")
            .with_query::<PolicyFilter>()
            .returns_json::<ListPage<PolicyResponse>>(),
        ApiRoute::post("define_policy", "/api/policies", define_policy)
            .for_admins("policies", "Define a policy")
            .with_body::<CreateBody<PolicyId, PolicyRules>>()
            .with_example(
                r#"{"name": "Staff may read", "groups": ["read-pets"],
                    "matchers": [{"claim": "realm_access.roles", "operator": "contains", "value": "staff"}]}"#,
            )
            .returns_created::<PolicyResponse>(),
        ApiRoute::get("get_policy", "/api/policies/{id}", get_policy)
            .for_admins("policies", "Show a policy")
            .returns_tagged::<PolicyResponse>(),
        ApiRoute::put("update_policy", "/api/policies/{id}", update_policy)
            .for_admins("policies", "Change a policy")
            .with_body::<PolicyRules>()
            .returns_tagged::<PolicyResponse>(),
        ApiRoute::delete("delete_policy", "/api/policies/{id}", delete_policy)
            .for_admins("policies", "Delete a policy")
            .returns_json::<RemovalBody>(),
        ApiRoute::post("activate_policy", "/api/policies/{id}/activate", activate_policy)
            .for_admins("policies", "Let a policy grant")
            .returns_tagged::<PolicyResponse>(),
        ApiRoute::post("deactivate_policy", "/api/policies/{id}/deactivate", deactivate_policy)
            .for_admins("policies", "Let a policy grant nothing")
            .returns_tagged::<PolicyResponse>(),
    ]
}

/// Which policies.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "PolicyFilter")]
struct PolicyFilter {
    #[serde(flatten)]
    paging: PageQuery,
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
struct PolicyResponse {
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

impl PolicyResponse {
    fn from_policy(policy: &Policy) -> Self {
        let Policy { id, rules, active, created_at, updated_at, .. } = policy.clone();
        Self { id, rules, is_active: active, created_at, updated_at }
    }
}

fn policy_tag(policy: &Policy) -> EntityTag {
    EntityTag::of_state(&(&policy.rules, policy.active))
}

fn policy_tag_in<'a>(id: &'a PolicyId) -> impl Fn(&Snapshot) -> Option<EntityTag> + 'a {
    |snapshot| snapshot.policy(id).map(|policy| policy_tag(policy))
}

fn show_policy(app: &AppState, id: &PolicyId) -> Result<TaggedResponse<PolicyResponse>, Problem> {
    let snapshot = app.snapshot();
    let policy = snapshot.policy(id).ok_or_else(|| Problem::not_found("policy", id.as_str()))?;
    Ok(TaggedResponse { tag: policy_tag(policy), body: PolicyResponse::from_policy(policy) })
}

/// Sorts the highest priority first, then by id.
fn policy_sort_key(policy: &Policy) -> String {
    format!("{:010} {}", u32::MAX - policy.rules.priority, policy.id)
}

async fn list_policies(
    Admin(_): Admin,
    State(app): State<AppState>,
    QueryParams(filter): QueryParams<PolicyFilter>,
) -> Result<Json<ListPage<PolicyResponse>>, Problem> {
    let snapshot = app.snapshot();
    let wanted = snapshot.policies().filter(|policy| {
        let rules = &policy.rules;
        let grants = |id: &String| rules.groups().iter().any(|group| group.as_str() == id);
        filter.paging.matches_search(policy.id.as_str(), rules.name.as_str())
            && filter.active.is_none_or(|active| policy.active == active)
            && filter.admin.is_none_or(|admin| rules.makes_admins() == admin)
            && filter.group.as_ref().is_none_or(grants)
    });
    filter
        .paging
        .take_page(
            wanted,
            |policy| policy_sort_key(policy),
            |policy| PolicyResponse::from_policy(policy),
        )
        .map(Json)
}

async fn define_policy(
    Admin(identity): Admin,
    State(app): State<AppState>,
    change: ChangeRequest,
    new: CreateBody<PolicyId, PolicyRules>,
) -> Result<CreatedResponse<PolicyResponse>, Problem> {
    let id = id_or_from_name(new.id, &new.content.name)?;
    let command = Command::Policy(id.clone(), PolicyCommand::Define(new.content));
    change.execute_command(&app, &identity, command, policy_tag_in(&id)).await?;
    CreatedResponse::at_location(format!("/api/policies/{id}"), show_policy(&app, &id))
}

async fn get_policy(
    Admin(_): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<PolicyId>,
) -> Result<TaggedResponse<PolicyResponse>, Problem> {
    show_policy(&app, &id)
}

async fn update_policy(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<PolicyId>,
    change: ChangeRequest,
    JsonBody(rules): JsonBody<PolicyRules>,
) -> Result<TaggedResponse<PolicyResponse>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Update(rules));
    change.execute_command(&app, &identity, command, policy_tag_in(&id)).await?;
    show_policy(&app, &id)
}

async fn activate_policy(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<PolicyId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<PolicyResponse>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Activate);
    change.execute_command(&app, &identity, command, policy_tag_in(&id)).await?;
    show_policy(&app, &id)
}

async fn deactivate_policy(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<PolicyId>,
    change: ChangeRequest,
) -> Result<TaggedResponse<PolicyResponse>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Deactivate);
    change.execute_command(&app, &identity, command, policy_tag_in(&id)).await?;
    show_policy(&app, &id)
}

async fn delete_policy(
    Admin(identity): Admin,
    State(app): State<AppState>,
    PathId(id): PathId<PolicyId>,
    change: ChangeRequest,
) -> Result<Json<RemovalBody>, Problem> {
    let command = Command::Policy(id.clone(), PolicyCommand::Delete);
    let executed = change.execute_command(&app, &identity, command, policy_tag_in(&id)).await?;
    Ok(RemovalBody::from_answer(&id, &executed.answer))
}
