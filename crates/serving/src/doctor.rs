//! `toolcrib doctor`: looks at everything a server needs, and says in plain words what is wrong and what to do.
//!
//! It reads and changes nothing; a server may be running.

mod away;
mod here;

use std::sync::Arc;

use serde::Serialize;
use toolcrib::{Clock as _, Secrets, SystemClock};

use crate::cli::Ended;
use crate::cli::doctor::Doctor;
use crate::config::{self, Config};
use crate::failure::Failure;
use crate::out::{self, counted, plain};

/// What was looked at, and how it is.
#[derive(Debug, Serialize)]
struct Finding {
    /// What was looked at, in one word.
    check: &'static str,
    /// Which one, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    state: State,
    /// How it is.
    says: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works, and will not for ever.
    Warning,
    /// Something does not work.
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

/// All of them.
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
    let issuers = match crate::serve::issuers(arguments.config.as_deref()) {
        Ok(issuers) => issuers,
        Err(failure) => {
            let advice = "a server with this file does not start: mend it";
            findings.push(Finding::problem("config", failure.sentence(), advice));
            Vec::new()
        }
    };
    let (store, opened) = here::store(&config.journal).await;
    findings.push(store);
    if let Some((journal, snapshot)) = opened {
        findings.extend(here::keys(&snapshot, now, !issuers.is_empty()));
        findings.push(here::clock(&snapshot, now));
        let sealing_key = config.sealing_key(arguments.sealing_key_file.as_deref())?;
        let secrets = Secrets::new(Arc::clone(&journal), sealing_key, config::variable_of_user);
        findings.extend(here::secrets(&journal, &snapshot, &secrets).await);
        findings.extend(away::issuers(issuers, &secrets).await);
        findings.extend(away::upstreams(&snapshot, now, arguments.offline).await);
    }
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
        let state = match finding.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Problem => "PROBLEM",
        };
        let name = name(finding);
        text += &format!("{state:<7}  {name:<width$}  {}\n", plain(&finding.says));
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
