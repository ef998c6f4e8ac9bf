//! When a source is due, by its recorded events.

use catalog::journal::StreamVersion;
use catalog::source::{SourceEvent, SyncError};
use model::{Digest, SourceProfile};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn profile(kind: &str, every: Option<u32>) -> SourceProfile {
    let settings = json!({"kind": kind});
    serde_json::from_value(json!({"name": "Pets", "settings": settings, "refresh_every": every}))
        .unwrap()
}

fn registered(every: Option<u32>) -> SourceEvent {
    SourceEvent::Registered { profile: profile("openapi", every) }
}

fn updated(url: &str, every: Option<u32>) -> SourceEvent {
    let profile = profile("openapi", every);
    SourceEvent::Updated { profile: SourceProfile { url: Some(url.parse().unwrap()), ..profile } }
}

fn failed() -> SourceEvent {
    SourceEvent::SyncFailed { error: SyncError { code: "x".into(), message: "y".into() } }
}

fn ingested() -> SourceEvent {
    let fingerprint = Digest::of_bytes("x");
    let inventory = json!({"inventory_hash": "x", "fingerprint": fingerprint, "count": 1});
    SourceEvent::InventoryIngested { inventory: serde_json::from_value(inventory).unwrap() }
}

const STARTED: SourceEvent = SourceEvent::SyncStarted {};

/// The source after events at these seconds.
fn source(id: &str, events: &[(i64, SourceEvent)]) -> Source {
    let (id, mut known) = (id.parse().unwrap(), None);
    for (version, (at, event)) in (1..).zip(events) {
        Source::evolve(&mut known, &id, event.clone(), time(*at), StreamVersion(version));
    }
    known.unwrap()
}

/// The second from which on it is due, approximately.
fn due_after(events: &[(i64, SourceEvent)]) -> Option<i64> {
    refresh_due_at(&source("pets", events)).map(|due| due.as_second() - time(0).as_second())
}

/// A source after this many failures, of which the last ended at second 0.
fn after_failures(failures: usize, every: Option<u32>) -> Source {
    let mut events = vec![(-10, registered(every))];
    for _ in 0..failures {
        events.extend([(-5, STARTED), (0, failed())]);
    }
    source("pets", &events)
}

#[test]
fn a_source_is_due_at_once_when_it_is_new_enabled_or_reconfigured() {
    let fresh = [(1, registered(None)), (2, STARTED), (3, ingested())];
    assert_eq!(due_after(&fresh[..1]), Some(1));
    assert_eq!(due_after(&fresh), None);
    let with = |more: &[(i64, SourceEvent)]| due_after(&[&fresh, more].concat());
    assert_eq!(with(&[(4, SourceEvent::Disabled {})]), None);
    assert_eq!(with(&[(4, SourceEvent::Disabled {}), (5, SourceEvent::Enabled {})]), Some(5));
    assert_eq!(with(&[(4, updated("https://pets.example", None))]), Some(4));
    // Also while a refresh is running.
    let moved = updated("https://pets.example", None);
    assert_eq!(with(&[(4, STARTED), (5, moved.clone()), (6, ingested())]), Some(5));
    // A change ends the wait after failures.
    assert_eq!(with(&[(4, STARTED), (5, failed()), (6, moved)]), Some(6));
}

#[test]
fn a_source_without_content_is_never_due() {
    for (kind, is_due) in
        [("openapi", true), ("mcp", true), ("http_manifest", true), ("workflow", true)]
            .into_iter()
            .chain([("builtin", true), ("custom", false)])
    {
        let events = [(0, SourceEvent::Registered { profile: profile(kind, Some(60)) })];
        assert_eq!(due_after(&events).is_some(), is_due, "{kind}");
    }
    let tools = json!([{"name": "a", "answer": {"text": "b"}}]);
    let mut own = profile("custom", Some(60));
    own.settings = serde_json::from_value(json!({"kind": "custom", "tools": tools})).unwrap();
    let registered = SourceEvent::Registered { profile: own };
    let fresh = [(0, registered), (1, STARTED), (2, ingested())];
    assert_eq!((due_after(&fresh[..1]), due_after(&fresh)), (Some(0), None));
    // Its former tools are removed.
    let emptied = SourceEvent::Updated { profile: profile("custom", None) };
    assert_eq!(due_after(&[&fresh[..], &[(3, emptied)]].concat()), Some(3));
}

#[test]
fn workflows_are_due_when_they_change_and_never_on_schedule() {
    let registered = SourceEvent::Registered { profile: profile("workflow", Some(60)) };
    assert_eq!(due_after(&[(0, registered.clone())]), Some(0));
    assert_eq!(due_after(&[(0, registered), (1, STARTED), (2, ingested())]), None);
}

