//! The results of the suite: one `checks.json` per scenario that it ran.
//!
//! The file is a list of objects, indented by two. A JSON string contains no line break, so a line with four spaces and
//! a name is a field of a check and not text from a server or client. A file of any other form counts as failed.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;
use crate::xtask_error::XtaskError;

/// Part of every scenario; it also succeeds if no message was received.
const SCHEMA_CHECK: &str = "wire-schema-valid";

/// Maximum characters of a message. The suite repeats whole responses; its files contain the rest.
const MAX_MESSAGE_CHARS: usize = 400;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScenarioResult {
    pub(super) name: String,
    /// Empty if the scenario was not run.
    pub(super) checks: Vec<ScenarioCheck>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScenarioCheck {
    id: String,
    status: String,
    message: String,
}

impl ScenarioResult {
    /// Nothing failed, and at least one check succeeded or the suite skipped all of them.
    /// Warnings alone are not a pass: in some scenarios, a server that does not answer gets only warnings.
    pub(super) fn has_passed(&self) -> bool {
        let known = ["SUCCESS", "WARNING", "SKIPPED", "INFO"];
        let holds = self.has_status("SUCCESS") || !self.has_status("WARNING");
        let all_known = self.checks.iter().all(|check| known.contains(&check.status.as_str()));
        !self.checks.is_empty() && all_known && holds
    }

    fn has_status(&self, status: &str) -> bool {
        let mut own = self.checks.iter().filter(|check| check.id != SCHEMA_CHECK);
        own.any(|check| check.status == status)
    }

    /// A note for the user.
    pub(super) fn remark(&self) -> Option<&'static str> {
        if self.checks.is_empty() {
            return Some("was not run");
        }
        if !self.has_passed() {
            return Some("failed");
        }
        if !self.has_status("SUCCESS") {
            return Some("passed, but the suite checked nothing");
        }
        self.has_status("WARNING").then_some("passed with warnings")
    }
}

impl ScenarioCheck {
    pub(super) fn is_notable(&self) -> bool {
        !matches!(self.status.as_str(), "SUCCESS" | "SKIPPED" | "INFO")
    }
}

impl fmt::Display for ScenarioCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message: String = self.message.chars().take(MAX_MESSAGE_CHARS).collect();
        write!(formatter, "{} {}: {message}", self.status, self.id)
    }
}

/// The scenario with this name, without checks if it was not run.
pub(super) fn find_scenario(results: &[ScenarioResult], name: &str) -> ScenarioResult {
    let found = results.iter().find(|scenario| scenario.name == name);
    let checks = found.map_or(&[][..], |scenario| &scenario.checks);
    ScenarioResult { name: name.to_owned(), checks: checks.to_vec() }
}

/// All scenarios in the output folder of a run against a server.
pub(super) fn server_results(folder: &Path) -> Result<Vec<ScenarioResult>, XtaskError> {
    let mut scenarios = Vec::new();
    for (name, path) in subfolders(folder)? {
        let name = name.strip_prefix("server-").and_then(scenario_name);
        scenarios
            .extend(name.map(|name| read_scenario(name.to_owned(), &path)).transpose()?.flatten());
    }
    Ok(scenarios)
}

/// All scenarios in the output folder of a run against a client. Some are in a folder of their kind, such as
/// `auth/iss-supported`. The client's stderr shows whether it gave up.
pub(super) fn client_results(folder: &Path) -> Result<Vec<ScenarioResult>, XtaskError> {
    let mut scenarios = Vec::new();
    for (kind, path) in subfolders(folder)? {
        let below = match path.join("checks.json").is_file() {
            true => vec![(kind, path)],
            false => {
                let below = subfolders(&path)?.into_iter();
                below.map(|(name, path)| (format!("{kind}/{name}"), path)).collect()
            }
        };
        for (name, path) in below {
            let Some(name) = scenario_name(&name) else { continue };
            if let Some(mut scenario) = read_scenario(name.to_owned(), &path)? {
                let complaint = workspace::read_file(&path.join("stderr.txt"))?;
                scenario.checks.extend(check_giving_up(name, &complaint));
                scenarios.push(scenario);
            }
        }
    }
    Ok(scenarios)
}

/// Scenarios in which a correct client must stop with an error.
const MUST_GIVE_UP: [&str; 7] = [
    "auth/scope-retry-limit",
    "auth/resource-mismatch",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
];

/// A failed check if the client stops in a different scenario, or goes on in one of these. The suite ignores this.
fn check_giving_up(scenario: &str, complaint: &str) -> Option<ScenarioCheck> {
    // Omit the backtrace.
    let complaint = complaint.split("Stack backtrace:").next().unwrap_or_default();
    let message = match (MUST_GIVE_UP.contains(&scenario), complaint.trim()) {
        (true, "") => "it went on",
        (false, complaint) if !complaint.is_empty() => complaint,
        (true | false, _) => return None,
    };
    let (id, status) = ("client-end".to_owned(), "FAILURE".to_owned());
    Some(ScenarioCheck { id, status, message: message.replace('\n', " ") })
}

fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>, XtaskError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        found.extend(name.filter(|_| path.is_dir()).map(|name| (name, path)));
    }
    Ok(found)
}

/// The scenario of a folder; `None` if the folder has no results.
fn read_scenario(name: String, folder: &Path) -> Result<Option<ScenarioResult>, XtaskError> {
    let checks = folder.join("checks.json");
    if !checks.is_file() {
        return Ok(None);
    }
    Ok(Some(ScenarioResult { name, checks: read_checks(&workspace::read_file(&checks)?) }))
}

