//! Secret values that were read, so that they can be redacted: the values in use, and the last few that they replaced.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use model::SecretRef;
use secrecy::{ExposeSecret as _, SecretString};

/// The most values of one reference to remember. An answer on its way may repeat a value that was just replaced, but
/// not one from long ago; secrets that are rotated for years have many values.
const MAX_VALUES_PER_REFERENCE: usize = 4;
/// The most references. The least recently read one is evicted: most likely its source is gone.
const MAX_REFERENCES: usize = 10_000;

#[derive(Default)]
pub(super) struct DisclosedSecrets(Mutex<DisclosedState>);

#[derive(Default)]
struct DisclosedState {
    /// How many reads there were.
    reads: u64,
    /// The number of the last read of each reference.
    last_reads: HashMap<SecretRef, u64>,
    /// Shared, so that a long text is searched without the lock: calls need it to read secrets.
    values: Arc<DisclosedValues>,
}

/// The values of each reference, the newest first.
type DisclosedValues = HashMap<SecretRef, VecDeque<SecretString>>;

impl DisclosedSecrets {
    pub(super) fn note_value(&self, secret: &SecretRef, value: &SecretString) {
        let mut known = self.lock_state();
        known.reads += 1;
        let read = known.reads;
        if let Some(last) = known.last_reads.get_mut(secret) {
            *last = read;
        } else {
            known.evict_oldest();
            known.last_reads.insert(secret.clone(), read);
        }
        let newest = known.values.get(secret).and_then(VecDeque::front);
        if newest.is_none_or(|newest| newest.expose_secret() != value.expose_secret()) {
            let values = Arc::make_mut(&mut known.values);
            note_newest(values.entry(secret.clone()).or_default(), value);
        }
    }

    /// Replaces each value in the text by its reference.
    pub(super) fn redact(&self, text: &str) -> String {
        redact_values(&self.current_values(), text)
    }

    /// Redacts about the first `bytes` of a text. A value that continues after them is removed completely.
    pub(super) fn redact_beginning(&self, text: &str, bytes: usize) -> String {
        let values = self.current_values();
        let lengths = values.values().flatten().map(|value| value.expose_secret().len());
        let longest = lengths.max().unwrap_or_default();
        let looked_at = text.floor_char_boundary(bytes.saturating_add(longest));
        let (looked_at, rest) = text.split_at(looked_at);
        let mut redacted = redact_values(&values, looked_at);
        if !rest.is_empty() {
            let end = redacted.len().saturating_sub(longest);
            redacted.truncate(redacted.floor_char_boundary(end));
        }
        redacted
    }

    fn current_values(&self) -> Arc<DisclosedValues> {
        Arc::clone(&self.lock_state().values)
    }

    fn lock_state(&self) -> MutexGuard<'_, DisclosedState> {
        self.0.lock().expect("no one panics while holding the secrets")
    }
}

impl DisclosedState {
    fn evict_oldest(&mut self) {
        if self.last_reads.len() < MAX_REFERENCES {
            return;
        }
        let oldest = self.last_reads.iter().min_by_key(|(_, read)| **read);
        if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
            self.last_reads.remove(&oldest);
            Arc::make_mut(&mut self.values).remove(&oldest);
        }
    }
}

fn note_newest(values: &mut VecDeque<SecretString>, value: &SecretString) {
    // An earlier value may be in use again.
    values.retain(|known| known.expose_secret() != value.expose_secret());
    values.push_front(value.clone());
    values.truncate(MAX_VALUES_PER_REFERENCE);
}

fn redact_values(values: &DisclosedValues, text: &str) -> String {
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

    fn note(known: &DisclosedSecrets, secret: &str, value: &str) {
        known.note_value(&secret.parse().unwrap(), &value.into());
    }

    #[test]
    fn a_rotated_secret_leaves_only_its_last_values_behind() {
        let known = DisclosedSecrets::default();
        note(&known, "env:OTHER", "the other");
        for number in 0..1_000 {
            note(&known, "sealed:token", &format!("value-{number}."));
            note(&known, "sealed:token", &format!("value-{number}."));
        }
        let text = "value-995. value-996. value-999. the other";
        assert_eq!(known.redact(text), "value-995. [sealed:token] [sealed:token] [env:OTHER]");
        assert_eq!(known.current_values().values().map(VecDeque::len).sum::<usize>(), 5);
        // A value that is used again counts as new.
        note(&known, "sealed:token", "value-996.");
        note(&known, "sealed:token", "next");
        assert_eq!(known.redact("value-996. value-997."), "[sealed:token] value-997.");
    }

    #[test]
    fn no_part_of_a_secret_is_left_in_the_beginning_of_a_text() {
        let known = DisclosedSecrets::default();
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
    fn references_that_are_no_longer_read_are_evicted() {
        let known = DisclosedSecrets::default();
        note(&known, "env:KEPT", "kept");
        for number in 0..MAX_REFERENCES {
            note(&known, &format!("env:N{number}"), &format!("value-{number}."));
            note(&known, "env:KEPT", "kept");
        }
        assert_eq!(
            (known.current_values().len(), known.lock_state().last_reads.len()),
            (MAX_REFERENCES, MAX_REFERENCES)
        );
        assert_eq!(known.redact("value-0. value-1. kept"), "value-0. [env:N1] [env:KEPT]");
    }
}
