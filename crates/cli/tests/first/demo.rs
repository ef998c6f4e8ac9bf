//! `toolcrib serve --demo`: every command that it prints works as announced.

use super::running::{Running, run_in_shell};
use crate::support::Folder;

/// For each printed command: a word in it, parts of its output, and its exit code.
const EXPECTED: [(&str, &[&str], i32); 7] = [
    ("discover", &["3 tools", "bake_order", "list_orders", "list_pizzas"], 0),
    ("discover", &["3 tools", "get_order", "list_pizzas", "place_order"], 0),
    ("tool_search", &["get_order"], 0),
    ("place_order", &[r#""number": 1"#, r#""state": "ordered""#], 0),
    ("bake_order", &[r#""state": "baked""#], 0),
    ("get_order", &[r#""table": 7"#, r#""state": "baked""#], 0),
    (
        "explain",
        &["place_order: not granted", "`role` is \"cook\": it does not equal \"waiter\""],
        3,
    ),
];

#[test]
fn every_command_of_the_demo_works_as_announced() {
    let folder = Folder::empty();
    let running = Running::start(&folder, "--demo", "  # Done");
    let lines = running.said.lines().skip_while(|line| !line.contains("export COOK="));
    let mut lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let export = lines.next().unwrap();
    let commands: Vec<&str> = lines.collect();
    assert_eq!(commands.len(), EXPECTED.len(), "{}", running.said);
    for (command, (word, said, code)) in commands.iter().zip(EXPECTED) {
        assert!(command.contains(word), "{command}");
        let (ended, heard) = run_in_shell(&folder, &format!("{export}\n{command}"));
        assert_eq!(ended, Some(code), "{command}: {heard}");
        assert!(said.iter().all(|said| heard.contains(said)), "{command}: {heard}");
    }
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn the_demo_cannot_be_combined_with_a_journal() {
    let run = Folder::empty().run("serve --demo --journal crib.db");
    insta::assert_snapshot!(run.seen(), @"
    stderr: error: nothing of the demo is kept: leave --journal away, and the variable TOOLCRIB_JOURNAL empty
    exit code: 1
    ");
}
