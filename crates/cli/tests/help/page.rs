//! `docs/reference/cli.md`: the help of every verb on one page.

use super::help;
use crate::reference_page::assert_page;

const OPENING: &str = "\
# Command line

<!-- Made from the code by a test; change it there. -->

Every verb with its options, as `--help` says it. Results are on standard output, everything else on standard error.

| Exit code | Means |
|---|---|
| 0 | all went well |
| 1 | it did not; standard error says why and what to do |
| 2 | wrong usage; of `toolcrib plan`, something would change |
| 3 | a check found something, or a tool is not granted |
| 4 | there is no such thing |
| 5 | not allowed |
| 6 | something else is in the way |
";

#[test]
fn the_page_of_the_command_line_has_every_verb() {
    let mut page = OPENING.to_owned();
    let mut verbs = vec![String::new()];
    while let Some(verb) = verbs.pop() {
        let text = help(&verb);
        page += format!("\n## toolcrib {verb}").trim_end();
        page += &format!("\n\n```text\n{text}\n```\n");
        let inside = commands(&text).map(|name| format!("{verb} {name}").trim_start().to_owned());
        let inside: Vec<String> = inside.collect();
        verbs.extend(inside.into_iter().rev());
    }
    assert!(20 < page.matches("\n## ").count());
    assert_page("cli.md", &page);
}

/// Verbs listed in a help text: indented by two spaces; continuation lines are indented further.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty() && *name != "help")
}
