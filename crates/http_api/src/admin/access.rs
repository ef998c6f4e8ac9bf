//! `/api/access`: explains which identity has which tool and why, and previews changes. Read-only.

use std::collections::BTreeSet;
use std::time::Duration;

use api_types::group_body::GroupBody;
use api_types::moment_argument::MomentArgument;
use api_types::problem::Problem;
use api_types::value_reader;
use axum::Json;
use axum::extract::State;
use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::json_body::JsonBody;
use endpoint::route::ApiRoute;
use model::{Claims, GroupId, PolicyId, PolicyRules};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib::{
    AccessEffect, AccessExplanation, Command, CommandError, JournalMoment, Position, Snapshot,
};

/// A query about an earlier moment folds the journal from its first event.
const DEADLINE: Duration = Duration::from_secs(300);
/// Most groups and policies in one preview.
const MAX_PROPOSALS: usize = 1_000;
/// Most identities in one preview.
const MAX_COMPARED_IDENTITIES: usize = 100;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("explain_access", "/api/access/explain", explain_access)
            .for_admins("access", "Say which tools an identity has, and why")
            .with_body::<ExplainRequest>()
            .with_example(r#"{"claims": {"role": "staff"}, "tool": "get_pet"}"#)
            .without_idempotency_key()
            .with_deadline(DEADLINE)
            .returns_json::<AccessExplanation>(),
        ApiRoute::post("what_if", "/api/access/what-if", preview_change)
            .for_admins("access", "Say what policies and groups would change for identities")
            .with_body::<WhatIfRequest>()
            .with_example(
                r#"{"identities": [{"name": "staff", "claims": {"role": "staff"}}],
                    "groups": [{"id": "all-tools", "name": "All tools", "selectors": [{"name": "*"}]}],
                    "policies": [{"id": "staff-has-all", "name": "Staff has all", "groups": ["all-tools"],
                        "matchers": [{"claim": "role", "operator": "equals", "value": "staff"}]}]}"#,
            )
            .without_idempotency_key()
            .returns_json::<EffectList>(),
    ]
}

/// Who is asked about.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "Explain")]
struct ExplainRequest {
    /// What a token of the identity says.
    claims: Claims,
    /// Only this tool, by its id or any form of its name.
    #[serde(default)]
    tool: Option<String>,
    /// An earlier moment: a position, a time or a date.
    #[serde(default)]
    at: Option<MomentBody>,
}

/// A moment in the journal.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Moment")]
enum MomentBody {
    /// Right after this event.
    Position(u64),
    /// `2026-05-01T12:00:00Z`, `2026-05-01`, or a position.
    Text(String),
}

async fn explain_access(
    Admin(_): Admin,
    State(app): State<AppState>,
    JsonBody(asked): JsonBody<ExplainRequest>,
) -> Result<Json<AccessExplanation>, Problem> {
    let at = match asked.at {
        Some(at) => Some(parse_moment(&app, at).await?),
        None => None,
    };
    Ok(Json(app.crib.explain(&asked.claims, asked.tool.as_deref(), at).await?))
}

async fn parse_moment(app: &AppState, at: MomentBody) -> Result<JournalMoment, Problem> {
    let moment = match at {
        MomentBody::Position(position) => JournalMoment::Position(Position(position)),
        MomentBody::Text(text) => {
            let MomentArgument(moment) =
                text.parse().map_err(|error| Problem::invalid_field("at", format!("{error}")))?;
            moment
        }
    };
    let end = app.crib.catalog().journal().head_position().await?;
    match moment {
        JournalMoment::Position(position) if end < position => {
            let message = format!("is not there yet: the journal ends at {end}");
            Err(Problem::invalid_field("at", message))
        }
        JournalMoment::Position(_) | JournalMoment::Time(_) => Ok(moment),
    }
}

/// What would be changed, and who is asked about.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "WhatIf")]
struct WhatIfRequest {
    /// Whose tools are compared.
    #[schemars(length(min = 1, max = 100))]
    identities: Vec<ComparedIdentity>,
    /// Groups that would be made, or be like this.
    #[serde(default)]
    #[schemars(with = "Vec<ProposedGroup>")]
    groups: Vec<Value>,
    /// Policies that would be defined, or say this.
    #[serde(default)]
    #[schemars(with = "Vec<ProposedPolicy>")]
    policies: Vec<Value>,
    /// Policies that would be gone.
    #[serde(default)]
    delete_policies: BTreeSet<PolicyId>,
    /// Groups that would be gone.
    #[serde(default)]
    delete_groups: BTreeSet<GroupId>,
}

/// Somebody to compare the tools of.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ComparedIdentity")]
struct ComparedIdentity {
    /// For the answer.
    #[serde(default)]
    name: Option<String>,
    /// What a token of the identity says.
    claims: Claims,
}

/// A group that would be made, or be like this.
#[derive(Deserialize, JsonSchema)]
struct ProposedGroup {
    /// Of a new group, or of one that is there.
    id: GroupId,
    #[serde(flatten)]
    group: GroupBody,
    /// The admin's switch; left out, it stays as it is.
    #[serde(default)]
    is_active: Option<bool>,
}

