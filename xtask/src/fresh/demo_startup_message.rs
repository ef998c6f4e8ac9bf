//! The startup message of the demo: lines to paste into a second terminal.

use crate::xtask_error::XtaskError;

/// The lines that a newcomer pastes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DemoStartupMessage {
    /// The line that exports the keys; all other lines need it.
    pub(super) exports: String,
    pub(super) lines: Vec<PastedLine>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PastedLine {
    pub(super) command: String,
    /// The expected exit code. `explain` explains a tool that is not granted, for which it exits with 3.
    pub(super) exit_code: i32,
}

/// Whether this is the last line of the startup message.
pub(super) fn is_last(line: &str) -> bool {
    line.trim_start().starts_with("# Done")
}

impl DemoStartupMessage {
    pub(super) fn parse(said: &[String]) -> Result<Self, XtaskError> {
        let lines = said.iter().map(|line| line.trim());
        let mut lines = lines.skip_while(|line| !line.starts_with("export "));
        let exports = lines.next().ok_or_else(|| XtaskError::new("it greets without any key"))?;
        let commands = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines: Vec<PastedLine> = commands.map(PastedLine::new).collect();
        if lines.is_empty() {
            return Err(XtaskError::new("it greets without a line to paste"));
        }
        Ok(Self { exports: exports.to_owned(), lines })
    }
}

impl PastedLine {
    fn new(command: &str) -> Self {
        let exit_code = if command.contains(" explain ") { 3 } else { 0 };
        Self { command: command.to_owned(), exit_code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
toolcrib serves on http://127.0.0.1:8080
  MCP       http://127.0.0.1:8080/mcp

Paste into another terminal, line by line:

  export COOK=a WAITER=b ADMIN=c

  # What the cook may use
  toolcrib discover http://127.0.0.1:8080/mcp --bearer env:COOK

  # Why the cook cannot order
  TOOLCRIB_KEY=$ADMIN toolcrib explain --server http://127.0.0.1:8080 --tool place_order

  # Done: Ctrl-C ends it, and everything is gone
";

    fn said(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_are_the_lines_without_comments() {
        let greeting = DemoStartupMessage::parse(&said(SAID)).unwrap();
        assert_eq!(greeting.exports, "export COOK=a WAITER=b ADMIN=c");
        let codes: Vec<i32> = greeting.lines.iter().map(|line| line.exit_code).collect();
        assert_eq!(codes, [0, 3]);
        assert!(greeting.lines[0].command.ends_with("--bearer env:COOK"));
        assert_eq!(SAID.lines().filter(|line| is_last(line)).count(), 1);
    }

    #[test]
    fn a_startup_message_without_lines_to_paste_is_a_failure() {
        assert!(
            DemoStartupMessage::parse(&said("toolcrib serves on http://127.0.0.1:8080")).is_err()
        );
        assert!(DemoStartupMessage::parse(&said("  export COOK=a\n  # Done")).is_err());
    }
}
