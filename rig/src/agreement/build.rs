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
use catalog::tool::{Override, ToolCommand};
use catalog::{Catalog, Command, CommandError};
use model::{
    Agent, Claims, CustomSettings, Digest, Exclusion, Execution, Inventory, Settings, ToolId, Trust,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolcrib::upstream::egress::Egress;
use toolcrib::upstream::http::HttpClient;
use toolcrib::{
    AgentView, Context, Effect, Explanation, Identity, Means, Options, SystemClock, Toolcrib,
    explain,
};

use super::wishes::Refused;
use super::world::{
    GroupWish, LabelWish, Manifest, PolicyWish, Rules, SourceProfile, SourceWish, ToolWish,
    Visibility, Wish,
};

/// A toolcrib with its own in-memory catalog.
pub(super) struct Product {
    crib: Toolcrib,
}

impl Product {
    pub(super) async fn start() -> anyhow::Result<Self> {
        thread_local! {
            // Shared because it is expensive to create. It never sends a request.
            static CLIENT: HttpClient =
                HttpClient::new(Egress { allow_private: false, allowed: Vec::new() });
        }
        let journal = MemoryJournal::new(Arc::new(SystemClock));
        let catalog = Arc::new(Catalog::open(Arc::new(journal)).await?);
        let client = CLIENT.with(HttpClient::clone);
        Ok(Self { crib: Toolcrib::new(catalog, client, SystemClock, Options::default()) })
    }

    pub(super) fn identity(claims: &Value) -> anyhow::Result<Identity> {
        let agent = Agent::new("somebody", Arc::new(read(claims)?));
        Ok(Identity { agent, means: Means::Token, ..Identity::anonymous() })
    }

    pub(super) fn view(&self, identity: &Identity) -> AgentView {
        self.crib.view(&identity.agent)
    }

    pub(super) fn is_admin(&self, identity: &Identity) -> bool {
        self.crib.is_admin(identity)
    }

    /// Executes the change. An error means that something is broken; a refusal is the inner result.
    pub(super) async fn wish(&self, wish: &Wish) -> anyhow::Result<Result<(), Refused>> {
        let Ok(command) = self.command(wish)? else { return Ok(Err(Refused)) };
        let context = Context::by("agreement");
        refused_or(self.crib.catalog().execute(command, context, None).await.map(drop))
    }

    /// The effect that the change would have on these agents.
    pub(super) async fn what_if(
        &self,
        wish: &Wish,
        identities: &[Identity],
    ) -> anyhow::Result<Result<Vec<Effect>, Refused>> {
        let Ok(command) = self.command(wish)? else { return Ok(Err(Refused)) };
        let claims: Vec<_> =
            identities.iter().map(|identity| Claims::clone(&identity.agent.claims)).collect();
        refused_or(self.crib.what_if(&[command], &claims).await)
    }

    pub(super) fn explain(&self, identity: &Identity, tool: &str) -> Explanation {
        explain(&self.crib.catalog().snapshot(), &identity.agent.claims, Some(tool))
    }

    fn command(&self, wish: &Wish) -> anyhow::Result<Result<Command, Refused>> {
        Ok(Ok(match wish {
            Wish::Label(id, wish) => label_command(id, wish)?,
            Wish::Source(id, wish) => source_command(id, wish)?,
            Wish::Tool(id, wish) => self.tool_command(id, wish)?,
            Wish::Group(id, wish) => group_command(id, wish)?,
            Wish::Policy(id, wish) => return policy_command(id, wish),
        }))
    }

    fn tool_command(&self, id: &str, wish: &ToolWish) -> anyhow::Result<Command> {
        let id: ToolId = id.parse()?;
        let seen = || {
            let snapshot = self.crib.catalog().snapshot();
            snapshot.tool(&id).map_or(Digest::of("no such tool"), |entry| entry.tool.fingerprint)
        };
        let command = match wish {
            ToolWish::Enable => ToolCommand::Enable,
            ToolWish::Disable => ToolCommand::Disable,
            ToolWish::Override { name, visibility } => ToolCommand::Override(Override {
                name: name.as_deref().map(Into::into),
                visibility: visibility.map(to_visibility),
                ..Override::default()
            }),
            ToolWish::Label(labels) => ToolCommand::Label(read(labels)?),
            ToolWish::Approve => {
                ToolCommand::Approve { fingerprint: seen(), despite_findings: true }
            }
            ToolWish::Reject => ToolCommand::Reject { fingerprint: seen(), reason: "odd".into() },
            ToolWish::Remove => ToolCommand::Remove,
        };
        Ok(Command::Tool(id, command))
    }
}

fn refused_or<T>(done: Result<T, CommandError>) -> anyhow::Result<Result<T, Refused>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(CommandError::Refused(_)) => Ok(Err(Refused)),
        Err(error) => Err(error.into()),
    }
}

fn label_command(id: &str, wish: &LabelWish) -> anyhow::Result<Command> {
    let command = match wish {
        LabelWish::Create => LabelCommand::Create(read(&json!({ "name": id }))?),
        LabelWish::Rename(name) => LabelCommand::Update(read(&json!({ "name": name }))?),
        LabelWish::Delete => LabelCommand::Delete,
    };
    Ok(Command::Label(id.parse()?, command))
}

