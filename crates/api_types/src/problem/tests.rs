//! Tests of the details that problems reveal to callers, and of the ones they hide.

use std::io;
use std::sync::{Arc, Mutex};

use model::Digest;

use super::*;

fn told(problem: impl Into<Problem>) -> (u16, String) {
    let problem = problem.into();
    (problem.code.status(), format!("{}: {}", problem.code, problem.detail))
}

#[test]
fn the_journal_location_is_hidden_from_callers() {
    let (place, cause) = ("postgres://me@db.internal".to_owned(), "hunter2".to_owned());
    let errors = [
        JournalError::Full { place: place.clone() },
        JournalError::Unavailable {
            place: place.clone(),
            cause: cause.clone(),
            maybe_stored: true,
        },
        JournalError::Unavailable {
            place: place.clone(),
            cause: cause.clone(),
            maybe_stored: false,
        },
        JournalError::Stopped { place: place.clone(), cause: cause.clone() },
        JournalError::Damaged { place, cause },
    ];
    for error in errors {
        let (status, text) = told(CommandError::Journal(error));
        assert_eq!(status, 503);
        assert!(text.starts_with("journal_unavailable"), "{text}");
        assert!(!text.contains("db.internal") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn a_reused_idempotency_key_does_not_reveal_its_owner() {
    let (status, text) = told(JournalError::KeyReused { key: "key:ada\nk1".to_owned() });
    assert_eq!(status, 422);
    assert!(!text.contains("ada"), "{text}");
}

#[test]
fn transient_failures_ask_for_a_retry() {
    let retries = |problem: Problem| problem.headers.iter().any(|(name, _)| name == RETRY_AFTER);
    assert!(retries(CommandError::Busy { stream: String::new() }.into()));
    assert!(retries(JournalError::Full { place: String::new() }.into()));
    assert!(!retries(JournalError::Stopped { place: String::new(), cause: String::new() }.into()));
    assert!(retries(AuthenticationError::Token(TokenError::KeysUnavailable).into()));
}

#[test]
fn an_internal_error_hides_its_cause() {
    let (status, text) =
        told(Problem::internal_error(&format!("index 7 out of {}", Digest::of_bytes("x"))));
    assert_eq!(status, 500);
    assert!(!text.contains("index"), "{text}");
}

/// Collects log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failure_is_logged_once_with_its_cause() {
    let logged = |problem: &dyn Fn() -> Problem| {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .finish();
        tracing::subscriber::with_default(subscriber, || drop(problem().into_response()));
        String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
    };
    let stopped = || JournalError::Stopped { place: "here".to_owned(), cause: "gone".to_owned() };
    let text = stopped().to_string();
    let inside = || Problem::internal_error("index 7");
    let late = || Problem::new(ProblemCode::DeadlineExceeded, "no answer within 60 s");
    let (stopped, inside, late) = (logged(&|| stopped().into()), logged(&inside), logged(&late));
    for (log, level, cause) in [
        (&stopped, "ERROR", text.as_str()),
        (&inside, "ERROR", "index 7"),
        (&late, "WARN", "no answer within 60 s"),
    ] {
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains(level) && log.contains(cause), "{log}");
    }
    assert_eq!(logged(&|| Problem::not_found("group", "g")), "");
}
