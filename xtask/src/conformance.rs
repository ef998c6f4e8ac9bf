//! `cargo xtask conformance`: the official suite of MCP against our server, counted from the files that it writes.
//!
//! The suite is run once for each revision of the protocol. A scenario that it left out has not passed: what is
//! required is read from the suite's own lists, and how many that must be is written down here.

mod fixture;
mod requirements;
mod results;
mod suite;

use std::process::ExitCode;

use crate::clients::NodeClients;
use crate::conformance::fixture::FixtureServer;
use crate::conformance::requirements::Requirements;
use crate::conformance::results::Scenario;
use crate::conformance::suite::Suite;
use crate::failure::Failure;

/// How many scenarios the pinned suite has for servers: a list that was read wrong is never a short one that passes.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 30), ("2026-07-28", 37)];
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

/// All of it, as a step of the tests.
pub(crate) fn check() -> Result<(), Failure> {
    if passes(&Options::default())? {
        return Ok(());
    }
    Err(Failure::new("the server does not pass the conformance suite of MCP"))
}

fn passes(options: &Options) -> Result<bool, Failure> {
    let suite = Suite::new(NodeClients::install()?, options.verbose);
    let revisions = required_by(&suite, options.only.as_deref())?;
    let fixture = match &options.url {
        Some(_) => None,
        None => Some(FixtureServer::start(options.verbose)?),
    };
    let url = fixture.as_ref().map(FixtureServer::url).or(options.url.as_deref());
    let mut tallies = Vec::new();
    for required in &revisions {
        let only = options.only.as_deref();
        let results = suite.run(required.revision, url.unwrap_or_default(), only)?;
        tallies.extend(tallies_of(required, &results));
    }
    drop(fixture);
    // What was asked for by name counts, required or not.
    tallies.retain(|tally| tally.scenarios > 0 && (tally.is_required || options.only.is_some()));
    for tally in &tallies {
        println!("{} {}/{}", tally.title, tally.passed, tally.scenarios);
    }
    Ok(tallies.iter().all(|tally| tally.passed == tally.scenarios))
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

/// What each revision asks of a server; if one scenario is asked for, what is left with it alone.
fn required_by(suite: &Suite, only: Option<&str>) -> Result<Vec<Requirements>, Failure> {
    let mut all = Vec::new();
    for (revision, count) in REVISIONS {
        let required = suite.requirements(revision)?;
        expect(&format!("{revision} server"), required.server.len(), count)?;
        all.push(required);
    }
    let tasks = all.iter().map(|required| required.tasks.len()).sum();
    expect("tasks", tasks, TASKS)?;
    let Some(only) = only else {
        return Ok(all);
    };
    all.retain_mut(|required| required.keep(only));
    if all.is_empty() {
        return Err(Failure::new(format!("the suite has no scenario `{only}` for servers")));
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

/// Says what is wrong, and counts what is right.
fn tallies_of(required: &Requirements, results: &[Scenario]) -> [Tally; 3] {
    let revision = required.revision;
    let tally = |title: String, is_required: bool, names: &[String]| {
        let prefix = if is_required { "" } else { "not required: " };
        let scenarios = names.iter().map(|name| results::find(results, name));
        let told = scenarios.map(|scenario| tell(prefix, revision, &scenario));
        let passed = told.filter(|passed| *passed).count();
        Tally { title, is_required, passed, scenarios: names.len() }
    };
    [
        tally(format!("{revision} not required"), false, &required.others),
        tally(format!("{revision} server"), true, &required.server),
        tally("tasks".to_owned(), true, &required.tasks),
    ]
}

/// Whether it passed.
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
    fn options_are_read_and_mistyped_ones_refused() {
        let ping = Options { only: Some("ping".to_owned()), verbose: true, ..Options::default() };
        assert_eq!(parse("--only ping --verbose"), Ok(ping));
        assert_eq!(parse(""), Ok(Options::default()));
        assert!(parse("--only").is_err());
        assert!(parse("ping").is_err());
    }
}
