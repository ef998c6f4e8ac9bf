//! Reports arguments that the schema does not declare, which are most likely misspelt.

use model::has_indirect_properties;
use serde_json::{Map, Value};

use super::{InvalidArgument, MAX_PROBLEMS, UndeclaredArguments};

/// Whether arguments that `properties` does not declare are rejected.
pub(super) fn rejects_undeclared(schema: &Value, others: UndeclaredArguments) -> bool {
    match schema.get("additionalProperties") {
        None => others == UndeclaredArguments::Rejected && !has_indirect_properties(schema),
        Some(additional) => {
            *additional == Value::Bool(false) && schema.get("patternProperties").is_none()
        }
    }
}

/// The problems of undeclared arguments by a closed schema.
pub(super) fn undeclared_problems(
    schema: &Value,
    arguments: &Map<String, Value>,
) -> Vec<InvalidArgument> {
    let none = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let unknown = arguments.keys().filter(|name| !known.contains_key(*name));
    // Limited, because only some are reported and the search for the nearest name takes time.
    unknown
        .take(MAX_PROBLEMS)
        .map(|name| InvalidArgument::new("", &undeclared_message(name, known)))
        .collect()
}

fn undeclared_message(name: &str, known: &Map<String, Value>) -> String {
    let short: String = name.chars().take(64).collect();
    let nearest = known.keys().min_by_key(|known| edit_distance(name, known));
    match nearest.filter(|known| edit_distance(name, known) <= 1 + known.len() / 4) {
        Some(known) => format!("there is no argument `{short}`; did you mean `{known}`?"),
        None => format!("there is no argument `{short}`"),
    }
}

/// The Levenshtein distance of two names, ignoring case; `usize::MAX` for long names, where it would take too long.
pub fn edit_distance(a: &str, b: &str) -> usize {
    if 64 < a.len() || 64 < b.len() {
        return usize::MAX;
    }
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(corner + 1);
        }
    }
    row[row.len() - 1]
}
