//! The product under test: receives the changes of a case as commands.
//!
//! Values that are validated on parsing, such as selectors and matchers, are passed as JSON, as an admin would send
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::bail;
use catalog::group::GroupCommand;
use catalog::journal::MemoryJournal;
use catalog::label::LabelCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::{ToolCommand, ToolOverride};
use catalog::{Catalog, Command, CommandError};
use model::{
    Agent, Claims, CustomSettings, Digest, Execution, GroupExclusion, Inventory, SourceSettings,
    ToolId, Trust,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::{
    AccessEffect, AccessExplanation, AgentView, AuthMethod, CallerIdentity, ChangeContext,
    SystemClock, Toolcrib, ToolcribOptions, explain_access,
};
use upstream::egress::EgressPolicy;
use upstream::http::HttpClient;

use super::world::{
    GroupChange, LabelChange, PolicyChange, SourceChange, ToolChange, WorldChange, WorldManifest,
    WorldPolicyRules, WorldSourceProfile, WorldVisibility,
};
use super::world_changes::ChangeRefusal;

/// A toolcrib with its own in-memory catalog.
pub(super) struct ProductUnderTest {
    crib: Toolcrib,
}

impl ProductUnderTest {
    pub(super) async fn start() -> anyhow::Result<Self> {
        thread_local! {
            // Shared because it is expensive to create. It never sends a request.
            static CLIENT: HttpClient =
                HttpClient::new(EgressPolicy { allow_private: false, allowed: Vec::new() });
        }
        let journal = MemoryJournal::new(Arc::new(SystemClock));
        let catalog = Arc::new(Catalog::open(Arc::new(journal)).await?);
        let client = CLIENT.with(HttpClient::clone);
        Ok(Self { crib: Toolcrib::new(catalog, client, SystemClock, ToolcribOptions::default()) })
    }

    pub(super) fn to_identity(claims: &Value) -> anyhow::Result<CallerIdentity> {
        let agent = Agent::new("somebody", Arc::new(convert_json(claims)?));
        Ok(CallerIdentity { agent, auth_method: AuthMethod::Token, ..CallerIdentity::anonymous() })
    }

    pub(super) fn view(&self, identity: &CallerIdentity) -> AgentView {
        self.crib.view(&identity.agent)
    }

    pub(super) fn is_admin(&self, identity: &CallerIdentity) -> bool {
        self.crib.is_admin(identity)
    }

    /// Executes the change. An error means that something is broken; a refusal is the inner result.
    pub(super) async fn apply_change(
        &self,
        wish: &WorldChange,
    ) -> anyhow::Result<Result<(), ChangeRefusal>> {
        let Ok(command) = self.to_command(wish)? else { return Ok(Err(ChangeRefusal)) };
        let context = ChangeContext::by_actor("agreement");
        separate_refusal(self.crib.catalog().execute(command, context, None).await.map(drop))
    }

    /// The effect that the change would have on these agents.
    pub(super) async fn what_if(
        &self,
        wish: &WorldChange,
        identities: &[CallerIdentity],
    ) -> anyhow::Result<Result<Vec<AccessEffect>, ChangeRefusal>> {
        let Ok(command) = self.to_command(wish)? else { return Ok(Err(ChangeRefusal)) };
        let claims: Vec<_> =
            identities.iter().map(|identity| Claims::clone(&identity.agent.claims)).collect();
        separate_refusal(self.crib.what_if(&[command], &claims).await)
    }

    pub(super) fn explain(&self, identity: &CallerIdentity, tool: &str) -> AccessExplanation {
        explain_access(&self.crib.catalog().snapshot(), &identity.agent.claims, Some(tool))
    }

    fn to_command(&self, wish: &WorldChange) -> anyhow::Result<Result<Command, ChangeRefusal>> {
        Ok(Ok(match wish {
            WorldChange::Label(id, wish) => label_command(id, wish)?,
            WorldChange::Source(id, wish) => source_command(id, wish)?,
            WorldChange::Tool(id, wish) => self.tool_command(id, wish)?,
            WorldChange::Group(id, wish) => group_command(id, wish)?,
            WorldChange::Policy(id, wish) => return policy_command(id, wish),
        }))
    }

    fn tool_command(&self, id: &str, wish: &ToolChange) -> anyhow::Result<Command> {
        let id: ToolId = id.parse()?;
        let seen = || {
            let snapshot = self.crib.catalog().snapshot();
            snapshot
                .tool(&id)
                .map_or(Digest::of_bytes("no such tool"), |entry| entry.tool.fingerprint)
        };
        let command = match wish {
            ToolChange::Enable => ToolCommand::Enable,
            ToolChange::Disable => ToolCommand::Disable,
            ToolChange::Override { name, visibility } => ToolCommand::Override(ToolOverride {
                name: name.as_deref().map(Into::into),
                visibility: visibility.map(to_visibility),
                ..ToolOverride::default()
            }),
            ToolChange::Label(labels) => ToolCommand::Label(convert_json(labels)?),
            ToolChange::Approve => {
                ToolCommand::Approve { fingerprint: seen(), despite_findings: true }
            }
            ToolChange::Reject => ToolCommand::Reject { fingerprint: seen(), reason: "odd".into() },
            ToolChange::Remove => ToolCommand::Remove,
        };
        Ok(Command::Tool(id, command))
    }
}

fn separate_refusal<T>(done: Result<T, CommandError>) -> anyhow::Result<Result<T, ChangeRefusal>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(CommandError::Refused(_)) => Ok(Err(ChangeRefusal)),
        Err(error) => Err(error.into()),
    }
}