/// A policy that would be defined, or say this.
#[derive(Deserialize, JsonSchema)]
struct ProposedPolicy {
    /// Of a new policy, or of one that is there.
    id: PolicyId,
    #[serde(flatten)]
    rules: PolicyRules,
    /// The admin's switch; left out, it stays as it is.
    #[serde(default)]
    is_active: Option<bool>,
}

/// What would change, for each identity.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Effects")]
struct EffectList {
    data: Vec<NamedEffect>,
}

/// What would change for one identity.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Effect")]
struct NamedEffect {
    /// As it was asked.
    name: Option<String>,
    #[serde(flatten)]
    effect: AccessEffect,
}

async fn preview_change(
    Admin(_): Admin,
    State(app): State<AppState>,
    JsonBody(asked): JsonBody<WhatIfRequest>,
) -> Result<Json<EffectList>, Problem> {
    if asked.identities.is_empty() || MAX_COMPARED_IDENTITIES < asked.identities.len() {
        return Err(Problem::invalid_field(
            "identities",
            format!("are 1 to {MAX_COMPARED_IDENTITIES}"),
        ));
    }
    let proposals = asked.groups.len()
        + asked.policies.len()
        + asked.delete_groups.len()
        + asked.delete_policies.len();
    if MAX_PROPOSALS < proposals {
        return Err(Problem::invalid_field(
            "",
            format!("at most {MAX_PROPOSALS} things are proposed at once"),
        ));
    }
    let (names, claims): (Vec<_>, Vec<_>) = asked
        .identities
        .iter()
        .map(|identity| (identity.name.clone(), identity.claims.clone()))
        .unzip();
    let (places, commands): (Vec<_>, Vec<_>) =
        build_commands(&app.snapshot(), asked)?.into_iter().unzip();
    let effects = match app.crib.what_if(&commands, &claims).await {
        Ok(effects) => effects,
        Err(error @ CommandError::Refused(_)) => {
            let number = first_rejected(&app, &commands).await;
            return Err(Problem::from(error).nested_under(&places[number]));
        }
        Err(error) => return Err(error.into()),
    };
    let named = names.into_iter().zip(effects);
    let data = named.map(|(name, effect)| NamedEffect { name, effect }).collect();
    Ok(Json(EffectList { data }))
}

/// Index of the first command that the catalog rejects, found by bisection; assumes that one is rejected.
async fn first_rejected(app: &AppState, commands: &[Command]) -> usize {
    let (mut good, mut bad) = (0, commands.len());
    while good + 1 < bad {
        let middle = usize::midpoint(good, bad);
        match app.crib.what_if(&commands[..middle], &[]).await {
            Ok(_) => good = middle,
            Err(_) => bad = middle,
        }
    }
    good
}

/// Reads a proposal. Deserializes the flattened part by itself first: only then can its errors report a field path.
fn parse_proposal<T: DeserializeOwned, Flattened: DeserializeOwned>(
    place: &str,
    value: &Value,
) -> Result<T, Problem> {
    let read = value_reader::deserialize_value::<Flattened>(value)
        .and_then(|_| value_reader::deserialize_value(value));
    read.map_err(|problem| problem.nested_under(place))
}

/// The commands, each with its field path in the body. Groups are created before the policies that grant them, and
/// removed after them.
fn build_commands(
    snapshot: &Snapshot,
    asked: WhatIfRequest,
) -> Result<Vec<(String, Command)>, Problem> {
    let mut commands = Vec::new();
    for (number, value) in asked.groups.iter().enumerate() {
        let place = format!("groups[{number}]");
        let ProposedGroup { id, group, is_active } = parse_proposal::<_, GroupBody>(&place, value)?;
        let new = Box::new(group.into_new_group(id.clone()));
        let is_known = snapshot.group(&id).is_some();
        let wish = if is_known { GroupCommand::Replace(new) } else { GroupCommand::Create(new) };
        commands.push((place.clone(), Command::Group(id.clone(), wish)));
        commands.extend(is_active.map(|is_active| {
            let wish = if is_active { GroupCommand::Activate } else { GroupCommand::Deactivate };
            (place, Command::Group(id, wish))
        }));
    }
    for (number, value) in asked.policies.iter().enumerate() {
        let place = format!("policies[{number}]");
        let ProposedPolicy { id, rules, is_active } =
            parse_proposal::<_, PolicyRules>(&place, value)?;
        let is_known = snapshot.policy(&id).is_some();
        let wish =
            if is_known { PolicyCommand::Update(rules) } else { PolicyCommand::Define(rules) };
        commands.push((place.clone(), Command::Policy(id.clone(), wish)));
        commands.extend(is_active.map(|is_active| {
            let wish = if is_active { PolicyCommand::Activate } else { PolicyCommand::Deactivate };
            (place, Command::Policy(id, wish))
        }));
    }
    for id in asked.delete_policies {
        let command = Command::Policy(id, PolicyCommand::Delete);
        commands.push(("delete_policies".to_owned(), command));
    }
    for id in asked.delete_groups {
        commands.push(("delete_groups".to_owned(), Command::Group(id, GroupCommand::Delete)));
    }
    Ok(commands)
}
