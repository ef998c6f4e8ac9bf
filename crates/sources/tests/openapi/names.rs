//! Tool names: valid, unique and stable for any specification (requirement O5).

use super::{discovered, names};

/// The tool names for these operation ids, of `GET /a`, `GET /b`, …
fn tool_names(ids: &[&str]) -> Vec<String> {
    let mut paths = serde_json::Map::new();
    for (letter, id) in ('a'..).zip(ids) {
        let operation = serde_json::json!({"get": {"operationId": id}});
        paths.insert(format!("/{letter}"), operation);
    }
    let specification = serde_json::json!({"openapi": "3.1.0", "paths": paths}).to_string();
    let found = discovered(&specification);
    let mut tools: Vec<_> = found.inventory.tools.values().collect();
    tools.sort_by_key(|tool| tool.manifest.path.clone());
    tools.into_iter().map(|tool| tool.manifest.name.to_string()).collect()
}

#[test]
fn confusable_long_empty_and_reserved_ids_become_distinct_valid_names() {
    let long = "x".repeat(200);
    let ids = [
        "listPizzas",
        "ListPizzas",
        "list pizzas",
        "list/pizzas",
        "lіstPizzas",
        &long,
        "",
        " ",
        "🍕",
        "tool_search",
        "execute_tool",
        "list:pizzas",
        "listPizzas\0",
    ];
    let names = tool_names(&ids);
    assert_eq!(names.len(), ids.len());
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for name in &names {
        assert!((1..=64).contains(&name.len()) && name.chars().all(legal), "{name}");
        assert!(!["tool_search", "execute_tool"].contains(&name.as_str()), "{name}");
    }
    let lower: std::collections::HashSet<_> =
        names.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(lower.len(), ids.len());
    assert_eq!(names, tool_names(&ids));
}

#[test]
fn a_tool_id_names_its_source_despite_colons_in_the_operation_id() {
    let specification =
        "{openapi: 3.1.0, paths: {/a: {get: {operationId: 'b:c'}}, /b: {get: {operationId: 'c'}}}}";
    let found = discovered(specification);
    let ids: Vec<&str> = found.inventory.tools.keys().map(|id| id.as_str()).collect();
    assert_eq!(ids, ["pizzeria:b:c", "pizzeria:c"]);
    assert_eq!(names(&found), ["b_c", "c"]);
    // `pizzeria:b` is not a valid source id, so the tool id is unambiguous.
    assert!("pizzeria:b".parse::<model::SourceId>().is_err());
}

#[test]
fn a_name_is_stable_when_operations_are_added_or_removed() {
    assert_eq!(tool_names(&["one", "two", "two"])[0], "one");
    let three = tool_names(&["one", "two", "two"]);
    let four = tool_names(&["one", "two", "two", "two"]);
    assert_eq!(three, four[..3]);
}