fn label_command(id: &str, wish: &LabelChange) -> anyhow::Result<Command> {
    let command = match wish {
        LabelChange::Create => LabelCommand::Create(convert_json(&json!({ "name": id }))?),
        LabelChange::Rename(name) => LabelCommand::Update(convert_json(&json!({ "name": name }))?),
        LabelChange::Delete => LabelCommand::Delete,
    };
    Ok(Command::Label(id.parse()?, command))
}

fn source_command(id: &str, wish: &SourceChange) -> anyhow::Result<Command> {
    let command = match wish {
        SourceChange::Register(profile) => SourceCommand::Register(to_profile(profile)?),
        SourceChange::Update(profile) => SourceCommand::Update(to_profile(profile)?),
        SourceChange::Enable => SourceCommand::Enable,
        SourceChange::Disable => SourceCommand::Disable,
        SourceChange::Remove => SourceCommand::Remove,
        SourceChange::Ingest { tools, force } => {
            let manifests = tools.iter().map(|(key, tool)| Ok((key.clone(), to_manifest(tool)?)));
            let manifests: Vec<_> = manifests.collect::<anyhow::Result<_>>()?;
            let inventory = Box::new(Inventory::new(id.parse()?, manifests)?);
            return Ok(Command::Ingest { inventory, force: *force });
        }
    };
    Ok(Command::Source(id.parse()?, command))
}

fn to_profile(profile: &WorldSourceProfile) -> anyhow::Result<model::SourceProfile> {
    Ok(model::SourceProfile {
        name: profile.name.parse()?,
        settings: SourceSettings::Custom(CustomSettings::default()),
        trust: if profile.is_reviewed { Trust::Review } else { Trust::Auto },
        visibility: to_visibility(profile.visibility),
        ..crate::sample_inventory::profile("made up")
    })
}

fn to_visibility(visibility: WorldVisibility) -> model::Visibility {
    match visibility {
        WorldVisibility::Listed => model::Visibility::Listed,
        WorldVisibility::Searchable => model::Visibility::Searchable,
        WorldVisibility::Hidden => model::Visibility::Hidden,
    }
}

fn to_manifest(manifest: &WorldManifest) -> anyhow::Result<model::Manifest> {
    let WorldManifest { name, method, path, tags, edition } = manifest;
    Ok(model::Manifest {
        name: name.as_str().into(),
        title: None,
        description: format!("Edition {edition}.").into(),
        method: method.as_str().into(),
        path: path.as_str().into(),
        tags: tags.iter().map(|tag| tag.as_str().into()).collect(),
        input_schema: model::Schema::new(json!({"type": "object"}))?,
        output_schema: None,
        execution: Execution::Custom { does: None },
        deprecated: false,
        security: None,
        extra: Default::default(),
    })
}

