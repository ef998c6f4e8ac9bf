//! Values that were handed out, so that nobody repeats them: those in use, and the last few that they took the place of.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

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
    values: HashMap<SecretRef, Values>,
}

struct Values {
    /// The newest first.
    values: VecDeque<SecretString>,
    /// The number of the last read.
    read: u64,
}

impl HandedOut {
    pub(super) fn note(&self, secret: &SecretRef, value: &SecretString) {
        let mut known = self.known();
        known.reads += 1;
        let read = known.reads;
        if let Some(of_one) = known.values.get_mut(secret) {
            of_one.read = read;
            of_one.note(value);
            return;
        }
        if REFERENCES <= known.values.len() {
            let oldest = known.values.iter().min_by_key(|(_, of_one)| of_one.read);
            if let Some(oldest) = oldest.map(|(oldest, _)| oldest.clone()) {
                known.values.remove(&oldest);
            }
        }
        let values = VecDeque::from([value.clone()]);
        known.values.insert(secret.clone(), Values { values, read });
    }

    /// The text with the reference in the place of each value.
    pub(super) fn redact(&self, text: &str) -> String {
        let known = self.known();
        let mut found = Vec::new();
        for (secret, of_one) in &known.values {
            let values = of_one.values.iter().map(|value| value.expose_secret());
            let values = values.filter(|value| !value.is_empty() && text.contains(value));
            found.extend(values.map(|value| (secret, value)));
        }
        // The longest first: one secret may be part of another.
        found.sort_by_key(|(_, value)| Reverse(value.len()));
        found.iter().fold(text.to_owned(), |text, (secret, value)| {
            text.replace(value, &format!("[{secret}]"))
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().expect("no one panics while holding the secrets")
    }
}

impl Values {
    fn note(&mut self, value: &SecretString) {
        let is_it = |known: &SecretString| known.expose_secret() == value.expose_secret();
        match self.values.iter().position(is_it) {
            Some(0) => return,
            // An earlier one is used again.
            Some(at) => drop(self.values.remove(at)),
            None => {}
        }
        self.values.push_front(value.clone());
        self.values.truncate(OF_ONE);
    }
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
        assert_eq!(known.known().values.values().map(|it| it.values.len()).sum::<usize>(), 5);
        // One that is used again is as good as new.
        note(&known, "sealed:token", "value-996.");
        note(&known, "sealed:token", "next");
        assert_eq!(known.redact("value-996. value-997."), "[sealed:token] value-997.");
    }

    #[test]
    fn references_that_nobody_reads_any_more_make_room() {
        let known = HandedOut::default();
        note(&known, "env:KEPT", "kept");
        for number in 0..REFERENCES {
            note(&known, &format!("env:N{number}"), &format!("value-{number}."));
            note(&known, "env:KEPT", "kept");
        }
        assert_eq!(known.known().values.len(), REFERENCES);
        assert_eq!(known.redact("value-0. value-1. kept"), "value-0. [env:N1] [env:KEPT]");
    }
}
