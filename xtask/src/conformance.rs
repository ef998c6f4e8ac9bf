//! `cargo xtask conformance`: runs the official MCP conformance suite against our server and our client, and counts the
//! results in its output files.
//!
//! The suite runs once for each revision of the protocol. A required scenario that it skipped has not passed. The
//! required scenarios come from the suite's own lists; their expected number is written down here.

mod fixture;
mod requirements;
mod results;
mod suite;

use std::process::ExitCode;

use crate::clients::NodeClients;
use crate::conformance::fixture::FixtureServer;
use crate::conformance::requirements::Requirements;
use crate::conformance::results::Scenario;
use crate::conformance::suite::{Leg, Suite};
use crate::failure::Failure;
use crate::rig;

/// Revision, and the number of server and client scenarios in the pinned suite. The numbers guard against a list that
/// is parsed incompletely and then passes.
const REVISIONS: [(&str, usize, usize); 2] = [("2025-11-25", 30, 18), ("2026-07-28", 37, 32)];
const TASKS: usize = 10;

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    only: Option<String>,
    url: Option<String>,
    verbose: bool,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode, Failure> {
    let complete = passes(&Options::parse(arguments)?)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the whole suite, as a step of `cargo xtask test`.
pub(crate) fn check() -> Result<(), Failure> {
    if passes(&Options::default())? {
        return Ok(());
    }
    Err(Failure::new("the server or the client does not pass the conformance suite of MCP"))
}

fn passes(options: &Options) -> Result<bool, Failure> {
    let suite = Suite::new(NodeClients::install()?, options.verbose);
    let revisions = required_by(&suite, options.only.as_deref())?;
    let tallies = match &options.url {
        // A run against a different server cannot test our client.
        Some(_) if !revisions.iter().any(Requirements::asks_servers) => {
            return Err(Failure::new("that scenario is not for servers: leave out `--url`"));
        }
        Some(url) => of_servers(&suite, &revisions, url, options)?,
        None => of_both(&suite, &revisions, options)?,
    };
    Ok(told(tallies, options))
}

fn of_both(
    suite: &Suite,
    revisions: &[Requirements],
    options: &Options,
) -> Result<Vec<Tally>, Failure> {
    let rig = rig::as_tested()?;
    let mut tallies = Vec::new();
    if revisions.iter().any(Requirements::asks_servers) {
        let fixture = FixtureServer::start(rig.get_program(), options.verbose)?;
        tallies.extend(of_servers(suite, revisions, fixture.url(), options)?);
    }
    // Quote the path: the suite passes the command to a shell.
    let command = format!("'{}' conformance-client", rig.get_program().to_string_lossy());
    for required in revisions.iter().filter(|required| required.asks_clients()) {
        let leg = Leg::Client { command: &command };
        let results = suite.run(required.revision, &leg, options.only.as_deref())?;
        tallies.extend(client_tallies(required, &results));
    }
    Ok(tallies)
}

fn of_servers(
    suite: &Suite,
    revisions: &[Requirements],
    url: &str,
    options: &Options,
) -> Result<Vec<Tally>, Failure> {
    let mut tallies = Vec::new();
    for required in revisions.iter().filter(|required| required.asks_servers()) {
        let results =
            suite.run(required.revision, &Leg::Server { url }, options.only.as_deref())?;
        tallies.extend(server_tallies(required, &results));
    }
    Ok(tallies)
}

/// Prints the tallies; returns whether all scenarios passed.
fn told(mut tallies: Vec<Tally>, options: &Options) -> bool {
    // A scenario that was selected by name counts, required or not.
    tallies.retain(|tally| tally.scenarios > 0 && (tally.is_required || options.only.is_some()));
    for tally in &tallies {
        println!("{} {}/{}", tally.title, tally.passed, tally.scenarios);
    }
    tallies.iter().all(|tally| tally.passed == tally.scenarios)
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next().cloned();
                value.ok_or_else(|| Failure::new(format!("`{argument}` needs a value")))
            };
            match argument.as_str() {
                "--only" => options.only = Some(value()?),
                "--url" => options.url = Some(value()?),
                "--verbose" => options.verbose = true,
                other => return Err(Failure::new(format!("there is no option `{other}`"))),
            }
        }
        Ok(options)
    }
}

/// The requirements of each revision, reduced to one scenario if one is selected.
fn required_by(suite: &Suite, only: Option<&str>) -> Result<Vec<Requirements>, Failure> {
    let mut all = Vec::new();
    for (revision, servers, clients) in REVISIONS {
        let required = suite.requirements(revision)?;
        expect(&format!("{revision} server"), required.server.len(), servers)?;
        expect(&format!("{revision} client"), required.client.len(), clients)?;
        all.push(required);
    }
    let tasks = all.iter().map(|required| required.tasks.len()).sum();
    expect("tasks", tasks, TASKS)?;
    let Some(only) = only else {
        return Ok(all);
    };
    all.retain_mut(|required| required.keep(only));
    if all.is_empty() {
        return Err(Failure::new(format!("the suite has no scenario `{only}`")));
    }
    Ok(all)
}

fn expect(what: &str, found: usize, wanted: usize) -> Result<(), Failure> {
    if found == wanted {
        return Ok(());
    }
    let sentence = format!("the suite lists {found} scenarios for `{what}`, and not {wanted}");
    Err(Failure::new(sentence))
}

struct Tally {
    title: String,
    is_required: bool,
    passed: usize,
    scenarios: usize,
}

fn server_tallies(required: &Requirements, results: &[Scenario]) -> [Tally; 3] {
    let revision = required.revision;
    let tally = |title: &str, is_required: bool, names: &[String]| {
        Tally::of(revision, title, is_required, names, results)
    };
    [
        tally(&format!("{revision} not required"), false, &required.others),
        tally(&format!("{revision} server"), true, &required.server),
        tally("tasks", true, &required.tasks),
    ]
}

fn client_tallies(required: &Requirements, results: &[Scenario]) -> [Tally; 2] {
    let revision = required.revision;
    let tally = |title: &str, is_required: bool, names: &[String]| {
        Tally::of(revision, title, is_required, names, results)
    };
    [
        tally(&format!("{revision} not required"), false, &required.client_others),
        tally(&format!("{revision} client"), true, &required.client),
    ]
}

impl Tally {
    /// Prints the failures and counts the scenarios that passed.
    fn of(
        revision: &str,
        title: &str,
        is_required: bool,
        names: &[String],
        results: &[Scenario],
    ) -> Self {
        let prefix = if is_required { "" } else { "not required: " };
        let scenarios = names.iter().map(|name| results::find(results, name));
        let told = scenarios.map(|scenario| tell(prefix, revision, &scenario));
        let passed = told.filter(|passed| *passed).count();
        Self { title: title.to_owned(), is_required, passed, scenarios: names.len() }
    }
}

/// Prints a scenario's remark and failed checks; returns whether it passed.
fn tell(prefix: &str, revision: &str, scenario: &Scenario) -> bool {
    if let Some(remark) = scenario.remark() {
        println!("{prefix}{revision} {}: {remark}", scenario.name);
    }
    for check in scenario.checks.iter().filter(|check| check.is_telling()) {
        println!("    {check}");
    }
    scenario.passed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_parsed_and_mistyped_ones_rejected() {
        let ping = Options { only: Some("ping".to_owned()), verbose: true, ..Options::default() };
        assert_eq!(parse("--only ping --verbose"), Ok(ping));
        assert_eq!(parse(""), Ok(Options::default()));
        assert!(parse("--only").is_err());
        assert!(parse("ping").is_err());
    }
}
