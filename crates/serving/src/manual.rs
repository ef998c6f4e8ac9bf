//! `toolcrib completions` and `toolcrib man`: shell completions and the manual page, generated from the command line.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::{Cli, Ended};
use crate::failure::Failure;
use crate::out;

pub(crate) fn completions(shell: Shell) -> Result<Ended, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "toolcrib", &mut script);
    print_all(&script)
}

/// Prints one page: the program, followed by each of its verbs.
pub(crate) fn print() -> Result<Ended, Failure> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page).and_then(|()| {
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        verbs.cloned().try_for_each(|verb| verb_of(verb, &mut page))
    });
    rendered.map_err(Failure::Output)?;
    print_all(&page)
}

fn verb_of(verb: clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    let title = format!(".SH TOOLCRIB {}\n", verb.get_name().to_uppercase());
    page.extend(title.as_bytes());
    let man = Man::new(verb);
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    man.render_extra_section(page)
}

fn print_all(bytes: &[u8]) -> Result<Ended, Failure> {
    out::print(&String::from_utf8_lossy(bytes))?;
    Ok(Ended::Fine)
}
