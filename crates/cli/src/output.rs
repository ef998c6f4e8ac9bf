//! Output: results to stdout, notes to stderr; and escaping of foreign text for a terminal.

use std::io;
use std::io::{IsTerminal as _, Write as _};
use std::sync::LazyLock;

pub(crate) use execution::escape_for_terminal;
use execution::escape_json;
use serde::Serialize;

use crate::arguments::{JsonFlag, VerbOutcome};
use crate::cli_error::CliError;
use crate::environment;

/// Writes a result to stdout, with a final newline.
pub(crate) fn print_text(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    let line_end = if text.ends_with('\n') { "" } else { "\n" };
    let written =
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(line_end.as_bytes()));
    written.and_then(|()| stdout.flush()).map_err(CliError::Output)
}

/// Writes a result to stdout as indented JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    print_text(&escape_json(&serde_json::to_string_pretty(value).expect("what we print is JSON")))
}

/// A style for emphasis on terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Bold,
    /// Success, or an addition.
    Green,
    /// A warning, or a change.
    Yellow,
    /// A failure, or a removal.
    Red,
}

/// The styled text, if stdout is a terminal whose user wants colours (`NO_COLOR`, `TERM=dumb`).
pub(crate) fn style_text(style: TextStyle, text: &str) -> String {
    static HAS_STYLES: LazyLock<bool> = LazyLock::new(|| {
        let given = |name| environment::env_variable(name).ok().flatten();
        let is_dumb = given("TERM").is_some_and(|kind| kind == "dumb");
        io::stdout().is_terminal() && given("NO_COLOR").is_none() && !is_dumb
    });
    if !*HAS_STYLES {
        return text.to_owned();
    }
    let code = match style {
        TextStyle::Bold => 1,
        TextStyle::Red => 31,
        TextStyle::Green => 32,
        TextStyle::Yellow => 33,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Writes a line to stderr. Errors are ignored: a note is optional.
pub(crate) fn print_note(text: &str) {
    drop(writeln!(io::stderr(), "{}", escape_for_terminal(text)));
}

/// Writes lines to stderr, all but the first indented: foreign text cannot imitate our own messages.
pub(crate) fn print_notes(text: &str) {
    for (number, line) in text.lines().enumerate() {
        print_note(&format!("{}{line}", if number == 0 { "" } else { "  " }));
    }
}

/// Whether the program can ask the user a question.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation; without a terminal, the answer is yes.
pub(crate) async fn confirm(question: &str) -> Result<bool, CliError> {
    if !is_interactive() {
        return Ok(true);
    }
    let question = format!("{question} [y/N] ");
    let answer = tokio::task::spawn_blocking(move || {
        write!(io::stderr(), "{question}")?;
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await.expect("reading does not panic").map_err(CliError::Stdin)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// A count with its noun: `1 tool`, `2 tools`.
pub(crate) fn count_noun(count: usize, one: &str, many: &str) -> String {
    let word = if count == 1 { one } else { many };
    format!("{count} {word}")
}

/// Prints the result of a verification, and returns the outcome of the verb.
pub(crate) fn print_verified<V: Serialize>(
    format: &JsonFlag,
    ok: bool,
    verification: &V,
    text: impl FnOnce(&V) -> String,
) -> Result<VerbOutcome, CliError> {
    #[derive(Serialize)]
    struct VerificationReport<'a, V> {
        ok: bool,
        #[serde(flatten)]
        verification: &'a V,
    }
    match format.json {
        true => print_json(&VerificationReport { ok, verification })?,
        false => print_text(&text(verification))?,
    }
    Ok(if ok { VerbOutcome::Success } else { VerbOutcome::ProblemsFound })
}

/// `ok`, or a list of all problems.
pub(crate) fn problems_text(problems: &[impl AsRef<str>]) -> String {
    if problems.is_empty() {
        return "ok\n".to_owned();
    }
    let mut text = format!("\n{}:\n", count_noun(problems.len(), "problem", "problems"));
    for problem in problems {
        text += &format!("  {}\n", escape_for_terminal(problem.as_ref()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_hidden_characters_are_escaped() {
        assert_eq!(escape_for_terminal("grüße"), "grüße");
        assert_eq!(
            escape_for_terminal("a\u{202e}b\u{200b}\u{e0041}"),
            "a\\u{202e}b\\u{200b}\\u{e0041}"
        );
        assert_eq!(escape_for_terminal("a\u{1b}[2Jb\nc\u{9b}"), "a\\u{1b}[2Jb\\nc\\u{9b}");
    }
}
