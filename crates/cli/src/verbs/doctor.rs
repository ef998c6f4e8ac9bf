//! `toolcrib doctor`: checks everything a server needs; for each problem it reports the cause and a fix.
//!
//! It only reads; a server may be running meanwhile.

mod config_checks;
mod local_checks;
mod remote_checks;

use std::sync::Arc;

use config::server_settings::ServerSettings;
use serde::Serialize;
use toolcrib::{Clock as _, JournalLocation, SecretStore, SystemClock};

use crate::arguments::VerbOutcome;
use crate::arguments::doctor::DoctorArgs;
use crate::cli_error::CliError;
use crate::environment::ProgramConfig;
use crate::output::{TextStyle, count_noun, escape_for_terminal};
use crate::{environment, output};

/// The result of one check.
#[derive(Debug, Serialize)]
struct DoctorFinding {
    /// The name of the check, e.g. `store`.
    check: &'static str,
    /// The object that was checked, if there are several of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    state: DoctorState,
    /// The observed state, as a sentence.
    says: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum DoctorState {
    Ok,
    /// It works now, but needs attention.
    Warning,
    Problem,
}

impl DoctorFinding {
    fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, of: None, state: DoctorState::Ok, says: says.into(), advice: None }
    }

    fn warning(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { check, of: None, state: DoctorState::Warning, says: says.into(), advice }
    }

    fn problem(check: &'static str, says: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { state: DoctorState::Problem, ..Self::warning(check, says, advice) }
    }

    fn with_object(self, which: impl Into<String>) -> Self {
        Self { of: Some(which.into()), ..self }
    }
}

/// All findings, and whether none of them is a problem.
#[derive(Serialize)]
struct DoctorReport {
    ok: bool,
    findings: Vec<DoctorFinding>,
}

pub(crate) async fn run_doctor(
    config: &ProgramConfig,
    arguments: &DoctorArgs,
) -> Result<VerbOutcome, CliError> {
    let now = SystemClock.now();
    let mut findings = vec![local_checks::check_open_files()];
    if let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) {
        findings.push(local_checks::check_tls(certificate, key, now));
    }
    let (store, opened) = local_checks::check_store(&config.journal).await;
    findings.push(store);
    let (journal, catalog) = match &opened {
        Some((journal, catalog)) => (Arc::clone(journal), Some(catalog)),
        // Without the journal, everything that is not stored in it can still be checked.
        None => (JournalLocation::Memory.open(SystemClock).await?, None),
    };
    let settings = match config_checks::check_settings(arguments.config.as_deref(), catalog).await {
        Ok((settings, finding)) => {
            findings.extend(finding);
            settings
        }
        Err(finding) => {
            findings.push(finding);
            ServerSettings::default()
        }
    };
    let sealing_key = match config.sealing_key(arguments.sealing_key_file.as_deref()) {
        Ok(key) => key,
        Err(failure) => {
            let advice = "sealed secrets cannot be read without it: give the file that has the key";
            findings.push(DoctorFinding::problem("sealing key", failure.full_message(), advice));
            None
        }
    };
    let secrets = SecretStore::new(
        Arc::clone(&journal),
        sealing_key,
        SystemClock,
        environment::secret_variable,
    );
    let secrets = Arc::new(secrets);
    if let Some(catalog) = catalog {
        let snapshot = catalog.snapshot();
        findings.extend(local_checks::check_keys(&snapshot, now, !settings.issuers.is_empty()));
        findings.push(local_checks::check_clock(&snapshot, now));
        findings.extend(local_checks::check_secrets(&journal, &snapshot, &secrets).await);
        findings.extend(remote_checks::check_upstreams(&snapshot, now, arguments.offline).await);
    }
    let search = &settings.search;
    findings
        .extend(config_checks::check_embeddings(search, config, &secrets, arguments.offline).await);
    findings.extend(remote_checks::check_issuers(settings.issuers, &secrets).await);
    let ok = findings.iter().all(|finding| finding.state != DoctorState::Problem);
    let report = DoctorReport { ok, findings };
    match arguments.json.json {
        true => output::print_json(&report)?,
        false => output::print_text(&report_text(&report))?,
    }
    Ok(if ok { VerbOutcome::Success } else { VerbOutcome::ProblemsFound })
}

fn report_text(report: &DoctorReport) -> String {
    let name = |finding: &DoctorFinding| match &finding.of {
        Some(which) => format!("{} {}", finding.check, escape_for_terminal(which)),
        None => finding.check.to_owned(),
    };
    let width = report.findings.iter().map(|one| name(one).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in &report.findings {
        let (state, style) = match finding.state {
            DoctorState::Ok => ("ok", TextStyle::Green),
            DoctorState::Warning => ("warning", TextStyle::Yellow),
            DoctorState::Problem => ("PROBLEM", TextStyle::Red),
        };
        let state = output::style_text(style, &format!("{state:<7}"));
        let name = name(finding);
        let mut lines = finding.says.lines();
        let first = escape_for_terminal(lines.next().unwrap_or_default());
        text += &format!("{state}  {name:<width$}  {first}\n");
        for line in lines {
            text += &format!("{:7}  {:width$}  {}\n", "", "", escape_for_terminal(line));
        }
        if let Some(advice) = &finding.advice {
            text += &format!("{:7}  {:width$}  → {}\n", "", "", escape_for_terminal(advice));
        }
    }
    let count =
        |state: DoctorState| report.findings.iter().filter(|one| one.state == state).count();
    match (count(DoctorState::Problem), count(DoctorState::Warning)) {
        (0, 0) => text + "\nall is well\n",
        (problems, warnings) => {
            let problems = count_noun(problems, "problem", "problems");
            text + &format!("\n{problems}, {}\n", count_noun(warnings, "warning", "warnings"))
        }
    }
}