#[test]
fn a_schedule_counts_from_the_end_of_the_last_refresh() {
    let events = [(0, registered(Some(1000))), (1, STARTED), (100, ingested())];
    let due = due_after(&events).unwrap();
    assert!((1000..=1200).contains(&due), "{due}");
    // A changed schedule applies at once.
    let hourly = SourceEvent::Updated { profile: profile("openapi", Some(3600)) };
    let due = due_after(&[&events[..], &[(101, hourly)]].concat()).unwrap();
    assert!((3340..=4060).contains(&due), "{due}");
}

#[test]
fn failures_double_the_wait_up_to_a_quarter_of_an_hour() {
    let waits = (1..12).map(|failures| backoff(failures, None).as_secs());
    let expected = [5, 10, 20, 40, 80, 160, 320, 640, 900, 900, 900];
    assert_eq!(waits.collect::<Vec<_>>(), expected);
    assert_eq!(backoff(u32::MAX, None), MAX_BACKOFF);
}

#[test]
fn a_failing_source_is_refreshed_at_least_as_often_as_its_schedule_says() {
    let wait =
        |failures, every| backoff(failures, Some(SignedDuration::from_secs(every))).as_secs();
    assert_eq!((wait(1, 60), wait(4, 60), wait(5, 60), wait(20, 60)), (5, 40, 60, 60));
    // But not without a pause.
    assert_eq!((wait(1, 1), wait(20, 1)), (5, 5));
    assert_eq!(wait(20, 86_400), 900);
}

#[test]
fn a_refresh_that_never_ended_counts_as_failed() {
    let events = [(0, registered(None)), (10, STARTED)];
    let due = due_after(&events).unwrap();
    assert!((14..=15).contains(&due), "{due}");
    let again = [&events[..], &[(11, failed()), (20, STARTED)]].concat();
    let due = due_after(&again).unwrap();
    assert!((29..=31).contains(&due), "{due}");
}

#[test]
fn the_jitter_spreads_sources_and_is_the_same_on_all_nodes() {
    let events = [(0, registered(Some(1000))), (1, STARTED), (2, ingested())];
    let due_of =
        |number: usize| refresh_due_at(&source(&format!("source-{number}"), &events)).unwrap();
    let mut all: Vec<_> = (0..100).map(due_of).collect();
    assert_eq!(all, (0..100).map(due_of).collect::<Vec<_>>());
    all.sort();
    all.dedup();
    assert!(60 < all.len(), "{}", all.len());
    assert!(100 < (all[all.len() - 1].as_second() - all[0].as_second()), "{all:?}");
}

proptest! {
    #[test]
    fn a_source_is_never_refreshed_too_early_and_never_forgotten(
        failures in 0_usize..40,
        every in prop::option::of(any::<u32>()),
    ) {
        let source = if failures == 0 {
            source("pets", &[(-2, registered(every)), (-1, STARTED), (0, ingested())])
        } else {
            after_failures(failures, every)
        };
        let nominal = match (failures, every) {
            (0, None) => {
                prop_assert_eq!(refresh_due_at(&source), None);
                return Ok(());
            }
            (0, Some(every)) => SignedDuration::from_secs(every.max(1).into()),
            (_, _) => backoff(u32::try_from(failures).unwrap(), every.map(|e| SignedDuration::from_secs(e.into()))),
        };
        let wait = refresh_due_at(&source).unwrap().duration_since(time(0));
        prop_assert!(nominal * 9 / 10 <= wait, "{wait:?} is much less than {nominal:?}");
        prop_assert!(wait <= nominal * 11 / 10, "{wait:?} is much more than {nominal:?}");
        if 0 < failures {
            prop_assert!(SignedDuration::from_millis(4500) <= wait);
            prop_assert!(wait <= MAX_BACKOFF * 11 / 10);
        }
    }

    /// After any events: an enabled source that is not healthy is due some day, and a disabled one never.
    #[test]
    fn after_any_events_no_source_starves(kinds in prop::collection::vec(0..6, 0..20)) {
        let event = |kind: &i32| match kind {
            0 => STARTED,
            1 => failed(),
            2 => ingested(),
            3 => SourceEvent::Enabled {},
            4 => SourceEvent::Disabled {},
            _ => updated("https://pets.example", Some(60)),
        };
        let mut events = vec![(0, registered(Some(60)))];
        events.extend((1..).zip(kinds.iter().map(event)));
        let (source, last) = (source("pets", &events), events.len() as i64);
        match refresh_due_at(&source) {
            Some(due) => {
                prop_assert!(source.enabled);
                prop_assert!(due <= time(last + 66), "{due}");
            }
            None => prop_assert!(!source.enabled),
        }
    }
}
