//! The text of a plan for terminals.

use config::config_plan::plan_diff::{ChangeKind, PlannedChange, PlannedFieldChange};
use config::config_plan::{IdentityEffect, PlanReport};
use config::declared_config::config_document::ConfigDocument;
use serde_json::Value;
use toolcrib::AccessEffect;

use crate::arguments::JsonFlag;
use crate::cli_error::CliError;
use crate::output;
use crate::output::{TextStyle, count_noun, escape_for_terminal};
use crate::text_table::table_section;

/// Maximum length of a printed value, in characters.
const MAX_VALUE_CHARS: usize = 72;
/// Maximum number of tools named for each identity; `--json` has all.
const MAX_NAMED_TOOLS: usize = 10;

/// Prints a plan as text or as JSON.
pub(super) fn print_plan(
    told: &PlanReport,
    document: &ConfigDocument,
    format: &JsonFlag,
) -> Result<(), CliError> {
    match format.json {
        true => output::print_json(&plan_json(told, document)),
        false => output::print_text(&plan_text(told, document)),
    }
}

/// The plan as JSON, with the lines of the file.
fn plan_json(told: &PlanReport, document: &ConfigDocument) -> Value {
    let mut json = serde_json::to_value(told).expect("a plan is JSON");
    for (name, said) in [("waiting", &told.waiting), ("notes", &told.notes)] {
        json[name] = said.iter().map(|one| document.describe(one)).collect();
    }
    json
}

/// The whole plan as text.
fn plan_text(told: &PlanReport, document: &ConfigDocument) -> String {
    let mut text = match told.changes.is_empty() {
        true => "Nothing to change: everything is as declared\n".to_owned(),
        false => String::new(),
    };
    for changed in &told.changes {
        text += &change_text(changed);
    }
    text += &identities_text(&told.identities);
    for waiting in &told.waiting {
        text += &format!("\nwaiting: {}", escape_for_terminal(&document.describe(waiting)));
    }
    for note in &told.notes {
        text += &format!("\nnote: {}", escape_for_terminal(&document.describe(note)));
    }
    if !told.waiting.is_empty() || !told.notes.is_empty() {
        text.push('\n');
    }
    if !told.changes.is_empty() {
        text += &format!("\n{}\n", change_summary(&told.changes));
    }
    text
}

/// `1 to add, 2 to change, 1 to remove`.
pub(crate) fn change_summary(changes: &[PlannedChange]) -> String {
    let count = |change| changes.iter().filter(|changed| changed.change == change).count();
    let [added, changed, removed] =
        [ChangeKind::Added, ChangeKind::Changed, ChangeKind::Removed].map(count);
    format!("{added} to add, {changed} to change, {removed} to remove")
}

fn change_text(changed: &PlannedChange) -> String {
    let (sign, style) = match changed.change {
        ChangeKind::Added => ('+', TextStyle::Green),
        ChangeKind::Changed => ('~', TextStyle::Yellow),
        ChangeKind::Removed => ('-', TextStyle::Red),
    };
    let line = format!("{sign} {} {}", changed.kind, escape_for_terminal(&changed.id));
    let mut text = output::style_text(style, &line) + "\n";
    for PlannedFieldChange { member, before, after } in &changed.members {
        let member = escape_for_terminal(member);
        text += &match (before, after) {
            (Some(before), Some(after)) => {
                format!("    {member}: {} → {}\n", format_value(before), format_value(after))
            }
            (None, Some(after)) => format!("    {member}: {}\n", format_value(after)),
            (Some(before), None) => format!("    {member}: {} → not given\n", format_value(before)),
            (None, None) => String::new(),
        };
    }
    text
}

fn format_value(value: &Value) -> String {
    let text = value.to_string();
    let text = escape_for_terminal(&text);
    match MAX_VALUE_CHARS < text.chars().count() {
        true => format!("{}…", text.chars().take(MAX_VALUE_CHARS).collect::<String>()),
        false => text.into_owned(),
    }
}

fn identities_text(compared: &[IdentityEffect]) -> String {
    let (affected, others): (Vec<&IdentityEffect>, Vec<&IdentityEffect>) =
        compared.iter().partition(|compared| compared.is_affected());
    if compared.is_empty() {
        return String::new();
    }
    let row = |IdentityEffect { name, effect }: &&IdentityEffect| {
        let AccessEffect { gained, lost, renamed, before, after, tokens_change } = effect;
        vec![
            name.clone(),
            format!("{} → {}", before.tools, after.tools),
            format_signed(gained.len(), '+'),
            format_signed(lost.len(), '-'),
            renamed.len().to_string(),
            format!("{tokens_change:+}"),
        ]
    };
    let title = match (affected.len(), others.len()) {
        (0, others) => count_noun(others, "identity stays as it is", "identities stay as they are"),
        (affected, 0) => count_noun(affected, "identity", "identities"),
        (affected, others) => {
            let affected = count_noun(affected, "identity", "identities");
            affected + "; " + &count_noun(others, "more stays as it is", "more stay as they are")
        }
    };
    let columns = ["IDENTITY", "HAS", "GAINS", "LOSES", "RENAMED", "TOKENS"];
    let mut text = table_section(&title, &columns, affected.iter().map(row).collect());
    for IdentityEffect { name, effect } in affected {
        let AccessEffect { gained, lost, renamed, before, after, .. } = effect;
        let admin = match (before.admin, after.admin) {
            (false, true) => vec!["  becomes an admin".to_owned()],
            (true, false) => vec!["  is no admin any more".to_owned()],
            (false, false) | (true, true) => Vec::new(),
        };
        let renamed = renamed.iter().map(|renamed| {
            format!("  ~ {}: `{}` → `{}`", renamed.tool, renamed.before, renamed.after)
        });
        let lines = admin
            .into_iter()
            .chain(first_lines(gained.iter().map(|tool| format!("  + {tool}"))))
            .chain(first_lines(lost.iter().map(|tool| format!("  - {tool}"))))
            .chain(first_lines(renamed));
        text += &format!("\n{}\n", escape_for_terminal(name));
        lines.for_each(|line| text += &format!("{}\n", escape_for_terminal(&line)));
    }
    text
}

fn format_signed(count: usize, sign: char) -> String {
    if count == 0 { "0".to_owned() } else { format!("{sign}{count}") }
}

/// The first lines, and the number of omitted ones.
fn first_lines(mut lines: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_NAMED_TOOLS);
    let mut some: Vec<String> = lines.by_ref().take(MAX_NAMED_TOOLS).collect();
    if 0 < more {
        some.push(format!("  and {more} more"));
    }
    some
}
