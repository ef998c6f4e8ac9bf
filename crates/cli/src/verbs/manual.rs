//! `toolcrib completions` and `toolcrib man`: shell completions and the manual page, generated from the command line.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::{Cli, VerbOutcome};
use crate::cli_error::CliError;
use crate::output;

pub(crate) fn print_completions(shell: Shell) -> Result<VerbOutcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "toolcrib", &mut script);
    print_bytes(&script)
}

/// Prints one page: the program, followed by each of its verbs.
pub(crate) fn print_manual() -> Result<VerbOutcome, CliError> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page).and_then(|()| {
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        verbs.cloned().try_for_each(|verb| render_verb(verb, &mut page))
    });
    rendered.map_err(CliError::Output)?;
    print_bytes(&page)
}

fn render_verb(verb: clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let title = format!(".SH TOOLCRIB {}\n", verb.get_name().to_uppercase());
    page.extend(title.as_bytes());
    let man = Man::new(verb);
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    man.render_extra_section(page)
}

fn print_bytes(bytes: &[u8]) -> Result<VerbOutcome, CliError> {
    output::print_text(&String::from_utf8_lossy(bytes))?;
    Ok(VerbOutcome::Success)
}
