//! The first two commands of the README.

use crate::xtask_error::XtaskError;

const HEADING: &str = "## Two commands";

/// The commands of the two code blocks below the heading.
pub(super) fn readme_commands(readme: &str) -> Result<[String; 2], XtaskError> {
    let section = readme.lines().skip_while(|line| *line != HEADING).skip(1);
    let mut lines = section.take_while(|line| !line.starts_with("## "));
    let mut commands = Vec::new();
    while lines.any(|line| line == "```console") {
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let [line] = block.as_slice() else {
            return Err(XtaskError::new(format!("a block below `{HEADING}` is not one command")));
        };
        let command = line.strip_prefix("$ ");
        let command = command.ok_or_else(|| XtaskError::new(format!("`{line}` is no command")))?;
        commands.push(command.to_owned());
    }
    commands.try_into().map_err(|found: Vec<String>| {
        XtaskError::new(format!("there are {} commands below `{HEADING}`, not two", found.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn our_readme_has_two_commands() {
        let readme = workspace::read_file(&workspace::workspace_root().join("README.md")).unwrap();
        let [first, second] = readme_commands(&readme).unwrap();
        assert!(first.starts_with("cargo run ") && first.ends_with(" serve --demo"), "{first}");
        assert_eq!(second, "cargo xtask test");
    }

    #[test]
    fn blocks_outside_of_the_section_are_ignored() {
        let block = |command: &str| format!("```console\n$ {command}\n```\n");
        let section = |heading: &str, text: String| format!("## {heading}\n\n{text}\n");
        let two = section("Two commands", block("one") + "and\n" + &block("two"));
        let readme = section("Before", block("zero")) + &two + &section("Behind", block("three"));
        assert_eq!(readme_commands(&readme).unwrap(), ["one", "two"]);
        assert!(readme_commands(&section("Two commands", block("one"))).is_err());
        assert!(readme_commands(&section("Other", block("one") + &block("two"))).is_err());
        assert!(
            readme_commands(&section("Two commands", block("one\nsaid") + &block("two"))).is_err()
        );
    }
}
