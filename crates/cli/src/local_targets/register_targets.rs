//! Registers targets: a source for each, one group with all their tools, and one policy for anonymous callers.
//!
//! Existing entities stay unchanged, because an admin may have edited them. Only new sources are added to the group.

use std::collections::BTreeSet;

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use futures_util::future::join_all;
use model::{GroupId, McpPrimitive, NewGroup, PolicyId, PolicyRules, Selector, SourceId};
use serde_json::json;
use toolcrib::{Catalog, ChangeContext, Command, CommandError, RefreshResult, Snapshot, Toolcrib};

use super::LocalTarget;
use crate::cli_error::CliError;
use crate::inspected_target::mcp_connect::PRINTED_STDERR_LINES;
use crate::{destinations, output, progress};

/// The group with all tools of the targets.
const GROUP_ID: &str = "all-tools";
/// The policy that grants the group to callers without a credential.
const POLICY_ID: &str = "without-a-credential";

/// The result of registering a target.
pub(crate) struct RegisteredTarget {
    /// The target as printed for the user.
    pub(crate) display_text: String,
    /// The source id; `None` if the target could not be registered.
    pub(crate) source: Option<SourceId>,
    /// Number of its served tools.
    pub(crate) tools: usize,
    /// Number of its tools that are pending review.
    pub(crate) pending_review: usize,
    /// The reason why the target could not be read now.
    pub(crate) problem: Option<String>,
    /// A destination of its calls that the egress guard blocks.
    pub(crate) blocked_destination: Option<String>,
}

/// Registers new targets, refreshes all of them, and returns their tools.
pub(crate) async fn register_targets(
    crib: &Toolcrib,
    wanted: Vec<LocalTarget>,
    is_granted: bool,
) -> Result<Vec<RegisteredTarget>, CliError> {
    let (mut all, mut new) = (Vec::new(), BTreeSet::new());
    for wanted in wanted {
        let registered = find_or_register_source(crib.catalog(), &wanted, &mut new).await?;
        all.push((wanted, registered));
    }
    let context = command_context();
    let asked = all.iter().map(|(_, registered)| async {
        let Ok(id) = registered else { return None };
        Some(crib.refresher().refresh(id, false, &context).await)
    });
    let asked = progress::show_while("asking for tools", join_all(asked)).await;
    let snapshot = crib.catalog().snapshot();
    let mut offered = Vec::new();
    for ((wanted, registered), asked) in all.into_iter().zip(asked) {
        let said = registered.as_ref().ok().and_then(|id| crib.source_stderr(id));
        let one = registration_result(&snapshot, wanted.display_text, registered, asked)?;
        if let (Some(_), Some(said)) = (&one.problem, said) {
            // The stderr of a program usually contains the reason.
            for line in last_lines(&said) {
                output::print_note(&format!("| {line}"));
            }
        }
        offered.push(one);
    }
    if offered.iter().all(|one| one.problem.is_some() && one.tools == 0) {
        for id in &new {
            execute_command(crib.catalog(), Command::Source(id.clone(), SourceCommand::Remove))
                .await?;
        }
        let problem = |one: RegisteredTarget| {
            format!("{}: {}", one.display_text, one.problem.unwrap_or_default())
        };
        return Err(CliError::NoReadableTarget(offered.into_iter().map(problem).collect()));
    }
    if !new.is_empty() {
        add_to_group(crib.catalog(), &new).await?;
        if is_granted {
            ensure_policy(crib.catalog()).await?;
        }
    }
    Ok(offered)
}

fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip(text.lines().count().saturating_sub(PRINTED_STDERR_LINES))
}

/// Finds or registers the source of a target; the inner error tells why the target cannot become a source.
async fn find_or_register_source(
    catalog: &Catalog,
    wanted: &LocalTarget,
    new: &mut BTreeSet<SourceId>,
) -> Result<Result<SourceId, String>, CliError> {
    let snapshot = catalog.snapshot();
    if let Some(known) = snapshot.sources().find(|entry| wanted.is_source(&entry.source.profile)) {
        return Ok(Ok(known.source.id.clone()));
    }
    let kind = match &wanted.kind {
        Ok(kind) => *kind,
        Err(_) => return Ok(Err(wanted.problem().unwrap_or_default())),
    };
    let id = free_source_id(&snapshot, &wanted.proposed_id);
    let profile = wanted.source_profile(&id, kind);
    execute_command(catalog, Command::Source(id.clone(), SourceCommand::Register(profile))).await?;
    new.insert(id.clone());
    Ok(Ok(id))
}

