//! The expected observations of a client, and the comparison with the actual ones.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::client_run::{ClientRun, ClientTransport};

/// One row of the table, with the failures below it.
pub(super) struct ClientVerdict {
    client: String,
    version: String,
    over: &'static str,
    era: String,
    marks: Vec<ClientMark>,
    took: Duration,
}

/// One cell of the table.
enum ClientMark {
    Passed,
    /// The client does not support this.
    Unsupported,
    Failed(String),
}

/// The fields that programs print, and then the requests of the upstream. Each but the first has a column.
const RESULT_FIELDS: [&str; 10] = [
    "era", "listed", "found", "called", "executed", "refused", "asked", "progress", "told", "sent",
];

impl ClientVerdict {
    pub(super) fn heading() -> String {
        let columns: String =
            RESULT_FIELDS[1..].iter().map(|name| format!("  {name:<8}")).collect();
        format!(
            "{:<31}  {:<7}  {:<5}  {:<10}{columns}  seconds",
            "client", "version", "over", "era"
        )
    }

    /// The result of a run; `sent` are the requests that reached the upstream meanwhile.
    pub(super) fn judge(
        attempt: &ClientRun,
        seen: anyhow::Result<Value>,
        sent: &[String],
        took: Duration,
    ) -> Self {
        let over = attempt.over.name();
        let mut seen = match seen {
            Ok(seen) => seen,
            Err(error) => {
                let marks = vec![ClientMark::Failed(format!("it failed: {error:#}"))];
                let (client, era) = (attempt.name(), attempt.era.to_owned());
                return Self { client, version: String::new(), over, era, marks, took };
            }
        };
        seen["sent"] = json!(sent);
        let marks = RESULT_FIELDS
            .iter()
            .zip(expected_fields(attempt))
            .map(|(name, wanted)| ClientMark::compare(name, &seen[*name], wanted));
        let text = |name: &str| seen[name].as_str().unwrap_or("?").to_owned();
        let (client, version, era) = (text("client"), text("version"), text("era"));
        Self { client, version, over, era, marks: marks.collect(), took }
    }

    pub(super) fn passed(&self) -> bool {
        self.marks.iter().all(|mark| !matches!(mark, ClientMark::Failed(_)))
    }
}

/// The expected value of each of the `RESULT_FIELDS`; null if the client does not support it.
fn expected_fields(attempt: &ClientRun) -> [Value; 10] {
    let order = json!({"address": "Piazza dell’Università 1", "pizzas": ["Margherita"]});
    let asked = r#"User response: {"action":"accept","content":{"username":"ada","email":"ada@example.com"}}"#;
    let if_can = |can: bool, value: Value| if can { value } else { Value::Null };
    [
        json!(attempt.era),
        json!(["tool_search", "execute_tool", "get_order"]),
        // A search finds all granted tools, the best match first.
        json!(["place_order", "get_order"]),
        json!({"id": 7, "state": "in the oven"}),
        json!({"id": 8, "ordered": order}),
        match attempt.over {
            ClientTransport::Http => json!(401),
            // The program exits: stdio has no status code.
            ClientTransport::Stdio => json!(true),
        },
        if_can(attempt.supports_questions, json!(asked)),
        if_can(attempt.supports_questions, json!([0, 50, 100])),
        if_can(attempt.supports_changes, json!(true)),
        // No credential of the agent is forwarded.
        json!(["GET /orders/7", format!("POST /orders {order}")]),
    ]
}

impl ClientMark {
    fn compare(name: &str, seen: &Value, wanted: Value) -> Self {
        if *seen != wanted {
            return Self::Failed(format!("{name} is {seen}, and must be {wanted}"));
        }
        if wanted.is_null() { Self::Unsupported } else { Self::Passed }
    }
}

impl fmt::Display for ClientVerdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, version, over, era, marks, took } = self;
        write!(formatter, "{client:<31}  {version:<7}  {over:<5}  {era:<10}")?;
        for number in 1..RESULT_FIELDS.len() {
            let word = match marks.get(number) {
                Some(ClientMark::Passed) => "yes",
                Some(ClientMark::Unsupported) => "–",
                Some(ClientMark::Failed(_)) | None => "no",
            };
            write!(formatter, "  {word:<8}")?;
        }
        write!(formatter, "  {:>7.1}", took.as_secs_f64())?;
        for mark in marks {
            if let ClientMark::Failed(why) = mark {
                write!(formatter, "\n    {}", why.trim_end().replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::super::client_run::CLIENT_RUNS;
    use super::*;

    /// The output of a client that observed everything as expected.
    fn good(attempt: &ClientRun) -> (Value, Vec<String>) {
        let mut seen = json!({"client": "c", "version": "1"});
        for (name, wanted) in RESULT_FIELDS.iter().zip(expected_fields(attempt)) {
            seen[*name] = wanted;
        }
        let sent = serde_json::from_value(seen["sent"].take()).unwrap();
        (seen, sent)
    }

    fn verdict(attempt: &ClientRun, seen: anyhow::Result<Value>, sent: &[String]) -> ClientVerdict {
        ClientVerdict::judge(attempt, seen, sent, Duration::ZERO)
    }

    #[test]
    fn a_client_with_all_expected_observations_passes() {
        for attempt in &CLIENT_RUNS {
            let (seen, sent) = good(attempt);
            let verdict = verdict(attempt, Ok(seen), &sent);
            assert!(verdict.passed(), "{verdict}");
            assert_eq!(verdict.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn a_missing_or_different_observation_fails() {
        for attempt in &CLIENT_RUNS {
            for name in &RESULT_FIELDS[..RESULT_FIELDS.len() - 1] {
                let (mut seen, sent) = good(attempt);
                seen[*name] = if seen[*name].is_null() { json!(true) } else { Value::Null };
                let verdict = verdict(attempt, Ok(seen), &sent);
                assert!(!verdict.passed(), "{verdict}");
            }
            let (seen, mut sent) = good(attempt);
            sent[0] += " Bearer tcrib_agent";
            assert!(!verdict(attempt, Ok(seen), &sent).passed());
        }
    }

    #[test]
    fn a_failed_program_fails() {
        let verdict = verdict(&CLIENT_RUNS[0], Err(anyhow!("exit status: 1\nlast words\n")), &[]);
        assert!(!verdict.passed());
        assert!(verdict.to_string().ends_with("it failed: exit status: 1\n    last words"));
    }
}