fn group_command(id: &str, wish: &GroupChange) -> anyhow::Result<Command> {
    let command = match wish {
        GroupChange::Create(group) => GroupCommand::Create(Box::new(model::NewGroup {
            id: id.parse()?,
            profile: group_profile(group.any, group.visibility)?,
            selectors: convert_json(&group.selectors)?,
            tools: convert_json(&group.tools)?,
            excluded: to_exclusions(&group.excluded)?,
        })),
        GroupChange::Update { any, visibility } => {
            GroupCommand::Update(group_profile(*any, *visibility)?)
        }
        GroupChange::ReplaceSelectors(selectors) => {
            GroupCommand::ReplaceSelectors(convert_json(selectors)?)
        }
        GroupChange::AddTools(tools) => GroupCommand::AddTools(convert_json(tools)?),
        GroupChange::RemoveTools(tools) => GroupCommand::RemoveTools(convert_json(tools)?),
        GroupChange::ReplaceTools(tools) => GroupCommand::ReplaceTools(convert_json(tools)?),
        GroupChange::ExcludeTools(tools) => GroupCommand::ExcludeTools(to_exclusions(tools)?),
        GroupChange::IncludeTools(tools) => GroupCommand::IncludeTools(convert_json(tools)?),
        GroupChange::Activate => GroupCommand::Activate,
        GroupChange::Deactivate => GroupCommand::Deactivate,
        GroupChange::Delete => GroupCommand::Delete,
    };
    Ok(Command::Group(id.parse()?, command))
}

fn group_profile(
    any: bool,
    visibility: Option<WorldVisibility>,
) -> anyhow::Result<model::GroupProfile> {
    Ok(model::GroupProfile {
        name: "made up".parse()?,
        description: "".into(),
        selector_mode: if any { model::SelectorMode::Any } else { model::SelectorMode::All },
        visibility: visibility.map(to_visibility),
    })
}

fn to_exclusions(tools: &BTreeSet<String>) -> anyhow::Result<Vec<GroupExclusion>> {
    let one = |tool: &String| Ok(GroupExclusion { tool: tool.parse()?, reason: "odd".into() });
    tools.iter().map(one).collect()
}

fn policy_command(id: &str, wish: &PolicyChange) -> anyhow::Result<Result<Command, ChangeRefusal>> {
    let command = match wish {
        PolicyChange::Define(rules) | PolicyChange::Update(rules) => {
            let Some(read) = to_rules(rules)? else { return Ok(Err(ChangeRefusal)) };
            match wish {
                PolicyChange::Define(_) => PolicyCommand::Define(read),
                _ => PolicyCommand::Update(read),
            }
        }
        PolicyChange::Activate => PolicyCommand::Activate,
        PolicyChange::Deactivate => PolicyCommand::Deactivate,
        PolicyChange::Delete => PolicyCommand::Delete,
    };
    Ok(Ok(Command::Policy(id.parse()?, command)))
}

/// Incomplete rules are refused when they are parsed (`None`); every other parse error is a bug of the generator.
fn to_rules(rules: &WorldPolicyRules) -> anyhow::Result<Option<model::PolicyRules>> {
    let mut words = serde_json::to_value(rules)?;
    words["name"] = json!("made up");
    match serde_json::from_value(words) {
        Ok(rules) => Ok(Some(rules)),
        Err(_) if rules.matchers.is_empty() || (rules.groups.is_empty() && !rules.admin) => {
            Ok(None)
        }
        Err(error) => bail!("rules were refused: {error}"),
    }
}

fn convert_json<T: DeserializeOwned>(words: &impl Serialize) -> anyhow::Result<T> {
    Ok(serde_json::from_value(serde_json::to_value(words)?)?)
}
