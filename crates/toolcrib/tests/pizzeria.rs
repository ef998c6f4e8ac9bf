//! The example of the README: the content of `examples/pizzeria.jsonl`, and that its program still writes it.

use std::collections::BTreeMap;

use catalog::tool::{ReviewState, Tool};
use toolcrib::{Catalog, JournalImport, JournalLocation, Snapshot, SystemClock};

#[expect(dead_code, reason = "the program's `main` only writes the file")]
#[path = "../examples/pizzeria.rs"]
mod program;

const FILE: &str = include_str!("../../../examples/pizzeria.jsonl");

#[tokio::test]
async fn the_example_program_writes_the_committed_file() {
    // After an intended change of the stored events, run the example again; its opening comment shows the command.
    assert!(program::journal().await.unwrap() == FILE, "examples/pizzeria.jsonl is not up to date");
}

#[tokio::test]
async fn the_pizzeria_is_imported_and_served() {
    let journal = JournalLocation::Memory.open(SystemClock).await.unwrap();
    let mut import = JournalImport::new(&*journal).await.unwrap();
    for line in FILE.lines() {
        import.import_line(line).await.unwrap();
    }
    import.finish().await.unwrap();
    let catalog = Catalog::open(journal).await.unwrap();
    let snapshot = catalog.snapshot();

    let sources = snapshot.sources().map(|entry| (entry.source.id.as_str(), entry.tools.len()));
    assert_eq!(sources.collect::<Vec<_>>(), [("kitchen", 2), ("menu", 3), ("orders", 3)]);
    assert_eq!(
        groups(&snapshot),
        BTreeMap::from([
            ("guest-read", vec!["menu:get_pizza", "menu:list_pizzas", "orders:get_order"]),
            (
                "staff",
                vec![
                    "kitchen:oven_status",
                    "menu:get_pizza",
                    "menu:list_pizzas",
                    "orders:cancel_order",
                    "orders:get_order",
                    "orders:place_order",
                ]
            ),
        ])
    );
    assert_eq!(pending_tools(&snapshot), ["kitchen:set_oven_temperature"]);
    let policies: Vec<_> = snapshot.policies().map(|policy| policy.id.as_str()).collect();
    let labels: Vec<_> = snapshot.labels().map(|label| label.id.as_str()).collect();
    assert_eq!((policies, labels), (vec!["guests", "staff"], vec!["money", "pii"]));
}

/// The tools that each group serves.
fn groups(snapshot: &Snapshot) -> BTreeMap<&str, Vec<&str>> {
    let tools = |id| {
        let served = snapshot.group_tools(id).unwrap_or_default();
        let tool = |slot| Some(snapshot.tool_at(slot)?.tool.id.as_str());
        let mut ids: Vec<_> = served.iter().filter_map(tool).collect();
        ids.sort_unstable();
        ids
    };
    snapshot.groups().map(|entry| (entry.group.id.as_str(), tools(&entry.group.id))).collect()
}

/// Tools that are pending review.
fn pending_tools(snapshot: &Snapshot) -> Vec<&str> {
    let waits = |tool: &&Tool| tool.review == ReviewState::Waiting;
    snapshot.tools().map(|entry| &entry.tool).filter(waits).map(|tool| tool.id.as_str()).collect()
}
