//! File descriptors: each connection takes one, and the journal and outgoing connections need some too.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved descriptors: one of `RESERVED_ONE_IN` of all that are allowed, and at least `RESERVED_AT_LEAST`.
const RESERVED_ONE_IN: u64 = 8;
const RESERVED_AT_LEAST: u64 = 128;

/// The number of connections that the descriptor limit allows, at most `wanted`. Raises the soft limit if possible.
pub fn raise_connection_capacity(wanted: usize) -> usize {
    let needed = descriptors_needed(wanted as u64);
    let allowed = getrlimit(Resource::Nofile);
    let raised = allowed.maximum.map_or(needed, |most| needed.min(most));
    let is_less = allowed.current.is_some_and(|current| current < raised);
    let limit = Rlimit { current: Some(raised), maximum: allowed.maximum };
    let current = match is_less && setrlimit(Resource::Nofile, limit).is_ok() {
        true => Some(raised),
        false => allowed.current,
    };
    let places = current.map_or(wanted, |current| wanted.min(connections_for_descriptors(current)));
    if places < wanted {
        tracing::info!(
            places,
            wanted,
            "only {places} connections at once instead of {wanted}: the system allows too few open files (`ulimit -n`)"
        );
    }
    places
}

/// The maximum number of connections under the hard limit of the system.
pub fn max_connection_capacity() -> usize {
    getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, connections_for_descriptors)
}

fn descriptors_needed(places: u64) -> u64 {
    (places * RESERVED_ONE_IN).div_ceil(RESERVED_ONE_IN - 1).max(places + RESERVED_AT_LEAST)
}

fn connections_for_descriptors(descriptors: u64) -> usize {
    let places = descriptors.saturating_sub((descriptors / RESERVED_ONE_IN).max(RESERVED_AT_LEAST));
    usize::try_from(places).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_always_reserved() {
        assert_eq!(connections_for_descriptors(1024), 896);
        assert_eq!(connections_for_descriptors(256), 128);
        assert_eq!(connections_for_descriptors(16), 1);
        for places in [1, 100, 384, 4096, 16_384] {
            let held = connections_for_descriptors(descriptors_needed(places)) as u64;
            assert!(places <= held && held < places + 2, "{places}: {held}");
        }
    }

    #[test]
    fn the_capacity_is_at_most_the_wanted_number() {
        assert_eq!(raise_connection_capacity(3), 3);
    }
}
