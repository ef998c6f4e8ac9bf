//! `cargo xtask`: all development commands, with nothing to install first.
//!
//! It has no dependencies, so that it compiles in a second. Messages go to stderr; stdout carries step names, and for
//! `rig` commands only the output of `rig`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program talks to a person"
)]

mod account;
mod book;
mod checks;
mod clients;
mod conformance;
mod fresh;
mod fuzz;
mod packaging;
mod pinned_programs;
mod postgres;
mod program;
mod rig;
mod sentence_model_eval;
mod servers;
mod setup;
mod style;
mod workspace;
mod xtask_error;

use std::process::ExitCode;

use crate::checks::StepSelection;
use crate::postgres::ThrowAwayPostgres;
use crate::xtask_error::XtaskError;

const HELP: &str = "\
Every command we type.

Usage: cargo xtask COMMAND

Commands:
  test [--fast] [--only STEP]… [FILTER…] [-- OPTION…]
        Everything CI does. Installs missing system packages where it may, starts a PostgreSQL of its own,
        and stops at the first failing step.
        --fast        only setup, format, lint and tests
        --only STEP   only this step (and setup); may be repeated. Steps, in order: setup, format, lint,
                      features, documentation, book, packaging, licences, unused-dependencies, tests,
                      golden-files, conformance, clients, servers, short-crash-run
        FILTER        only the tests whose name contains it; leaves out what needs all tests: documentation
                      tests, and the search for golden files that no test refers to
        -- OPTION…    handed to `cargo nextest run`, or without nextest to the test programs
  agreement [--worlds N] [--seed S] [OPTION…]
        Makes up N worlds (20,000 unless given) and compares what agents are told with an independent oracle.
        Exit code 1 if they differ; then --seed S --worlds 1 repeats the world.
  bench [NAME…] [DIR] [OPTION…]
        Measures, and writes the section of docs/benchmarks.md. NAME is `access`, `doors`, `journal`, which
        has a PostgreSQL of its own, `library`, `openapi`, `overload`, `plan`, `record`, `search`, `start` or
        `upstreams`; without one, all. DIR has the specifications that `openapi` measures; without it, `openapi` makes two of its own and writes
        nothing. Exit code 1 if a figure is not what must hold, unless it is --quick.
  book
        Builds the documentation as a book into target/book. Exit code 1 if a link leads nowhere.
  clients [--try [--only NAME]]
        Installs the foreign MCP clients that `rig/clients` pins, and prints where they are: Node.js, its packages,
        and a Python environment.
        --try         has each of them list, search and call tools of a server, in every era that it speaks, over
                      HTTP and over stdio, and prints a table. Exit code 1 if one did not get what it must.
        --only NAME   only the clients whose name contains it, such as `python-sdk` or `typescript-v2 auto stdio`
  conformance [--only SCENARIO] [--url URL] [--verbose]
        Runs the official conformance suite of MCP against our server and our client, for both eras of the
        protocol and the tasks extension. The last lines count what is required. Exit code 1 if any of it failed or
        was not run.
        --only SCENARIO   only this scenario, in every revision that has it
        --url URL         against a server that is running already, and no client
        --verbose         what the suite and ours say, which otherwise is in `target/conformance`
  corpus DIR [--only NAME] [--verbose] [--dump FOLDER]
        Discovers every specification of a folder, makes the calls of its request cases, and compares both
        with what is known of them. Exit code 1 if anything is not as it must be.
  collisions FILE
        Takes pairs of claims and of inventories whose SHA-256 begin alike, and checks that each pair is told apart.
  crash --store sqlite|postgres --kills K [OPTION…]
        Kills a writing node K times and counts what was lost. Exit code 1 if anything was.
  crash --children --kills K [OPTION…]
        Kills the program behind a source K times while agents call its tools, then a node with 50 programs. Exit
        code 1 if anybody waited, was told what was not meant for them, or if anything of the programs is left.
  crash --record [--store sqlite|postgres] --kills K [OPTION…]
        Kills a server with a strict record K times while agents call a tool, and stops one with the usual record a
        quarter as often. Exit code 1 if a call that was answered is not in the record.
  durability [OPTION…]
        Shows with `strace` that every acknowledged append came after its fsync.
  fixture [--port PORT]
        Serves tools, prompts and resources of its own on 127.0.0.1 and prints where, for suites that try a
        server of MCP. Ends at Ctrl-C, or when a pipe that is its standard input ends.
  fresh [--only first|second] [--keep]
        Clones what is committed into a temporary folder and runs the README's two commands there, with an empty home and
        nothing that was built or installed here but the toolchain and cargo's packages. The first one's greeting is
        pasted line by line. Says how long each step took and how large the folder is. No step of `test`.
        --only        only one of the two commands
        --keep        leaves the folder there
  fuzz TARGET [--seconds N]
        Makes up input for N seconds (60 unless given) and watches which code it reaches. TARGET is `search`. Needs a C++
        compiler. Exit code other than 0 if something panics or takes too long; the input is in `target/fuzz/found`.
  meaning DIR [OPTION…]
        Installs the sentence model that `rig/model` pins, and says how well the queries of DIR/queries.jsonl find the
        tools of DIR/tools.jsonl with it. An OPTION is one of `toolcrib eval search`, such as --cross-validate.
  package
        Builds target/release/toolcrib, the program as it is given to others, and says how large it is.
  servers [--try [--only NAME]]
        Installs the same as `clients`: the MCP and authorization servers that others wrote are among it.
        --try         registers each of them with a server, has agents of both eras call their tools, compares what
                      comes with what they say directly, and prints a table. Exit code 1 if something is not as it
                      must be, or a program is left when the server has ended.
        --only NAME   only the servers whose name contains it, such as `everything-http`
  style [--names N]
        Counts names, comment words, sizes and module cycles of the crates. Exit code 1 if a figure is above its ceiling.
        --names N     also lists the N type names with the most definitions
  wycheproof FILE
        Judges the vectors of Wycheproof's `json_web_signature_test.json`. Exit code 1 if one is judged wrong.
  postgres
        Starts a throw-away PostgreSQL, prints what to export for running single tests by hand, and removes
        it again at Enter or Ctrl-C.
  help
        This text.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run_xtask(&arguments) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run_xtask(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let Some((command, rest)) = arguments.split_first() else {
        eprint!("{HELP}");
        return Ok(ExitCode::from(2));
    };
    match command.as_str() {
        "test" if rest.iter().any(|argument| argument == "--help") => print_help(),
        "test" => checks::run_checks(StepSelection::parse(rest)?),
        "agreement" | "bench" | "collisions" | "corpus" | "crash" | "durability" | "fixture"
        | "wycheproof" => rig::run_rig(command, rest),
        "book" => book::run_book(),
        "clients" => clients::run_clients(rest),
        "fresh" => fresh::run_fresh(rest),
        "fuzz" => fuzz::run_fuzzer(rest),
        "conformance" => conformance::run_conformance(rest),
        "meaning" => sentence_model_eval::run_model_eval(rest),
        "package" => packaging::build_package(),
        "servers" => servers::run_servers(rest),
        "style" => style::run(rest),
        "postgres" => lend_postgres(),
        "help" | "--help" | "-h" => print_help(),
        _ => {
            Err(XtaskError::new(format!("there is no command `{command}`; see `cargo xtask help`")))
        }
    }
}

