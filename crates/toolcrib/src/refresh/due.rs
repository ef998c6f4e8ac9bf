//! When a source is due: worked out from nothing but what is recorded at it, so that all nodes say the same, before and
//! after a restart.

use catalog::source::Source;
use jiff::{SignedDuration, Timestamp};
use model::{Digest, Kind, Settings};

/// After the first failure; doubled after each further one.
const FIRST: SignedDuration = SignedDuration::from_secs(5);
/// However often it failed.
const LONGEST: SignedDuration = SignedDuration::from_mins(15);
/// However often an admin wants it.
const SHORTEST: SignedDuration = SignedDuration::from_secs(1);
/// Per mille, earlier or later: sources of one hour are not asked in one second.
const JITTER: u64 = 100;

/// From when on a source is due for a refresh. None if it is not, until something changes.
pub fn due(source: &Source) -> Option<Timestamp> {
    if !can_be_asked(source) {
        return None;
    }
    if source.stale {
        return Some(source.updated_at);
    }
    let every =
        source.profile.refresh_every.map(|seconds| SignedDuration::from_secs(seconds.into()));
    let is_declared = is_declared(source.profile.settings.kind());
    let every = every.filter(|_| !is_declared).map(|every| every.max(SHORTEST));
    let (since, wait) = match (source.last_sync_ended_at, source.failures) {
        (Some(ended), 0) => (ended, every?),
        (Some(ended), failures) => (ended, backoff(failures, every)),
        // It goes on, or whoever began it is gone: then it has failed without a word.
        (None, failures) => {
            (source.last_sync_started_at?, backoff(failures.saturating_add(1), every))
        }
    };
    let wait = with_jitter(wait, source, since);
    Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
}

/// Whether all it offers stands in its settings, and changes when these do.
pub(super) fn is_declared(kind: Kind) -> bool {
    match kind {
        Kind::Workflow | Kind::Custom => true,
        Kind::Openapi | Kind::Mcp | Kind::HttpManifest | Kind::Builtin => false,
    }
}

/// Whether it is enabled and has something to say, or had.
pub(super) fn can_be_asked(source: &Source) -> bool {
    let says_nothing =
        matches!(&source.profile.settings, Settings::Custom(custom) if custom.is_empty());
    source.enabled && (!says_nothing || source.inventory.is_some())
}

/// How long to leave a source alone after this many failures: longer and longer, but not longer than if it was well.
fn backoff(failures: u32, every: Option<SignedDuration>) -> SignedDuration {
    let doubled = failures.saturating_sub(1).min(16);
    let wait = (FIRST * (1 << doubled)).min(LONGEST);
    every.map_or(wait, |every| wait.min(every.max(FIRST)))
}

/// A little more or less, by what all nodes know: the source, and which of its refreshes this follows.
fn with_jitter(wait: SignedDuration, source: &Source, since: Timestamp) -> SignedDuration {
    let digest = Digest::of(format!("{} {}", source.id, since.as_microsecond()));
    let drawn = digest.as_bytes().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let per_mille = 1000 - JITTER + drawn % (2 * JITTER + 1);
    let micros = wait.as_micros() * i128::from(per_mille) / 1000;
    SignedDuration::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
