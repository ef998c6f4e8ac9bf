//! The text of a plan for terminals.

use serde_json::Value;
use toolcrib::Effect;

use super::change::{Change, Changed, Differs};
use super::{Compared, Told};
use crate::cli::Json;
use crate::declared::document::Document;
use crate::failure::Failure;
use crate::out::{self, Style, counted, plain};
use crate::table::section;

/// Maximum length of a printed value, in characters.
const VALUE: usize = 72;
/// Maximum number of tools named for each identity; `--json` has all.
const TOOLS: usize = 10;

/// Prints a plan as text or as JSON.
pub(super) fn print(told: &Told, document: &Document, format: &Json) -> Result<(), Failure> {
    match format.json {
        true => out::print_json(&json(told, document)),
        false => out::print(&text(told, document)),
    }
}

/// The plan as JSON, with the lines of the file.
fn json(told: &Told, document: &Document) -> Value {
    let mut json = serde_json::to_value(told).expect("a plan is JSON");
    for (name, said) in [("waiting", &told.waiting), ("notes", &told.notes)] {
        json[name] = said.iter().map(|one| document.told(one)).collect();
    }
    json
}

/// The whole plan as text.
fn text(told: &Told, document: &Document) -> String {
    let mut text = match told.changes.is_empty() {
        true => "Nothing to change: everything is as declared\n".to_owned(),
        false => String::new(),
    };
    for changed in &told.changes {
        text += &changed_text(changed);
    }
    text += &identities(&told.identities);
    for waiting in &told.waiting {
        text += &format!("\nwaiting: {}", plain(&document.told(waiting)));
    }
    for note in &told.notes {
        text += &format!("\nnote: {}", plain(&document.told(note)));
    }
    if !told.waiting.is_empty() || !told.notes.is_empty() {
        text.push('\n');
    }
    if !told.changes.is_empty() {
        text += &format!("\n{}\n", summary(&told.changes));
    }
    text
}

/// `1 to add, 2 to change, 1 to remove`.
pub(crate) fn summary(changes: &[Changed]) -> String {
    let count = |change| changes.iter().filter(|changed| changed.change == change).count();
    let [added, changed, removed] = [Change::Added, Change::Changed, Change::Removed].map(count);
    format!("{added} to add, {changed} to change, {removed} to remove")
}

fn changed_text(changed: &Changed) -> String {
    let (sign, style) = match changed.change {
        Change::Added => ('+', Style::Green),
        Change::Changed => ('~', Style::Yellow),
        Change::Removed => ('-', Style::Red),
    };
    let line = format!("{sign} {} {}", changed.kind, plain(&changed.id));
    let mut text = out::styled(style, &line) + "\n";
    for Differs { member, before, after } in &changed.members {
        let member = plain(member);
        text += &match (before, after) {
            (Some(before), Some(after)) => {
                format!("    {member}: {} → {}\n", shown(before), shown(after))
            }
            (None, Some(after)) => format!("    {member}: {}\n", shown(after)),
            (Some(before), None) => format!("    {member}: {} → not given\n", shown(before)),
            (None, None) => String::new(),
        };
    }
    text
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let text = plain(&text);
    match VALUE < text.chars().count() {
        true => format!("{}…", text.chars().take(VALUE).collect::<String>()),
        false => text.into_owned(),
    }
}

fn identities(compared: &[Compared]) -> String {
    let (affected, others): (Vec<&Compared>, Vec<&Compared>) =
        compared.iter().partition(|compared| compared.is_affected());
    if compared.is_empty() {
        return String::new();
    }
    let row = |Compared { name, effect }: &&Compared| {
        let Effect { gained, lost, renamed, before, after, tokens_change } = effect;
        vec![
            name.clone(),
            format!("{} → {}", before.tools, after.tools),
            signed(gained.len(), '+'),
            signed(lost.len(), '-'),
            renamed.len().to_string(),
            format!("{tokens_change:+}"),
        ]
    };
    let title = match (affected.len(), others.len()) {
        (0, others) => counted(others, "identity stays as it is", "identities stay as they are"),
        (affected, 0) => counted(affected, "identity", "identities"),
        (affected, others) => {
            let affected = counted(affected, "identity", "identities");
            affected + "; " + &counted(others, "more stays as it is", "more stay as they are")
        }
    };
    let columns = ["IDENTITY", "HAS", "GAINS", "LOSES", "RENAMED", "TOKENS"];
    let mut text = section(&title, &columns, affected.iter().map(row).collect());
    for Compared { name, effect } in affected {
        let Effect { gained, lost, renamed, before, after, .. } = effect;
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
            .chain(some(gained.iter().map(|tool| format!("  + {tool}"))))
            .chain(some(lost.iter().map(|tool| format!("  - {tool}"))))
            .chain(some(renamed));
        text += &format!("\n{}\n", plain(name));
        lines.for_each(|line| text += &format!("{}\n", plain(&line)));
    }
    text
}

fn signed(count: usize, sign: char) -> String {
    if count == 0 { "0".to_owned() } else { format!("{sign}{count}") }
}

/// The first lines, and the number of omitted ones.
fn some(mut lines: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = lines.len().saturating_sub(TOOLS);
    let mut some: Vec<String> = lines.by_ref().take(TOOLS).collect();
    if 0 < more {
        some.push(format!("  and {more} more"));
    }
    some
}
