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
use crate::conformance::requirements::RevisionRequirements;
use crate::conformance::results::ScenarioResult;
use crate::conformance::suite::{ConformanceSuite, SuiteLeg};
use crate::rig;
use crate::xtask_error::XtaskError;

/// Revision, and the number of server and client scenarios in the pinned suite. The numbers guard against a list that
/// is parsed incompletely and then passes.
const REVISIONS: [(&str, usize, usize); 2] = [("2025-11-25", 30, 18), ("2026-07-28", 37, 32)];
const TASK_SCENARIOS: usize = 10;

#[derive(Debug, Default, PartialEq, Eq)]
struct ConformanceOptions {
    only: Option<String>,
    url: Option<String>,
    verbose: bool,
}

pub(crate) fn run_conformance(arguments: &[String]) -> Result<ExitCode, XtaskError> {
    let complete = run_suite(&ConformanceOptions::parse(arguments)?)?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the whole suite, as a step of `cargo xtask test`.
pub(crate) fn check_conformance() -> Result<(), XtaskError> {
    if run_suite(&ConformanceOptions::default())? {
        return Ok(());
    }
    Err(XtaskError::new("the server or the client does not pass the conformance suite of MCP"))
}

fn run_suite(options: &ConformanceOptions) -> Result<bool, XtaskError> {
    let suite = ConformanceSuite::new(NodeClients::install()?, options.verbose);
    let revisions = read_requirements(&suite, options.only.as_deref())?;
    let tallies = match &options.url {
        // A run against a different server cannot test our client.
        Some(_) if !revisions.iter().any(RevisionRequirements::has_server_scenarios) => {
            return Err(XtaskError::new("that scenario is not for servers: leave out `--url`"));
        }
        Some(url) => test_server(&suite, &revisions, url, options)?,
        None => test_server_and_client(&suite, &revisions, options)?,
    };
    Ok(print_tallies(tallies, options))
}

fn test_server_and_client(
    suite: &ConformanceSuite,
    revisions: &[RevisionRequirements],
    options: &ConformanceOptions,
) -> Result<Vec<ScenarioTally>, XtaskError> {
    let rig = rig::test_build()?;
    let mut tallies = Vec::new();
    if revisions.iter().any(RevisionRequirements::has_server_scenarios) {
        let fixture = FixtureServer::start(rig.get_program(), options.verbose)?;
        tallies.extend(test_server(suite, revisions, fixture.url(), options)?);
    }
    // Quote the path: the suite passes the command to a shell.
    let command = format!("'{}' conformance-client", rig.get_program().to_string_lossy());
    for required in revisions.iter().filter(|required| required.has_client_scenarios()) {
        let leg = SuiteLeg::Client { command: &command };
        let results = suite.run_revision(required.revision, &leg, options.only.as_deref())?;
        tallies.extend(client_tallies(required, &results));
    }
    Ok(tallies)
}

fn test_server(
    suite: &ConformanceSuite,
    revisions: &[RevisionRequirements],
    url: &str,
    options: &ConformanceOptions,
) -> Result<Vec<ScenarioTally>, XtaskError> {
    let mut tallies = Vec::new();
    for required in revisions.iter().filter(|required| required.has_server_scenarios()) {
        let results = suite.run_revision(
            required.revision,
            &SuiteLeg::Server { url },
            options.only.as_deref(),
        )?;
        tallies.extend(server_tallies(required, &results));
    }
    Ok(tallies)
}

/// Prints the tallies; returns whether all scenarios passed.
fn print_tallies(mut tallies: Vec<ScenarioTally>, options: &ConformanceOptions) -> bool {
    // A scenario that was selected by name counts, required or not.
    tallies.retain(|tally| tally.scenarios > 0 && (tally.is_required || options.only.is_some()));
    for tally in &tallies {
        println!("{} {}/{}", tally.title, tally.passed, tally.scenarios);
    }
    tallies.iter().all(|tally| tally.passed == tally.scenarios)
}

impl ConformanceOptions {
    fn parse(arguments: &[String]) -> Result<Self, XtaskError> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next().cloned();
                value.ok_or_else(|| XtaskError::new(format!("`{argument}` needs a value")))
            };
            match argument.as_str() {
                "--only" => options.only = Some(value()?),
                "--url" => options.url = Some(value()?),
                "--verbose" => options.verbose = true,
                other => return Err(XtaskError::new(format!("there is no option `{other}`"))),
            }
        }
        Ok(options)
    }
}

