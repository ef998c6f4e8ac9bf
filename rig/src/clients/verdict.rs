//! The expected observations of a client, and the comparison with the actual ones.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::attempt::{Attempt, Over};

/// One row of the table, with the failures below it.
pub(super) struct Verdict {
    client: String,
    version: String,
    over: &'static str,
    era: String,
    marks: Vec<Mark>,
    took: Duration,
}

/// One cell of the table.
enum Mark {
    Good,
    /// The client does not support this.
    Impossible,
    Wrong(String),
}

/// The fields that programs print, and then the requests of the upstream. Each but the first has a column.
const MEMBERS: [&str; 10] = [
    "era", "listed", "found", "called", "executed", "refused", "asked", "progress", "told", "sent",
];

impl Verdict {
    pub(super) fn heading() -> String {
        let columns: String = MEMBERS[1..].iter().map(|name| format!("  {name:<8}")).collect();
        format!(
            "{:<31}  {:<7}  {:<5}  {:<10}{columns}  seconds",
            "client", "version", "over", "era"
        )
    }

    /// The result of a run; `sent` are the requests that reached the upstream meanwhile.
    pub(super) fn of(
        attempt: &Attempt,
        seen: anyhow::Result<Value>,
        sent: &[String],
        took: Duration,
    ) -> Self {
        let over = attempt.over.name();
        let mut seen = match seen {
            Ok(seen) => seen,
            Err(error) => {
                let marks = vec![Mark::Wrong(format!("it failed: {error:#}"))];
                let (client, era) = (attempt.name(), attempt.era.to_owned());
                return Self { client, version: String::new(), over, era, marks, took };
            }
        };
        seen["sent"] = json!(sent);
        let marks = MEMBERS
            .iter()
            .zip(wanted(attempt))
            .map(|(name, wanted)| Mark::of(name, &seen[*name], wanted));
        let text = |name: &str| seen[name].as_str().unwrap_or("?").to_owned();
        let (client, version, era) = (text("client"), text("version"), text("era"));
        Self { client, version, over, era, marks: marks.collect(), took }
    }

    pub(super) fn is_good(&self) -> bool {
        self.marks.iter().all(|mark| !matches!(mark, Mark::Wrong(_)))
    }
}

/// The expected value of each of the `RESULT_FIELDS`; null if the client does not support it.
fn wanted(attempt: &Attempt) -> [Value; 10] {
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
            Over::Http => json!(401),
            // The program exits: stdio has no status code.
            Over::Stdio => json!(true),
        },
        if_can(attempt.is_asked, json!(asked)),
        if_can(attempt.is_asked, json!([0, 50, 100])),
        if_can(attempt.is_told, json!(true)),
        // No credential of the agent is forwarded.
        json!(["GET /orders/7", format!("POST /orders {order}")]),
    ]
}

impl Mark {
    fn of(name: &str, seen: &Value, wanted: Value) -> Self {
        if *seen != wanted {
            return Self::Wrong(format!("{name} is {seen}, and must be {wanted}"));
        }
        if wanted.is_null() { Self::Impossible } else { Self::Good }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, version, over, era, marks, took } = self;
        write!(formatter, "{client:<31}  {version:<7}  {over:<5}  {era:<10}")?;
        for number in 1..MEMBERS.len() {
            let word = match marks.get(number) {
                Some(Mark::Good) => "yes",
                Some(Mark::Impossible) => "–",
                Some(Mark::Wrong(_)) | None => "no",
            };
            write!(formatter, "  {word:<8}")?;
        }
        write!(formatter, "  {:>7.1}", took.as_secs_f64())?;
        for mark in marks {
            if let Mark::Wrong(why) = mark {
                write!(formatter, "\n    {}", why.trim_end().replace('\n', "\n    "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::super::attempt::ATTEMPTS;
    use super::*;

    /// The output of a client that observed everything as expected.
    fn good(attempt: &Attempt) -> (Value, Vec<String>) {
        let mut seen = json!({"client": "c", "version": "1"});
        for (name, wanted) in MEMBERS.iter().zip(wanted(attempt)) {
            seen[*name] = wanted;
        }
        let sent = serde_json::from_value(seen["sent"].take()).unwrap();
        (seen, sent)
    }

    fn verdict(attempt: &Attempt, seen: anyhow::Result<Value>, sent: &[String]) -> Verdict {
        Verdict::of(attempt, seen, sent, Duration::ZERO)
    }

    #[test]
    fn a_client_with_all_expected_observations_passes() {
        for attempt in &ATTEMPTS {
            let (seen, sent) = good(attempt);
            let verdict = verdict(attempt, Ok(seen), &sent);
            assert!(verdict.is_good(), "{verdict}");
            assert_eq!(verdict.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn a_missing_or_different_observation_fails() {
        for attempt in &ATTEMPTS {
            for name in &MEMBERS[..MEMBERS.len() - 1] {
                let (mut seen, sent) = good(attempt);
                seen[*name] = if seen[*name].is_null() { json!(true) } else { Value::Null };
                let verdict = verdict(attempt, Ok(seen), &sent);
                assert!(!verdict.is_good(), "{verdict}");
            }
            let (seen, mut sent) = good(attempt);
            sent[0] += " Bearer tcrib_agent";
            assert!(!verdict(attempt, Ok(seen), &sent).is_good());
        }
    }

    #[test]
    fn a_failed_program_fails() {
        let verdict = verdict(&ATTEMPTS[0], Err(anyhow!("exit status: 1\nlast words\n")), &[]);
        assert!(!verdict.is_good());
        assert!(verdict.to_string().ends_with("it failed: exit status: 1\n    last words"));
    }
}
