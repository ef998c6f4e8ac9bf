//! Responses of the admin API as text: tables of entities, and single entities.

use jiff::Timestamp;
use serde_json::Value;

use super::AdminEntity;
use crate::arguments::JsonFlag;
use crate::cli_error::CliError;
use crate::output;
use crate::text_table::table_section;

/// The columns of an entity: a title, and the path of the field.
fn entity_columns(thing: AdminEntity) -> &'static [(&'static str, &'static str)] {
    match thing {
        AdminEntity::Source => &[
            ("ID", "id"),
            ("KIND", "kind"),
            ("HEALTH", "health"),
            ("ENABLED", "is_enabled"),
            ("TOOLS", "tools.total"),
            ("SERVED", "tools.served"),
            ("OTHERS", "tools.others"),
            ("NAME", "name"),
        ],
        AdminEntity::Tool => &[
            ("ID", "id"),
            ("STATUS", "status"),
            ("ENABLED", "is_enabled"),
            ("REVIEW", "review"),
            ("DESCRIPTION", "description"),
        ],
        AdminEntity::Group => &[
            ("ID", "id"),
            ("ACTIVE", "is_active"),
            ("TOOLS", "tool_count"),
            ("SERVED", "served_count"),
            ("NAME", "name"),
        ],
        AdminEntity::Policy => &[
            ("ID", "id"),
            ("ACTIVE", "is_active"),
            ("PRIORITY", "priority"),
            ("GROUPS", "groups"),
            ("NAME", "name"),
        ],
        AdminEntity::Label => {
            &[("ID", "id"), ("COLOUR", "colour"), ("NAME", "name"), ("DESCRIPTION", "description")]
        }
        AdminEntity::Key => &[
            ("ID", "id"),
            ("ADMIN", "admin"),
            ("REVOKED", "is_revoked"),
            ("EXPIRES", "expires_at"),
            ("CLAIMS", "claims"),
            ("NAME", "name"),
        ],
    }
}

/// Maximum length of a cell, in characters.
const MAX_CELL_CHARS: usize = 60;

pub(super) fn print_list(
    thing: AdminEntity,
    rows: &[Value],
    format: &JsonFlag,
) -> Result<(), CliError> {
    if format.json {
        return output::print_json(&rows);
    }
    let many = match thing {
        AdminEntity::Policy => "policies".to_owned(),
        thing => format!("{}s", thing.noun()),
    };
    print_table(&output::count_noun(rows.len(), thing.noun(), &many), entity_columns(thing), rows)
}

pub(super) fn print_group_tools(rows: &[Value], format: &JsonFlag) -> Result<(), CliError> {
    if format.json {
        return output::print_json(&rows);
    }
    let columns = [("ID", "tool_id"), ("SERVED", "is_served"), ("EXPLICIT", "is_explicit")];
    print_table(&output::count_noun(rows.len(), "tool", "tools"), &columns, rows)
}

/// Prints search results, best first.
pub(crate) fn print_search_results(rows: &[Value], format: &JsonFlag) -> Result<(), CliError> {
    if format.json {
        return output::print_json(&rows);
    }
    let columns = [
        ("SCORE", "score"),
        ("NAME", "name"),
        ("SOURCE", "source"),
        ("SERVED", "is_served"),
        ("DESCRIPTION", "description"),
    ];
    print_table(&output::count_noun(rows.len(), "tool", "tools"), &columns, rows)
}

/// Prints the history of an entity, newest event last.
pub(super) fn print_history(rows: &[Value], format: &JsonFlag) -> Result<(), CliError> {
    if format.json {
        return output::print_json(&rows);
    }
    let columns = [
        ("EVENT", "position"),
        ("TIME", "time"),
        ("WHO", "actor"),
        ("WHAT", "type"),
        ("SAYING", "data"),
    ];
    let cut = |row: &Value| {
        let mut row = row.clone();
        if let Some(time) = row["time"].as_str().and_then(|time| time.parse::<Timestamp>().ok()) {
            row["time"] = format!("{time:.3}").into();
        }
        row
    };
    let rows: Vec<Value> = rows.iter().map(cut).collect();
    print_table(&output::count_noun(rows.len(), "event", "events"), &columns, &rows)
}

fn print_table(title: &str, columns: &[(&str, &str)], rows: &[Value]) -> Result<(), CliError> {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let row = |row: &Value| columns.iter().map(|(_, member)| cell_text(row, member)).collect();
    let text = table_section(title, &titles, rows.iter().map(row).collect());
    output::print_text(text.trim_start_matches('\n'))
}

/// The value at a field path as the text of a cell.
fn cell_text(row: &Value, path: &str) -> String {
    let value = path.split('.').fold(row, |value, name| &value[name]);
    let text = match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.lines().next().unwrap_or_default().to_owned(),
        Value::Array(items) => {
            let texts = items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    };
    match text.chars().nth(MAX_CELL_CHARS) {
        Some(_) => text.chars().take(MAX_CELL_CHARS).chain(['…']).collect(),
        None => text,
    }
}

/// Prints one entity, with one line for each field.
pub(crate) fn print_entity(thing: &Value, format: &JsonFlag) -> Result<(), CliError> {
    let (false, Value::Object(members)) = (format.json, thing) else {
        return output::print_json(thing);
    };
    let width = members.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in members {
        let written = match value {
            Value::String(one) if !one.contains('\n') => {
                output::escape_for_terminal(one).into_owned()
            }
            Value::Null => "–".to_owned(),
            Value::Object(_) | Value::Array(_) => {
                let indent = format!("\n{:width$}  ", "");
                let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
                let lines: Vec<_> = pretty.lines().map(output::escape_for_terminal).collect();
                lines.join(&indent)
            }
            other => output::escape_for_terminal(&other.to_string()).into_owned(),
        };
        text += &format!("{name:width$}  {written}\n");
    }
    output::print_text(&text)
}

pub(super) fn print_added(
    thing: AdminEntity,
    made: &Value,
    format: &JsonFlag,
) -> Result<(), CliError> {
    if format.json {
        return output::print_json(made);
    }
    let id = made["id"].as_str().unwrap_or_default();
    let mut text = format!("added {} `{}`\n", thing.noun(), output::escape_for_terminal(id));
    if let Some(key) = made["key"].as_str() {
        text += &format!("\nThe key, shown only now:\n  {key}\n");
    }
    output::print_text(&text)
}

pub(super) fn print_refresh_result(result: &Value, format: &JsonFlag) -> Result<(), CliError> {
    if format.json {
        return output::print_json(result);
    }
    let count = |name: &str| result[name].as_u64().unwrap_or(0);
    let parts = ["created", "updated", "unchanged", "deprecated", "restored"];
    let parts: Vec<String> = parts
        .iter()
        .filter(|name| count(name) != 0)
        .map(|name| format!("{} {name}", count(name)))
        .collect();
    let tools = output::count_noun(count("discovered") as usize, "tool", "tools");
    let mut text = match parts.is_empty() {
        true => format!("{tools}\n"),
        false => format!("{tools}: {}\n", parts.join(", ")),
    };
    for warning in result["warnings"].as_array().into_iter().flatten() {
        let message = warning["message"].as_str().or(warning.as_str()).unwrap_or_default();
        text += &format!("warning: {}\n", output::escape_for_terminal(message));
    }
    output::print_text(&text)
}
