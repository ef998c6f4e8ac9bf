//! Runs every command of the documentation as a reader would, and compares the output with the page.
//!
//! Commands are the lines that start with `$ ` in blocks marked `console`. Each page has its own folder, home and
//! network. CONTRIBUTING.md has the rules for authors of pages.

#[path = "book/likeness.rs"]
mod likeness;
#[path = "book/page.rs"]
mod page;
#[path = "book/reader.rs"]
mod reader;
#[path = "book/shell.rs"]
mod shell;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use page::{Page, pages};
use reader::Reader;

/// Commands that the test skips: page, beginning, and reason. An entry that matches no command fails a test.
const NOT_RUN: [(&str, &str, &str); 18] = [
    ("CONTRIBUTING.md", "cargo ", "builds; `xtask` tests that it knows each of its commands"),
    ("README.md", "cargo run ", "builds; `cargo xtask fresh` runs it"),
    ("README.md", "cargo xtask test", "it runs this test; `cargo xtask fresh` runs it"),
    ("README.md", "toolcrib discover -- npx", "a server of others; `cargo xtask servers --try`"),
    ("README.md", "toolcrib call get-sum", "a server of others; `cargo xtask servers --try`"),
    (
        "README.md",
        "toolcrib --journal postgres:",
        "a database of the reader; `export_import` has one",
    ),
    (
        "README.md",
        "toolcrib journal export | toolcrib --journal postgres:",
        "a database of the reader; `export_import` has one",
    ),
    ("docs/agents.md", "cargo run ", "builds, and needs a model; `examples` tests the program"),
    ("docs/embedding.md", "mcp ", "asks the reader's own program; `examples` asks one like it"),
    ("docs/index.md", "cargo build ", "builds; `cargo xtask fresh` runs the like"),
    ("docs/index.md", "toolcrib serve https:", "an API of the reader's; `first` has some"),
    ("docs/index.md", "toolcrib call ", "a tool of the reader's; `first` calls some"),
    ("docs/operations.md", "docker ", "needs Docker; `cargo xtask test --only packaging` reads it"),
    ("docs/operations.md", "sudo ", "changes the system; `--only packaging` reads the unit"),
    ("docs/start.md", "toolcrib serve https:", "a server of the reader's; `first` has some"),
    ("docs/start.md", "toolcrib serve -- npx", "a server of others; `cargo xtask servers --try`"),
    ("docs/upstreams.md", "toolcrib discover ", "servers of others; `cargo xtask servers --try`"),
    ("docs/upstreams.md", "toolcrib call echo", "a server of others; `cargo xtask servers --try`"),
];

/// Pages that assume the example at the beginning of `docs/access.md`.
const BASED_ON_EXAMPLE: [&str; 6] = [
    "docs/builtin.md",
    "docs/custom.md",
    "docs/operations.md",
    "docs/record.md",
    "docs/search.md",
    "docs/workflows.md",
];

#[test]
fn every_documented_command_prints_what_its_page_shows() {
    let pages = pages();
    let example = pages.iter().find(|page| page.name == "docs/access.md").unwrap();
    let mistakes = Mutex::new(Vec::new());
    let waiting = Mutex::new(pages.iter());
    let next = || waiting.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while let Some(page) = next() {
                    let found = mistakes_of(page, example);
                    mistakes.lock().unwrap().extend(found);
                }
            });
        }
    });
    let mistakes = mistakes.into_inner().unwrap();
    assert!(mistakes.is_empty(), "{} mistakes\n\n{}", mistakes.len(), mistakes.join("\n\n"));
}

/// Runs a page from beginning to end and returns its errors.
fn mistakes_of(page: &Page, example: &Page) -> Vec<String> {
    if page.commands.iter().all(|command| reason_to_skip(page, &command.text).is_some()) {
        return Vec::new();
    }
    let mut reader = Reader::new();
    if BASED_ON_EXAMPLE.contains(&page.name.as_str()) {
        let first = example.commands.iter().filter(|command| command.heading == "An example");
        for command in first {
            reader.read(&example.name, command);
        }
    }
    for command in &page.commands {
        if reason_to_skip(page, &command.text).is_none() {
            reader.read(&page.name, command);
        }
    }
    reader.finish(&page.name)
}

fn reason_to_skip(page: &Page, command: &str) -> Option<&'static str> {
    let mut listed = NOT_RUN.iter().filter(|(name, _, _)| *name == page.name);
    listed.find(|(_, beginning, _)| command.starts_with(beginning)).map(|(_, _, reason)| *reason)
}

#[test]
fn every_skipped_command_is_still_on_its_page() {
    let pages = pages();
    let is_there = |name: &str, beginning: &str| {
        let mut commands = pages.iter().filter(|page| page.name == name).flat_map(|p| &p.commands);
        commands.any(|command| command.text.starts_with(beginning))
    };
    let gone: Vec<_> = NOT_RUN.iter().filter(|(name, start, _)| !is_there(name, start)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let names: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let gone: Vec<_> = BASED_ON_EXAMPLE.iter().filter(|name| !names.contains(*name)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn commands_are_in_console_blocks() {
    let odd: Vec<String> = pages().into_iter().flat_map(|page| page.odd_blocks).collect();
    assert!(odd.is_empty(), "a block of commands is `console`, each behind `$ `: {odd:#?}");
}
