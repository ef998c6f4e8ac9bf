//! The pages of the documentation and the commands on them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is an answer")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

/// Root folder of the repository.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Page with at least one command.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) commands: Vec<Command>,
    /// Shell blocks that are not marked `console` or contain no command.
    pub(crate) odd_blocks: Vec<String>,
}

/// A command and the output shown for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) heading: String,
    pub(crate) text: String,
    /// Empty if the page does not show the output.
    pub(crate) output: Vec<String>,
}

/// `README.md`, `CONTRIBUTING.md`, and all pages below `docs/`.
pub(crate) fn pages() -> Vec<Page> {
    let root = Path::new(ROOT);
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    add_pages_below(&root.join("docs"), &mut files);
    let pages = files.iter().map(|file| {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap();
        Page::read(name, &fs::read_to_string(file).unwrap())
    });
    pages.filter(|page| !page.commands.is_empty() || !page.odd_blocks.is_empty()).collect()
}

fn add_pages_below(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|path| path.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add_pages_below(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
}

impl Page {
    pub(crate) fn read(name: &str, text: &str) -> Self {
        let mut page = Self { name: name.to_owned(), commands: vec![], odd_blocks: vec![] };
        let mut heading = String::new();
        let mut lines = text.lines().zip(1..);
        while let Some((line, number)) = lines.next() {
            if let Some(title) = line.strip_prefix("## ") {
                title.clone_into(&mut heading);
            }
            let Some(language) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            let end = |line: &str| line.trim_start().starts_with("```");
            let block: Vec<_> = lines.by_ref().take_while(|(line, _)| !end(line)).collect();
            let commands = commands(&heading, &block);
            let looked_at = language == "console";
            let for_a_shell = looked_at || ["sh", "bash", "shell"].contains(&language);
            if for_a_shell && (commands.is_empty() || !looked_at) {
                page.odd_blocks.push(format!("{name}:{number}"));
            }
            if looked_at {
                page.commands.extend(commands);
            }
        }
        page
    }
}

/// A `$ ` starts a command. Following lines belong to it until the shell can parse it; the rest is its output.
fn commands(heading: &str, block: &[(&str, usize)]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for (line, number) in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (None, Some(command)) if command.output.is_empty() && !is_complete(&command.text) => {
                command.text += &format!("\n{line}");
            }
            (Some(text), _) => commands.push(Command {
                line: *number,
                heading: heading.to_owned(),
                text: text.to_owned(),
                output: Vec::new(),
            }),
            (None, Some(command)) => command.output.push((*line).to_owned()),
            (None, None) => {}
        }
    }
    commands
}

#[expect(clippy::disallowed_methods, reason = "only a shell knows its language")]
fn is_complete(command: &str) -> bool {
    let mut shell = Process::new("/bin/bash");
    let read = shell.args(["-n", "-c", command]).env_clear().output().unwrap();
    !command.ends_with('\\') && read.status.success()
}

#[test]
fn a_command_continues_until_it_is_complete() {
    let block = "```console\n$ curl a |\n    jq \\\n  '{b:\n c}'\n{\"b\":\n$ true  # yes\n```\n";
    let text = format!("## One\n\n{block}\n```console\nsaid\n```\n```sh\n$ ls\n```\n");
    let page = Page::read("page.md", &text);
    let texts: Vec<_> = page.commands.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(texts, ["curl a |\n    jq \\\n  '{b:\n c}'", "true  # yes"]);
    assert_eq!(page.commands[0].output, ["{\"b\":"]);
    assert_eq!((page.commands[1].line, page.commands[1].heading.as_str()), (9, "One"));
    assert_eq!(page.odd_blocks, ["page.md:12", "page.md:15"]);
}
