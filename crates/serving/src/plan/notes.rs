//! Notes on a plan: names that match nothing, and effects that are unknown before the plan is applied.

use discovery::text::{element, member};
use model::{Pattern, ToolId};
use toolcrib::{Refusal, Snapshot};

use crate::declared::Declared;
use crate::declared::mistake::{Mistake, did_you_mean};

/// Notes on probable mistakes: selectors for missing sources. They are no errors, because a source may be added later.
pub(super) fn of(declared: &Declared, before: &Snapshot, after: &Snapshot) -> Vec<Mistake> {
    let mut notes = Vec::new();
    for group in declared.groups.iter().flatten() {
        for (number, selector) in group.rest.selectors.iter().enumerate() {
            let field = member(&element(&member(&group.field, "selectors"), number), "source");
            if let Some(pattern) = &selector.source
                && !names(after).any(|name| pattern.matches(name))
            {
                notes.push(Mistake::new(field, no_source(pattern, after)));
            }
        }
    }
    for source in declared.sources.iter().flatten() {
        if before.source(&source.id).is_none() {
            let message = "is new: which tools it has is known after its first refresh";
            notes.push(Mistake::new(source.field.clone(), message));
        }
    }
    notes
}

fn names(snapshot: &Snapshot) -> impl Iterator<Item = &str> {
    let sources = snapshot.sources();
    sources.flat_map(|entry| [entry.source.id.as_str(), entry.source.profile.name.as_str()])
}

fn no_source(pattern: &Pattern, snapshot: &Snapshot) -> String {
    let pattern = pattern.as_str();
    format!(
        "selects nothing: there is no source `{pattern}`{}",
        did_you_mean(pattern, names(snapshot))
    )
}

/// The note that a declared tool does not exist yet.
pub(super) fn waiting(snapshot: &Snapshot, (field, id): &(String, ToolId)) -> Mistake {
    let known = snapshot.tools().filter(|entry| entry.tool.source.as_str() == id.source());
    let near = did_you_mean(id.as_str(), known.map(|entry| entry.tool.id.as_str()));
    let message = format!("waits for tool `{id}`, which its source does not have yet{near}");
    Mistake::new(field.clone(), message)
}

/// All references to missing groups or labels, each with a suggestion.
pub(super) fn unknown(
    declared: &Declared,
    before: &Snapshot,
    field: &str,
    refusal: &Refusal,
) -> Vec<Mistake> {
    match refusal {
        Refusal::NoSuchGroups { .. } => {
            let known = before.groups().map(|entry| entry.group.id.as_str());
            let declared_too = declared.groups.iter().flatten().map(|entry| entry.id.as_str());
            let known: Vec<&str> = known.chain(declared_too).collect();
            let policies = declared.policies.iter().flatten();
            let wanted = policies.flat_map(|policy| {
                let groups = policy.rest.groups().iter();
                groups.map(|group| (&policy.field, group.as_str()))
            });
            missing("group", "groups", wanted, &known)
        }
        Refusal::NoSuchLabels { .. } => {
            let known = before.labels().map(|label| label.id.as_str());
            let declared_too = declared.labels.iter().flatten().map(|entry| entry.id.as_str());
            let known: Vec<&str> = known.chain(declared_too).collect();
            let tools = declared.tools.iter().flatten();
            let wanted = tools.flat_map(|tool| {
                let labels = tool.labels.iter().flatten();
                labels.map(|label| (&tool.field, label.as_str()))
            });
            missing("label", "labels", wanted, &known)
        }
        Refusal::KindIsForEver { .. } => {
            vec![Mistake::new(member(field, "settings.kind"), refusal.to_string())]
        }
        _ => Vec::new(),
    }
}

/// Reports every reference to a missing name in the file, not only the first one that the catalog rejected.
fn missing<'a>(
    what: &str,
    list: &str,
    wanted: impl Iterator<Item = (&'a String, &'a str)>,
    known: &[&str],
) -> Vec<Mistake> {
    let unknown = wanted.filter(|(_, name)| !known.contains(name));
    let mistake = |(field, name): (&String, &str)| {
        let near = did_you_mean(name, known.iter().copied());
        Mistake::new(
            member(field, list),
            format!("names {what} `{name}`, which is not there{near}"),
        )
    };
    unknown.map(mistake).collect()
}