/// The requirements of each revision, reduced to one scenario if one is selected.
fn read_requirements(
    suite: &ConformanceSuite,
    only: Option<&str>,
) -> Result<Vec<RevisionRequirements>, XtaskError> {
    let mut all = Vec::new();
    for (revision, servers, clients) in REVISIONS {
        let required = suite.requirements(revision)?;
        expect_count(&format!("{revision} server"), required.server.len(), servers)?;
        expect_count(&format!("{revision} client"), required.client.len(), clients)?;
        all.push(required);
    }
    let tasks = all.iter().map(|required| required.tasks.len()).sum();
    expect_count("tasks", tasks, TASK_SCENARIOS)?;
    let Some(only) = only else {
        return Ok(all);
    };
    all.retain_mut(|required| required.retain_only(only));
    if all.is_empty() {
        return Err(XtaskError::new(format!("the suite has no scenario `{only}`")));
    }
    Ok(all)
}

fn expect_count(what: &str, found: usize, wanted: usize) -> Result<(), XtaskError> {
    if found == wanted {
        return Ok(());
    }
    let sentence = format!("the suite lists {found} scenarios for `{what}`, and not {wanted}");
    Err(XtaskError::new(sentence))
}

struct ScenarioTally {
    title: String,
    is_required: bool,
    passed: usize,
    scenarios: usize,
}

fn server_tallies(
    required: &RevisionRequirements,
    results: &[ScenarioResult],
) -> [ScenarioTally; 3] {
    let revision = required.revision;
    let tally = |title: &str, is_required: bool, names: &[String]| {
        ScenarioTally::from_results(revision, title, is_required, names, results)
    };
    [
        tally(&format!("{revision} not required"), false, &required.others),
        tally(&format!("{revision} server"), true, &required.server),
        tally("tasks", true, &required.tasks),
    ]
}

fn client_tallies(
    required: &RevisionRequirements,
    results: &[ScenarioResult],
) -> [ScenarioTally; 2] {
    let revision = required.revision;
    let tally = |title: &str, is_required: bool, names: &[String]| {
        ScenarioTally::from_results(revision, title, is_required, names, results)
    };
    [
        tally(&format!("{revision} not required"), false, &required.client_others),
        tally(&format!("{revision} client"), true, &required.client),
    ]
}

impl ScenarioTally {
    /// Prints the failures and counts the scenarios that passed.
    fn from_results(
        revision: &str,
        title: &str,
        is_required: bool,
        names: &[String],
        results: &[ScenarioResult],
    ) -> Self {
        let prefix = if is_required { "" } else { "not required: " };
        let scenarios = names.iter().map(|name| results::find_scenario(results, name));
        let told = scenarios.map(|scenario| print_scenario(prefix, revision, &scenario));
        let passed = told.filter(|passed| *passed).count();
        Self { title: title.to_owned(), is_required, passed, scenarios: names.len() }
    }
}

/// Prints a scenario's remark and failed checks; returns whether it passed.
fn print_scenario(prefix: &str, revision: &str, scenario: &ScenarioResult) -> bool {
    if let Some(remark) = scenario.remark() {
        println!("{prefix}{revision} {}: {remark}", scenario.name);
    }
    for check in scenario.checks.iter().filter(|check| check.is_notable()) {
        println!("    {check}");
    }
    scenario.has_passed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ConformanceOptions, XtaskError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ConformanceOptions::parse(&words)
    }

    #[test]
    fn options_are_parsed_and_mistyped_ones_rejected() {
        let ping = ConformanceOptions {
            only: Some("ping".to_owned()),
            verbose: true,
            ..ConformanceOptions::default()
        };
        assert_eq!(parse("--only ping --verbose"), Ok(ping));
        assert_eq!(parse(""), Ok(ConformanceOptions::default()));
        assert!(parse("--only").is_err());
        assert!(parse("ping").is_err());
    }
}
