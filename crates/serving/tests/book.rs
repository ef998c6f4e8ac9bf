//! Every command of the documentation is run, as a reader would type it, and says what the page says.
//!
//! The commands are the lines with `$ ` in blocks marked `console`. Each page has a folder, a home and a network of its
//! own. CONTRIBUTING.md has the rules for who writes a page.

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

/// Commands that no test runs: the page, how they begin, and why. One that is on no page any more is a mistake.
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

/// Pages for readers who have done the example that `docs/access.md` begins with.
const GO_ON: [&str; 6] = [
    "docs/builtin.md",
    "docs/custom.md",
    "docs/operations.md",
    "docs/record.md",
    "docs/search.md",
    "docs/workflows.md",
];

#[test]
fn every_command_of_the_documentation_does_what_the_page_says() {
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

/// Reads a page from its beginning to its end.
fn mistakes_of(page: &Page, example: &Page) -> Vec<String> {
    if page.commands.iter().all(|command| why_not(page, &command.text).is_some()) {
        return Vec::new();
    }
    let mut reader = Reader::new();
    if GO_ON.contains(&page.name.as_str()) {
        let first = example.commands.iter().filter(|command| command.heading == "An example");
        for command in first {
            reader.read(&example.name, command);
        }
    }
    for command in &page.commands {
        if why_not(page, &command.text).is_none() {
            reader.read(&page.name, command);
        }
    }
    reader.end(&page.name)
}

fn why_not(page: &Page, command: &str) -> Option<&'static str> {
    let mut listed = NOT_RUN.iter().filter(|(name, _, _)| *name == page.name);
    listed.find(|(_, beginning, _)| command.starts_with(beginning)).map(|(_, _, reason)| *reason)
}

#[test]
fn whatever_is_not_run_is_still_on_its_page() {
    let pages = pages();
    let is_there = |name: &str, beginning: &str| {
        let mut commands = pages.iter().filter(|page| page.name == name).flat_map(|p| &p.commands);
        commands.any(|command| command.text.starts_with(beginning))
    };
    let gone: Vec<_> = NOT_RUN.iter().filter(|(name, start, _)| !is_there(name, start)).collect();
    assert!(gone.is_empty(), "{gone:?}");
    let names: BTreeSet<&str> = pages.iter().map(|page| page.name.as_str()).collect();
    let gone: Vec<_> = GO_ON.iter().filter(|name| !names.contains(*name)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn commands_stand_in_blocks_that_are_looked_at() {
    let odd: Vec<String> = pages().into_iter().flat_map(|page| page.odd_blocks).collect();
    assert!(odd.is_empty(), "a block of commands is `console`, each behind `$ `: {odd:#?}");
}