/// The id itself, or with a number (`name-2`) if it is taken.
fn free_source_id(snapshot: &Snapshot, name: &SourceId) -> SourceId {
    let numbered = (2..).filter_map(|number| format!("{name}-{number}").parse().ok());
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|id| snapshot.source(id).is_none()).expect("there are more numbers than sources")
}

async fn add_to_group(catalog: &Catalog, new: &BTreeSet<SourceId>) -> Result<(), CliError> {
    let id: GroupId = GROUP_ID.parse().expect("this is a slug");
    let kinds = [McpPrimitive::Tool, McpPrimitive::Prompt, McpPrimitive::Resource];
    let selectors = new.iter().flat_map(|source| {
        kinds.map(|kind| {
            let source = source.as_str().parse().expect("an id is a pattern");
            Selector { kind, source: Some(source), ..Selector::default() }
        })
    });
    let command = match catalog.snapshot().group(&id) {
        Some(known) => {
            let known = known.group.selectors.iter().cloned();
            GroupCommand::ReplaceSelectors(known.chain(selectors).collect())
        }
        None => {
            let profile = json!({
                "name": "All tools", "selector_mode": "any",
                "description": "everything that the targets of the command line offer",
            });
            let profile = serde_json::from_value(profile).expect("the profile is complete");
            let (tools, excluded) = (BTreeSet::new(), Vec::new());
            let selectors = selectors.collect();
            let new = NewGroup { id: id.clone(), profile, selectors, tools, excluded };
            GroupCommand::Create(Box::new(new))
        }
    };
    execute_command(catalog, Command::Group(id, command)).await
}

async fn ensure_policy(catalog: &Catalog) -> Result<(), CliError> {
    let id: PolicyId = POLICY_ID.parse().expect("this is a slug");
    if catalog.snapshot().policy(&id).is_some() {
        return Ok(());
    }
    let rules = json!({
        "name": "Callers without a credential", "groups": [GROUP_ID],
        "description": "who come from this machine, unless the server lets others in too",
        "matchers": [{"claim": "anonymous", "operator": "equals", "value": true}],
    });
    let rules: PolicyRules = serde_json::from_value(rules).expect("the policy is complete");
    execute_command(catalog, Command::Policy(id, PolicyCommand::Define(rules))).await
}

async fn execute_command(catalog: &Catalog, command: Command) -> Result<(), CliError> {
    let told = catalog.execute(command, command_context(), None).await;
    told.map(drop).map_err(CliError::NotRegistered)
}

fn command_context() -> ChangeContext {
    ChangeContext::by_actor("cli:targets")
}

fn registration_result(
    snapshot: &Snapshot,
    shown: String,
    registered: Result<SourceId, String>,
    asked: Option<Result<RefreshResult, CommandError>>,
) -> Result<RegisteredTarget, CliError> {
    let (source, tools, kept_back, problem, shut) = (None, 0, 0, None, None);
    let mut offered = RegisteredTarget {
        display_text: shown,
        source,
        tools,
        pending_review: kept_back,
        problem,
        blocked_destination: shut,
    };
    let id = match registered {
        Ok(id) => id,
        Err(problem) => return Ok(RegisteredTarget { problem: Some(problem), ..offered }),
    };
    match asked {
        Some(Ok(result)) => {
            offered.pending_review = result.kept_back;
            offered.problem = result.error.map(|error| error.message.into());
        }
        Some(Err(CommandError::Refused(refusal))) => offered.problem = Some(refusal.to_string()),
        Some(Err(error)) => return Err(CliError::NotRegistered(error)),
        None => {}
    }
    let of_source = snapshot.tools().filter(|entry| {
        let manifest = entry.tool.served_manifest();
        entry.tool.id.source_id() == id.as_str()
            && snapshot.served().contains(entry.slot)
            && manifest.is_some_and(|it| it.execution.primitive() == McpPrimitive::Tool)
    });
    offered.tools = of_source.count();
    if let Some(entry) = snapshot.source(&id) {
        let mut called = destinations::source_destinations(snapshot, &id).into_iter();
        let shut =
            called.find(|url| destinations::is_forbidden_destination(&entry.source.profile, url));
        offered.blocked_destination = shut.map(|url| destinations::host_and_port(&url));
    }
    offered.source = Some(id);
    Ok(offered)
}