fn source_command(id: &str, wish: &SourceWish) -> anyhow::Result<Command> {
    let command = match wish {
        SourceWish::Register(profile) => SourceCommand::Register(to_profile(profile)?),
        SourceWish::Update(profile) => SourceCommand::Update(to_profile(profile)?),
        SourceWish::Enable => SourceCommand::Enable,
        SourceWish::Disable => SourceCommand::Disable,
        SourceWish::Remove => SourceCommand::Remove,
        SourceWish::Ingest { tools, force } => {
            let manifests = tools.iter().map(|(key, tool)| Ok((key.clone(), to_manifest(tool)?)));
            let manifests: Vec<_> = manifests.collect::<anyhow::Result<_>>()?;
            let inventory = Box::new(Inventory::new(id.parse()?, manifests)?);
            return Ok(Command::Ingest { inventory, force: *force });
        }
    };
    Ok(Command::Source(id.parse()?, command))
}

fn to_profile(profile: &SourceProfile) -> anyhow::Result<model::SourceProfile> {
    Ok(model::SourceProfile {
        name: profile.name.parse()?,
        settings: Settings::Custom(CustomSettings::default()),
        trust: if profile.is_reviewed { Trust::Review } else { Trust::Auto },
        visibility: to_visibility(profile.visibility),
        ..crate::world::profile("made up")
    })
}

fn to_visibility(visibility: Visibility) -> model::Visibility {
    match visibility {
        Visibility::Listed => model::Visibility::Listed,
        Visibility::Searchable => model::Visibility::Searchable,
        Visibility::Hidden => model::Visibility::Hidden,
    }
}

fn to_manifest(manifest: &Manifest) -> anyhow::Result<model::Manifest> {
    let Manifest { name, method, path, tags, edition } = manifest;
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

fn group_command(id: &str, wish: &GroupWish) -> anyhow::Result<Command> {
    let command = match wish {
        GroupWish::Create(group) => GroupCommand::Create(Box::new(model::NewGroup {
            id: id.parse()?,
            profile: group_profile(group.any, group.visibility)?,
            selectors: read(&group.selectors)?,
            tools: read(&group.tools)?,
            excluded: exclusions(&group.excluded)?,
        })),
        GroupWish::Update { any, visibility } => {
            GroupCommand::Update(group_profile(*any, *visibility)?)
        }
        GroupWish::ReplaceSelectors(selectors) => GroupCommand::ReplaceSelectors(read(selectors)?),
        GroupWish::AddTools(tools) => GroupCommand::AddTools(read(tools)?),
        GroupWish::RemoveTools(tools) => GroupCommand::RemoveTools(read(tools)?),
        GroupWish::ReplaceTools(tools) => GroupCommand::ReplaceTools(read(tools)?),
        GroupWish::ExcludeTools(tools) => GroupCommand::ExcludeTools(exclusions(tools)?),
        GroupWish::IncludeTools(tools) => GroupCommand::IncludeTools(read(tools)?),
        GroupWish::Activate => GroupCommand::Activate,
        GroupWish::Deactivate => GroupCommand::Deactivate,
        GroupWish::Delete => GroupCommand::Delete,
    };
    Ok(Command::Group(id.parse()?, command))
}

fn group_profile(any: bool, visibility: Option<Visibility>) -> anyhow::Result<model::GroupProfile> {
    Ok(model::GroupProfile {
        name: "made up".parse()?,
        description: "".into(),
        selector_mode: if any { model::SelectorMode::Any } else { model::SelectorMode::All },
        visibility: visibility.map(to_visibility),
    })
}

fn exclusions(tools: &BTreeSet<String>) -> anyhow::Result<Vec<Exclusion>> {
    let one = |tool: &String| Ok(Exclusion { tool: tool.parse()?, reason: "odd".into() });
    tools.iter().map(one).collect()
}

fn policy_command(id: &str, wish: &PolicyWish) -> anyhow::Result<Result<Command, Refused>> {
    let command = match wish {
        PolicyWish::Define(rules) | PolicyWish::Update(rules) => {
            let Some(read) = to_rules(rules)? else { return Ok(Err(Refused)) };
            match wish {
                PolicyWish::Define(_) => PolicyCommand::Define(read),
                _ => PolicyCommand::Update(read),
            }
        }
        PolicyWish::Activate => PolicyCommand::Activate,
        PolicyWish::Deactivate => PolicyCommand::Deactivate,
        PolicyWish::Delete => PolicyCommand::Delete,
    };
    Ok(Ok(Command::Policy(id.parse()?, command)))
}

/// Incomplete rules are refused when they are parsed (`None`); every other parse error is a bug of the generator.
fn to_rules(rules: &Rules) -> anyhow::Result<Option<model::PolicyRules>> {
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

fn read<T: DeserializeOwned>(words: &impl Serialize) -> anyhow::Result<T> {
    Ok(serde_json::from_value(serde_json::to_value(words)?)?)
}
