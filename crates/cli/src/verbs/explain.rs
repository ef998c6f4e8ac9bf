//! `toolcrib explain`: lists the tools of an identity, and explains why it may or may not use one of them.

use std::path::Path;

use axum::http::Method;
use config::config_error::read_limited_file;
use json::strict_json;
use model::{Claims, Visibility};
use serde_json::json;
use toolcrib::{
    AccessExplanation, GroupOfTool, HeldTool, JournalMoment, PolicyExplanation, ToolExplanation,
};

use crate::admin_client::admin_backend::{AdminBackend, JournalAccess};
use crate::arguments::{VerbOutcome, explain as options};
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::output::{count_noun, escape_for_terminal};
use crate::text_table::table_section;
use crate::verbs::journal::show::read_snapshot;
use crate::{inspected_target, output};

/// Maximum bytes of the claims; larger than any token.
const MAX_CLAIMS_BYTES: u64 = 1 << 20;

pub(crate) async fn explain_access(
    config: &ProgramConfig,
    arguments: &options::ExplainArgs,
) -> Result<VerbOutcome, CliError> {
    let claims = read_claims(&arguments.claims).await?;
    let explained = match &arguments.place.server {
        Some(_) => explain_remotely(config, arguments, &claims).await?,
        None => {
            let snapshot = read_snapshot(&config.journal, arguments.at.as_ref()).await?;
            toolcrib::explain_access(&snapshot, &claims, arguments.tool.as_deref())
        }
    };
    match arguments.json.json {
        true => output::print_json(&explained)?,
        false => output::print_text(&explanation_text(&explained))?,
    }
    let granted = explained.tools.is_empty() || explained.tools.iter().any(|tool| tool.granted);
    Ok(if granted { VerbOutcome::Success } else { VerbOutcome::ProblemsFound })
}

/// Requests the explanation from a running server.
async fn explain_remotely(
    config: &ProgramConfig,
    arguments: &options::ExplainArgs,
    claims: &Claims,
) -> Result<AccessExplanation, CliError> {
    let at = arguments.at.as_ref().map(|at| match at.0 {
        JournalMoment::Position(position) => json!(position.0),
        JournalMoment::Time(time) => json!(time.to_string()),
    });
    let asked = json!({"claims": claims, "tool": arguments.tool, "at": at});
    let server = AdminBackend::connect(config, &arguments.place, JournalAccess::Read).await?;
    let answered = server.send(Method::POST, "/api/access/explain", Some(asked)).await?;
    serde_json::from_value(answered.body).map_err(CliError::UnexpectedResponse)
}

pub(crate) async fn read_claims(given: &str) -> Result<Claims, CliError> {
    let bytes = match given {
        "-" => inspected_target::read_stdin(MAX_CLAIMS_BYTES).await?,
        json if json.trim_start().starts_with('{') => json.as_bytes().to_vec(),
        pair if pair.contains('=') && !Path::new(pair).exists() => {
            return Err(CliError::ClaimsAsPair { given: pair.to_owned() });
        }
        path => read_limited_file(Path::new(path), MAX_CLAIMS_BYTES)?,
    };
    // Parse as strictly as a token: with a duplicate claim, it would be unclear which value counts.
    strict_json::parse_object(&bytes).map(Claims::from).map_err(CliError::ClaimsNotAnObject)
}

fn explanation_text(explained: &AccessExplanation) -> String {
    let mut text = match explained.time {
        Some(time) => format!("As of event {} of {time:.3}\n", explained.position),
        None => "The catalog is empty\n".to_owned(),
    };
    if explained.admin {
        text += "A policy makes this identity an admin.\n";
    }
    for tool in &explained.tools {
        text += &tool_text(tool);
    }
    text += "\nPolicies\n";
    if explained.policies.is_empty() {
        text += "  there are none, so nobody has a tool\n";
    }
    for policy in &explained.policies {
        text += &policy_text(policy);
    }
    if let Some(has) = &explained.has {
        text += &held_text(has);
    }
    text
}

fn policy_text(policy: &PolicyExplanation) -> String {
    let groups = policy.groups.iter().map(|group| format!("`{group}`"));
    let mut gives: Vec<String> = groups.collect();
    if policy.admin {
        gives.push("admin rights".to_owned());
    }
    let off = if policy.is_active { "" } else { ", which is not active" };
    let gives = gives.join(", ");
    let mut text = match policy.grants {
        true => format!("  yes  {} grants {gives}\n", policy.id),
        false => format!("  no   {}{off} would grant {gives}\n", policy.id),
    };
    for matcher in &policy.verdict.matchers {
        let mark = if matcher.matches { "yes" } else { "no " };
        text += &format!("         {mark}  {}\n", escape_for_terminal(&matcher.why));
    }
    text
}

fn tool_text(tool: &ToolExplanation) -> String {
    let verdict = match (&tool.name, tool.visibility) {
        (Some(name), Some(visibility)) => {
            format!("granted as `{}`, {}", escape_for_terminal(name), visibility_text(visibility))
        }
        _ => "not granted".to_owned(),
    };
    let mut text = format!(
        "\n{}: {verdict}\n  {}\n",
        escape_for_terminal(&tool.tool),
        escape_for_terminal(&tool.why)
    );
    for stop in tool.stopped_by.iter().skip(1) {
        text += &format!("  and: {}\n", escape_for_terminal(&stop.message));
    }
    for group in &tool.groups {
        text += &format!("  group {}\n", group_text(group));
    }
    text
}

fn group_text(group: &GroupOfTool) -> String {
    let membership = &group.membership;
    let has = if membership.member { "has it" } else { "does not have it" };
    let why = match (&membership.reason, membership.decided_by) {
        (Some(reason), _) if !reason.is_empty() => {
            format!("excluded, {}", escape_for_terminal(reason))
        }
        (_, catalog::group::DecidedBy::Exclusion) => "excluded".to_owned(),
        (_, catalog::group::DecidedBy::ExplicitEntry) => "named".to_owned(),
        (_, catalog::group::DecidedBy::NoSelectors) => "no selectors".to_owned(),
        (_, catalog::group::DecidedBy::Selectors) => {
            let failing = membership.selectors.iter().enumerate();
            let failing = failing.filter_map(|(number, verdict)| {
                Some(format!("selector {} fails at `{}`", number + 1, verdict.failing.as_ref()?))
            });
            let failing: Vec<_> = failing.collect();
            if failing.is_empty() { "selected".to_owned() } else { failing.join(", ") }
        }
    };
    let off = if group.is_active { "" } else { ", not active" };
    let granted: Vec<_> = group.granted_by.iter().map(|policy| format!("`{policy}`")).collect();
    let granted = match granted.is_empty() {
        true => "not granted".to_owned(),
        false => format!("granted by {}", granted.join(", ")),
    };
    format!("`{}` {has} ({why}); {granted}{off}", group.id)
}

fn held_text(has: &[HeldTool]) -> String {
    let row = |held: &HeldTool| {
        vec![
            escape_for_terminal(&held.name).into_owned(),
            escape_for_terminal(held.tool.as_str()).into_owned(),
            visibility_text(held.visibility).to_owned(),
        ]
    };
    let rows = has.iter().map(row).collect();
    table_section(&count_noun(has.len(), "tool", "tools"), &["NAME", "ID", "VISIBILITY"], rows)
}

fn visibility_text(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Listed => "listed",
        Visibility::Searchable => "searchable",
        Visibility::Hidden => "hidden",
    }
}