fn print_help() -> Result<ExitCode, XtaskError> {
    print!("{HELP}");
    Ok(ExitCode::SUCCESS)
}

fn lend_postgres() -> Result<ExitCode, XtaskError> {
    setup::ensure_system_programs()?;
    let postgres = ThrowAwayPostgres::start()?;
    println!("{}", postgres.url());
    println!();
    for (name, value) in postgres.environment() {
        println!("export {name}='{}'", value.display());
    }
    println!();
    println!("Enter or Ctrl-C removes it.");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The words after `cargo xtask ` in a text.
    fn commands(text: &str) -> impl Iterator<Item = &str> {
        let behind = text.split("cargo xtask ").skip(1);
        behind.map(|rest| {
            rest.split(|character: char| !character.is_ascii_lowercase()).next().unwrap()
        })
    }

    #[test]
    fn the_documentation_names_only_existing_commands() {
        let known: BTreeSet<&str> = HELP
            .lines()
            .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let files = workspace::files_below(&workspace::workspace_root().join("docs")).unwrap();
        let pages =
            files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "md"));
        let more = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"];
        let more = more.map(|name| workspace::workspace_root().join(name));
        let mut seen = 0;
        for page in pages.chain(more) {
            let text = workspace::read_file(&page).unwrap();
            for command in commands(&text).filter(|command| !command.is_empty()) {
                assert!(
                    known.contains(command),
                    "{}: `{command}`",
                    workspace::relative_path(&page)
                );
                seen += 1;
            }
        }
        assert!(50 < seen, "{seen}");
    }
}