/// Returns `ping` for `ping-2026-07-28T12-00-00-000Z`.
fn scenario_name(folder: &str) -> Option<&str> {
    let length = folder.len().checked_sub("-2026-07-28T12-00-00-000Z".len())?;
    let (name, time) = folder.split_at_checked(length)?;
    (time.starts_with('-') && time.ends_with('Z')).then_some(name)
}

/// Parses the checks; empty if the file is truncated.
fn read_checks(json: &str) -> Vec<ScenarioCheck> {
    let mut checks = Vec::new();
    for line in json.lines() {
        if line == "  {" {
            checks.push(ScenarioCheck::default());
        }
        let Some(check) = checks.last_mut() else {
            continue;
        };
        let members = [
            ("id", &mut check.id),
            ("status", &mut check.status),
            ("errorMessage", &mut check.message),
        ];
        for (name, member) in members {
            if let Some(text) = string_field(line, name) {
                *member = text;
            }
        }
    }
    if json.ends_with("\n]") { checks } else { Vec::new() }
}

/// The string value of a check's field, on one line.
fn string_field(line: &str, name: &str) -> Option<String> {
    let value = line.strip_prefix("    \"")?.strip_prefix(name)?.strip_prefix("\": \"")?;
    let text = value.trim_end_matches(',').strip_suffix('"')?;
    Some(text.replace("\\n", " ").replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: &str = r#"[
  {
    "id": "ping",
    "name": "Ping",
    "status": "SUCCESS",
    "details": {
      "status": "FAILURE"
    }
  },
  {
    "id": "ping-again",
    "status": "FAILURE",
    "errorMessage": "two\nlines of \"text\""
  }
]"#;

    fn scenario(json: &str) -> ScenarioResult {
        ScenarioResult { name: "ping".to_owned(), checks: read_checks(json) }
    }

    /// A scenario with one check of each status, and a successful schema check.
    fn with(statuses: &[&str]) -> ScenarioResult {
        let check = |id: &str, status: &str| ScenarioCheck {
            id: id.to_owned(),
            status: status.to_owned(),
            message: String::new(),
        };
        let mut checks: Vec<_> = statuses.iter().map(|status| check("ping", status)).collect();
        checks.push(check(SCHEMA_CHECK, "SUCCESS"));
        ScenarioResult { name: "ping".to_owned(), checks }
    }

    #[test]
    fn a_failed_check_fails_its_scenario() {
        let ping = scenario(FAILED);
        assert!(!ping.has_passed());
        assert_eq!(ping.remark(), Some("failed"));
        let told: Vec<_> = ping.checks.iter().filter(|check| check.is_notable()).collect();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].to_string(), "FAILURE ping-again: two lines of \"text\"");
    }

    #[test]
    fn statuses_inside_details_are_not_verdicts() {
        let ping = scenario(&FAILED.replace("\"FAILURE\",", "\"SUCCESS\","));
        assert_eq!((ping.has_passed(), ping.remark()), (true, None));
    }

    #[test]
    fn warnings_and_skipped_checks_are_remarked() {
        let warned = with(&["SUCCESS", "WARNING"]);
        assert_eq!((warned.has_passed(), warned.remark()), (true, Some("passed with warnings")));
        let skipped = with(&["SKIPPED", "INFO"]);
        let remark = "passed, but the suite checked nothing";
        assert_eq!((skipped.has_passed(), skipped.remark()), (true, Some(remark)));
    }

    #[test]
    fn warnings_alone_do_not_pass() {
        assert!(!with(&["WARNING"]).has_passed());
        assert!(!with(&["WARNING", "SKIPPED"]).has_passed());
    }

    #[test]
    fn missing_empty_truncated_or_unknown_results_do_not_pass() {
        assert_eq!(find_scenario(&[], "ping").remark(), Some("was not run"));
        assert!(!with(&["SUCCESS", "ERROR"]).has_passed());
        assert!(!with(&["SUCCESS", ""]).has_passed());
        let good = FAILED.replace("\"FAILURE\",", "\"SUCCESS\",");
        for json in ["", "[]", "[\n]", good.trim_end_matches("\n]")] {
            assert!(!scenario(json).has_passed(), "{json}");
        }
    }

    #[test]
    fn a_folder_is_named_after_its_scenario() {
        assert_eq!(scenario_name("tools-list-2026-07-28T12-00-00-000Z"), Some("tools-list"));
        assert_eq!(scenario_name("auth/dpop-2026-07-28T12-00-00-000Z"), Some("auth/dpop"));
        assert_eq!(scenario_name("log"), None);
        assert_eq!(scenario_name("a-folder-of-another-name-that-is-long"), None);
    }

    #[test]
    fn a_client_gives_up_where_it_must_and_nowhere_else() {
        assert_eq!(check_giving_up("auth/iss-unexpected", "Error: another issuer\n"), None);
        assert_eq!(check_giving_up("auth/iss-supported", ""), None);
        assert!(check_giving_up("auth/iss-unexpected", "").is_some_and(|check| check.is_notable()));
        let told = check_giving_up("tools_call", "Error: no\nanswer\n").unwrap();
        assert_eq!(told.to_string(), "FAILURE client-end: Error: no answer");
    }
}
