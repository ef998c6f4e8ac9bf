//! Notes on a plan: names that match nothing, and effects that are unknown before the plan is applied.

use json::document_text::{field_path, item_path};
use model::{Pattern, ToolId};
use toolcrib::{CommandRefusal, Snapshot};

use crate::declared_config::DeclaredConfig;
use crate::declared_config::config_problem::{ConfigProblem, did_you_mean};

/// Notes on probable mistakes: selectors for missing sources. They are no errors, because a source may be added later.
pub(super) fn collect_notes(
    declared: &DeclaredConfig,
    before: &Snapshot,
    after: &Snapshot,
) -> Vec<ConfigProblem> {
    let mut notes = Vec::new();
    for group in declared.groups.iter().flatten() {
        for (number, selector) in group.body.selectors.iter().enumerate() {
            let field =
                field_path(&item_path(&field_path(&group.field, "selectors"), number), "source");
            if let Some(pattern) = &selector.source
                && !source_names(after).any(|name| pattern.matches(name))
            {
                notes.push(ConfigProblem::new(field, no_source(pattern, after)));
            }
        }
    }
    for source in declared.sources.iter().flatten() {
        if before.source(&source.id).is_none() {
            let message = "is new: which tools it has is known after its first refresh";
            notes.push(ConfigProblem::new(source.field.clone(), message));
        }
    }
    notes
}

fn source_names(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let sources = snapshot.sources();
    sources.flat_map(|entry| [entry.source.id.as_str(), entry.source.profile.name.as_str()])
}

fn no_source(pattern: &Pattern, snapshot: &Snapshot) -> String {
    let pattern = pattern.as_str();
    format!(
        "selects nothing: there is no source `{pattern}`{}",
        did_you_mean(pattern, source_names(snapshot))
    )
}

/// The note that a declared tool does not exist yet.
pub(super) fn missing_tool_note(
    snapshot: &Snapshot,
    (field, id): &(String, ToolId),
) -> ConfigProblem {
    let known = snapshot.tools().filter(|entry| entry.tool.source.as_str() == id.source_id());
    let near = did_you_mean(id.as_str(), known.map(|entry| entry.tool.id.as_str()));
    let message = format!("waits for tool `{id}`, which its source does not have yet{near}");
    ConfigProblem::new(field.clone(), message)
}

/// All references to missing groups or labels, each with a suggestion.
pub(super) fn unresolved_references(
    declared: &DeclaredConfig,
    before: &Snapshot,
    field: &str,
    refusal: &CommandRefusal,
) -> Vec<ConfigProblem> {
    match refusal {
        CommandRefusal::NoSuchGroups { .. } => {
            let known = before.groups().map(|entry| entry.group.id.as_str());
            let declared_too = declared.groups.iter().flatten().map(|entry| entry.id.as_str());
            let known: Vec<&str> = known.chain(declared_too).collect();
            let policies = declared.policies.iter().flatten();
            let wanted = policies.flat_map(|policy| {
                let groups = policy.body.groups().iter();
                groups.map(|group| (&policy.field, group.as_str()))
            });
            missing_names("group", "groups", wanted, &known)
        }
        CommandRefusal::NoSuchLabels { .. } => {
            let known = before.labels().map(|label| label.id.as_str());
            let declared_too = declared.labels.iter().flatten().map(|entry| entry.id.as_str());
            let known: Vec<&str> = known.chain(declared_too).collect();
            let tools = declared.tools.iter().flatten();
            let wanted = tools.flat_map(|tool| {
                let labels = tool.labels.iter().flatten();
                labels.map(|label| (&tool.field, label.as_str()))
            });
            missing_names("label", "labels", wanted, &known)
        }
        CommandRefusal::KindIsFixed { .. } => {
            vec![ConfigProblem::new(field_path(field, "settings.kind"), refusal.to_string())]
        }
        _ => Vec::new(),
    }
}

/// Reports every reference to a missing name in the file, not only the first one that the catalog rejected.
fn missing_names<'a>(
    what: &str,
    list: &str,
    wanted: impl Iterator<Item = (&'a String, &'a str)>,
    known: &[&str],
) -> Vec<ConfigProblem> {
    let unknown = wanted.filter(|(_, name)| !known.contains(name));
    let mistake = |(field, name): (&String, &str)| {
        let near = did_you_mean(name, known.iter().copied());
        ConfigProblem::new(
            field_path(field, list),
            format!("names {what} `{name}`, which is not there{near}"),
        )
    };
    unknown.map(mistake).collect()
}
