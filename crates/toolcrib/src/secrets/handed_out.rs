//! Values that were handed out, so that nobody repeats them: those in use, and the last few that they took the place of.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use model::SecretRef;
use secrecy::{ExposeSecret as _, SecretString};

/// How many values of one reference are known. An answer that is under way may repeat one that was replaced meanwhile,
/// but not one from long ago: where secrets are replaced for years, those are many.
const OF_ONE: usize = 4;
/// How many references. One that was not read for longest makes room: its source has gone, most likely.
const REFERENCES: usize = 10_000;

#[derive(Default)]
pub(super) struct HandedOut(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// How often anything was read.
    reads: u64,
    /// The number of the last read of each.
    last: HashMap<SecretRef, u64>,
    /// A text is looked through without the lock: it may be long, and whoever calls reads a secret.
    values: Arc<Values>,
}

/// Of each the newest first.
type Values = HashMap<SecretRef, VecDeque<SecretString>>;

impl HandedOut {
    pub(super) fn note(&self, secret: &SecretRef, value: &SecretString) {
        let mut known = self.known();
        known.reads += 1;
        let read = known.reads;
        if let Some(last) = known.last.get_mut(secret) {
            *last = read;
        } else {
            known.make_room();
            known.last.insert(secret.clone(), read);
        }
        let newest = known.values.get(secret).and_then(VecDeque::front);
        if newest.is_none_or(|newest| newest.expose_secret() != value.expose_secret()) {
            let values = Arc::make_mut(&mut known.values);
            note_of_one(values.entry(secret.clone()).or_default(), value);
        }
    }

    /// The text with the reference in the place of each value.
    pub(super) fn redact(&self, text: &str) -> String {
        redacted(&self.values(), text)
    }

    /// About so many bytes of its beginning, redacted. Nothing is left of a value that goes on behind them.
    pub(super) fn redact_beginning(&self, text: &str, bytes: usize) -> String {
        let values = self.values();
        let lengths = values.values().flatten().map(|value| value.expose_secret().len());
        let longest = lengths.max().unwrap_or_default();
        let looked_at = text.floor_char_boundary(bytes.saturating_add(longest));
        let (looked_at, rest) = text.split_at(looked_at);
        let mut redacted = redacted(&values, looked_at);
        if !rest.is_empty() {
            let end = redacted.len().saturating_sub(longest);
            redacted.truncate(redacted.floor_char_boundary(end));
        }
        redacted
    }

    fn values(&self) -> Arc<Values> {
        Arc::clone(&self.known().values)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no one panics while holding the secrets")
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.last.len() < REFERENCES {
            return;
        }
        let oldest = self.last.iter().min_by_key(|(_, read)| **read);
        if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
            self.last.remove(&oldest);
            Arc::make_mut(&mut self.values).remove(&oldest);
        }
    }
}

fn note_of_one(values: &mut VecDeque<SecretString>, value: &SecretString) {
    // An earlier one may be used again.
    values.retain(|known| known.expose_secret() != value.expose_secret());
    values.push_front(value.clone());
    values.truncate(OF_ONE);
}

fn redacted(values: &Values, text: &str) -> String {
    let mut found = Vec::new();
    for (secret, of_one) in values {
        let values = of_one.iter().map(|value| value.expose_secret());
        let values = values.filter(|value| !value.is_empty() && text.contains(value));
        found.extend(values.map(|value| (secret, value)));
    }
    // The longest first: one secret may be part of another.
    found.sort_by_key(|(_, value)| Reverse(value.len()));
    found
        .iter()
        .fold(text.to_owned(), |text, (secret, value)| text.replace(value, &format!("[{secret}]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(known: &HandedOut, secret: &str, value: &str) {
        known.note(&secret.parse().unwrap(), &value.into());
    }

    #[test]
    fn a_secret_that_is_replaced_again_and_again_leaves_only_its_last_values_behind() {
        let known = HandedOut::default();
        note(&known, "env:OTHER", "the other");
        for number in 0..1_000 {
            note(&known, "sealed:token", &format!("value-{number}."));
            note(&known, "sealed:token", &format!("value-{number}."));
        }
        let text = "value-995. value-996. value-999. the other";
        assert_eq!(known.redact(text), "value-995. [sealed:token] [sealed:token] [env:OTHER]");
        assert_eq!(known.values().values().map(VecDeque::len).sum::<usize>(), 5);
        // One that is used again is as good as new.
        note(&known, "sealed:token", "value-996.");
        note(&known, "sealed:token", "next");
        assert_eq!(known.redact("value-996. value-997."), "[sealed:token] value-997.");
    }

    #[test]
    fn of_the_beginning_of_a_text_no_part_of_a_secret_is_left() {
        let known = HandedOut::default();
        let secret = "S3cr\u{e9}t-".repeat(20);
        note(&known, "env:LONG", &secret);
        assert_eq!(known.redact_beginning("all of it", 100), "all of it");
        for before in 0..1_300 {
            let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(2_000));
            let beginning = known.redact_beginning(&text, 1_000);
            assert!(!beginning.contains("S3") && beginning.len() <= 1_010, "{before}: {beginning}");
            assert!(beginning.starts_with(&"x".repeat(before.min(800))), "{before}: {beginning}");
        }
    }

    #[test]
    fn references_that_nobody_reads_any_more_make_room() {
        let known = HandedOut::default();
        note(&known, "env:KEPT", "kept");
        for number in 0..REFERENCES {
            note(&known, &format!("env:N{number}"), &format!("value-{number}."));
            note(&known, "env:KEPT", "kept");
        }
        assert_eq!((known.values().len(), known.known().last.len()), (REFERENCES, REFERENCES));
        assert_eq!(known.redact("value-0. value-1. kept"), "value-0. [env:N1] [env:KEPT]");
    }
}
