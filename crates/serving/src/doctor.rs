//! `toolcrib doctor`: checks everything a server needs; for each problem it reports the cause and a fix.
//!
//! It only reads; a server may be running meanwhile.

mod away;
mod declared;
mod here;

use std::sync::Arc;

use serde::Serialize;
use toolcrib::{Clock as _, JournalPlace, Secrets, SystemClock};

use crate::cli::Ended;
use crate::cli::doctor::Doctor;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::out::{self, Style, counted, plain};
use crate::serve::settings::Settings;

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    /// The name of the check, e.g. `store`.
    check: &'static str,
    /// The object that was checked, if there are several of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    state: State,
    /// The observed state, as a sentence.
    says: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works now, but needs attention.
    Warning,
    Problem,
}

impl Finding {
    fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, of: None, state: State::Ok, says: says.into(), advice: None }
    }

    fn warning(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { check, of: None, state: State::Warning, says: says.into(), advice }
    }

    fn problem(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: State::Problem, ..Self::warning(check, says, advice) }
    }

    fn of(self, which: impl Into<String>) -> Self {
        Self { of: Some(which.into()), ..self }
    }
}

/// All findings, and whether none of them is a problem.
#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

pub(crate) async fn examine(config: &Config, arguments: &Doctor) -> Result<Ended, Failure> {
    let now = SystemClock.now();
    let mut findings = vec![here::limits()];
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        findings.push(here::tls(certificate, key, now));
    }
    let (store, opened) = here::store(&config.journal).await;
    findings.push(store);
    let (journal, catalog) = match &opened {
        Some((journal, catalog)) => (Arc::clone(journal), Some(catalog)),
        // Without the journal, everything that is not stored in it can still be checked.
        None => (JournalPlace::Memory.open(SystemClock).await?, None),
    };
    let settings = match declared::settings(arguments.config.as_deref(), catalog).await {
        Ok((settings, finding)) => {
            findings.extend(finding);
            settings
        }
        Err(finding) => {
            findings.push(finding);
            Settings::default()
        }
    };
    let sealing_key = match config.sealing_key(arguments.sealing_key_file.as_deref()) {
        Ok(key) => key,
        Err(failure) => {
            let advice = "sealed secrets cannot be read without it: give the file that has the key";
            findings.push(Finding::problem("sealing key", failure.sentence(), advice));
            None
        }
    };
    let secrets =
        Secrets::new(Arc::clone(&journal), sealing_key, SystemClock, config::variable_of_user);
    let secrets = Arc::new(secrets);
    if let Some(catalog) = catalog {
        let snapshot = catalog.snapshot();
        findings.extend(here::keys(&snapshot, now, !settings.issuers.is_empty()));
        findings.push(here::clock(&snapshot, now));
        findings.extend(here::secrets(&journal, &snapshot, &secrets).await);
        findings.extend(away::upstreams(&snapshot, now, arguments.offline).await);
    }
    let search = &settings.search;
    findings.extend(declared::search(search, config, &secrets, arguments.offline).await);
    findings.extend(away::issuers(settings.issuers, &secrets).await);
    let ok = findings.iter().all(|finding| finding.state != State::Problem);
    let report = Report { ok, findings };
    match arguments.json.json {
        true => out::print_json(&report)?,
        false => out::print(&text(&report))?,
    }
    Ok(if ok { Ended::Fine } else { Ended::ProblemsFound })
}

fn text(report: &Report) -> String {
    let name = |finding: &Finding| match &finding.of {
        Some(which) => format!("{} {}", finding.check, plain(which)),
        None => finding.check.to_owned(),
    };
    let width = report.findings.iter().map(|one| name(one).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in &report.findings {
        let (state, style) = match finding.state {
            State::Ok => ("ok", Style::Green),
            State::Warning => ("warning", Style::Yellow),
            State::Problem => ("PROBLEM", Style::Red),
        };
        let state = out::styled(style, &format!("{state:<7}"));
        let name = name(finding);
        let mut lines = finding.says.lines();
        let first = plain(lines.next().unwrap_or_default());
        text += &format!("{state}  {name:<width$}  {first}\n");
        for line in lines {
            text += &format!("{:7}  {:width$}  {}\n", "", "", plain(line));
        }
        if let Some(advice) = &finding.advice {
            text += &format!("{:7}  {:width$}  → {}\n", "", "", plain(advice));
        }
    }
    let count = |state: State| report.findings.iter().filter(|one| one.state == state).count();
    match (count(State::Problem), count(State::Warning)) {
        (0, 0) => text + "\nall is well\n",
        (problems, warnings) => {
            let problems = counted(problems, "problem", "problems");
            text + &format!("\n{problems}, {}\n", counted(warnings, "warning", "warnings"))
        }
    }
}
