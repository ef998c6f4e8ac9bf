//! When a source is due for a refresh: computed only from its recorded state, so that all nodes agree, before and after
//! a restart.

use catalog::source::Source;
use jiff::{SignedDuration, Timestamp};
use model::{Digest, SourceKind, SourceSettings};

/// The wait after the first failure; it doubles after each further one.
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(5);
/// The longest wait after failures.
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(15);
/// The shortest interval, whatever an admin configures.
const MIN_REFRESH_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// The jitter in per mille, in both directions, so that sources with the same interval are not refreshed at once.
const JITTER_PER_MILLE: u64 = 100;

/// From when on a source is due for a refresh; `None` if it is not due until something changes.
pub fn refresh_due_at(source: &Source) -> Option<Timestamp> {
    if !can_be_refreshed(source) {
        return None;
    }
    if source.stale {
        return Some(source.updated_at);
    }
    let every =
        source.profile.refresh_every.map(|seconds| SignedDuration::from_secs(seconds.into()));
    let is_declared = is_declared(source.profile.settings.kind());
    let every = every.filter(|_| !is_declared).map(|every| every.max(MIN_REFRESH_INTERVAL));
    let (since, wait) = match (source.last_sync_ended_at, source.failures) {
        (Some(ended), 0) => (ended, every?),
        (Some(ended), failures) => (ended, backoff(failures, every)),
        // The refresh is running, or its node is gone: then it has failed unrecorded.
        (None, failures) => {
            (source.last_sync_started_at?, backoff(failures.saturating_add(1), every))
        }
    };
    let wait = with_source_jitter(wait, source, since);
    Some(since.checked_add(wait).unwrap_or(Timestamp::MAX))
}

/// Whether the inventory comes from the settings, and changes only with them.
pub(super) fn is_declared(kind: SourceKind) -> bool {
    match kind {
        SourceKind::Workflow | SourceKind::Custom => true,
        SourceKind::Openapi | SourceKind::Mcp | SourceKind::HttpManifest | SourceKind::Builtin => {
            false
        }
    }
}

/// Whether the source is enabled and has, or had, anything to discover.
pub(super) fn can_be_refreshed(source: &Source) -> bool {
    let says_nothing =
        matches!(&source.profile.settings, SourceSettings::Custom(custom) if custom.is_empty());
    source.enabled && (!says_nothing || source.inventory.is_some())
}

/// The wait after this many failures: it grows, up to the source's regular interval.
fn backoff(failures: u32, every: Option<SignedDuration>) -> SignedDuration {
    let doubled = failures.saturating_sub(1).min(16);
    let wait = (FIRST_BACKOFF * (1 << doubled)).min(MAX_BACKOFF);
    every.map_or(wait, |every| wait.min(every.max(FIRST_BACKOFF)))
}

/// Adds jitter that all nodes agree on: derived from the source and the time of its last refresh.
fn with_source_jitter(wait: SignedDuration, source: &Source, since: Timestamp) -> SignedDuration {
    let digest = Digest::of_bytes(format!("{} {}", source.id, since.as_microsecond()));
    let drawn = digest.as_bytes().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let per_mille = 1000 - JITTER_PER_MILLE + drawn % (2 * JITTER_PER_MILLE + 1);
    let micros = wait.as_micros() * i128::from(per_mille) / 1000;
    SignedDuration::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
