//! Tests of the commands and states of a source.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sample_events::{from_json, parsed, source_events, time};

fn id() -> SourceId {
    parsed("pets")
}

/// The state after these events, which happened at second 1, 2, …
fn given(events: &[SourceEvent]) -> Option<Source> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        Source::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn decide(
    known: &Option<Source>,
    command: SourceCommand,
) -> Result<Vec<SourceEvent>, CommandRefusal> {
    Source::decide(&id(), known.as_ref(), command)
}

/// The given events, followed by the resulting ones.
fn after(events: &[SourceEvent], commands: &[SourceCommand]) -> Vec<SourceEvent> {
    let mut events = events.to_vec();
    for command in commands {
        let decided = decide(&given(&events), command.clone()).unwrap();
        events.extend(decided);
    }
    events
}

fn profile(name: &str, kind: &str) -> SourceProfile {
    from_json(json!({"name": name, "settings": {"kind": kind}}))
}

fn registered() -> SourceEvent {
    SourceEvent::Registered { profile: profile("Pets", "openapi") }
}

fn updated(name: &str) -> SourceEvent {
    SourceEvent::Updated { profile: profile(name, "openapi") }
}

fn error(code: &str) -> SyncError {
    SyncError { code: code.into(), message: "it did not work".into() }
}

fn fail(code: &str) -> SourceCommand {
    SourceCommand::FailSync(error(code))
}

fn failed(code: &str) -> SourceEvent {
    SourceEvent::SyncFailed { error: error(code) }
}

fn inventory(hash: &str) -> IngestedInventory {
    from_json(json!({"inventory_hash": hash, "fingerprint": Digest::of_bytes(hash), "count": 3}))
}

fn ingest(hash: &str) -> SourceCommand {
    SourceCommand::Ingest(inventory(hash))
}

fn ingested(hash: &str) -> SourceEvent {
    SourceEvent::InventoryIngested { inventory: inventory(hash) }
}

fn now(health: SourceHealth) -> SourceEvent {
    SourceEvent::HealthChanged { health }
}

/// One command of each kind but `Register`.
fn commands() -> Vec<SourceCommand> {
    vec![
        SourceCommand::Update(profile("Dogs", "openapi")),
        SourceCommand::Enable,
        SourceCommand::Disable,
        SourceCommand::Remove,
        SourceCommand::StartSync,
        fail("spec_fetch_failed"),
        ingest("a1"),
    ]
}

#[test]
fn a_source_is_registered_once() {
    let register = SourceCommand::Register(profile("Pets", "openapi"));
    assert_eq!(decide(&None, register.clone()), Ok(vec![registered()]));
    let refusal = CommandRefusal::AlreadyExists { what: "source", id: "pets".into() };
    assert_eq!(decide(&given(&[registered()]), register), Err(refusal.clone()));
    let other = SourceCommand::Register(profile("Dogs", "mcp"));
    assert_eq!(decide(&given(&[registered()]), other), Err(refusal));
}

#[test]
fn a_registered_source_is_enabled_and_its_health_is_not_known_yet() {
    let expected = Source {
        id: id(),
        profile: profile("Pets", "openapi"),
        enabled: true,
        health: SourceHealth::Unknown,
        failures: 0,
        stale: true,
        last_sync_started_at: None,
        last_sync_ended_at: None,
        last_sync_error: None,
        inventory: None,
        created_at: time(1),
        updated_at: time(1),
        version: StreamVersion(1),
    };
    assert_eq!(given(&[registered()]), Some(expected));
}

#[test]
fn an_unknown_source_refuses_every_command_except_registration() {
    let refusal = CommandRefusal::NotFound { what: "source", id: "pets".into() };
    for known in [None, given(&[registered(), SourceEvent::Removed {}])] {
        for command in commands() {
            assert_eq!(decide(&known, command), Err(refusal.clone()));
        }
    }
}

#[test]
fn an_update_is_recorded_if_it_changes_something() {
    let source = given(&[registered()]);
    let update = |name| SourceCommand::Update(profile(name, "openapi"));
    assert_eq!(decide(&source, update("Dogs")), Ok(vec![updated("Dogs")]));
    assert_eq!(decide(&source, update("Pets")), Ok(vec![]));

    let source = given(&[registered(), updated("Dogs")]).unwrap();
    assert_eq!(source.profile, profile("Dogs", "openapi"));
    assert_eq!((source.created_at, source.updated_at), (time(1), time(2)));
}

#[test]
fn the_kind_of_a_source_cannot_change() {
    let update = SourceCommand::Update(profile("Pets", "mcp"));
    let refusal = CommandRefusal::KindIsFixed { id: "pets".into(), kind: "openapi" };
    assert_eq!(decide(&given(&[registered()]), update), Err(refusal));
}

#[test]
fn enabling_and_disabling_are_recorded_once() {
    let on = given(&[registered()]);
    assert_eq!(decide(&on, SourceCommand::Enable), Ok(vec![]));
    assert_eq!(decide(&on, SourceCommand::Disable), Ok(vec![SourceEvent::Disabled {}]));

    let off = given(&[registered(), SourceEvent::Disabled {}]);
    assert_eq!(decide(&off, SourceCommand::Disable), Ok(vec![]));
    assert_eq!(decide(&off, SourceCommand::Enable), Ok(vec![SourceEvent::Enabled {}]));

    let on_again = given(&[registered(), SourceEvent::Disabled {}, SourceEvent::Enabled {}]);
    let switched =
        |source: Option<Source>| source.map(|source| (source.enabled, source.updated_at));
    assert_eq!(switched(off), Some((false, time(2))));
    assert_eq!(switched(on_again), Some((true, time(3))));
}

#[test]
fn a_refresh_begins_every_time_unless_the_source_is_disabled() {
    let source = given(&[registered(), SourceEvent::SyncStarted {}]);
    assert_eq!(decide(&source, SourceCommand::StartSync), Ok(vec![SourceEvent::SyncStarted {}]));
    assert_eq!(source.unwrap().last_sync_started_at, Some(time(2)));

    let disabled = given(&[registered(), SourceEvent::Disabled {}]);
    let refusal = CommandRefusal::SourceIsDisabled { id: "pets".into() };
    assert_eq!(decide(&disabled, SourceCommand::StartSync), Err(refusal));
}

#[test]
fn a_source_is_stale_until_a_refresh_begins_and_again_after_a_change_that_affects_discovery() {
    let stale = |more: &[SourceEvent]| {
        let events = [&[registered(), SourceEvent::SyncStarted {}], more].concat();
        given(&events).unwrap().stale
    };
    assert!(given(&[registered()]).unwrap().stale);
    assert!(!stale(&[]));
    assert!(!stale(&[ingested("a1"), updated("Dogs")]));
    assert!(stale(&[ingested("a1"), SourceEvent::Disabled {}, SourceEvent::Enabled {}]));
    let base = profile("Pets", "openapi");
    let moved = SourceProfile { url: Some(parsed("https://pets.example")), ..base.clone() };
    let trusting = SourceProfile { shrink_limit: 100, ..base.clone() };
    let often = SourceProfile { refresh_every: Some(60), ..base };
    // The change happened during a refresh, which may have used the old settings.
    assert!(stale(&[SourceEvent::Updated { profile: moved.clone() }, ingested("a1")]));
    assert!(stale(&[ingested("a1"), SourceEvent::Updated { profile: trusting }]));
    assert!(!stale(&[ingested("a1"), SourceEvent::Updated { profile: often }]));
    assert!(!stale(&[SourceEvent::Updated { profile: moved }, SourceEvent::SyncStarted {}]));
}

#[test]
fn a_refresh_ends_when_it_succeeds_or_fails_and_not_before() {
    let started = [registered(), ingested("a1"), SourceEvent::SyncStarted {}];
    let ended = |events: &[SourceEvent]| given(events).unwrap().last_sync_ended_at;
    assert_eq!(ended(&started[..2]), Some(time(2)));
    assert_eq!(ended(&started), None);
    assert_eq!(ended(&[&started[..], &[failed("x")]].concat()), Some(time(4)));
    // A refresh that never ended counts as failed.
    let failures = |events: &[SourceEvent]| given(events).unwrap().failures;
    assert_eq!(failures(&started), 0);
    assert_eq!(failures(&[&started[..], &started[2..]].concat()), 1);
    assert_eq!(failures(&[&started[..], &started[2..], &[ingested("b2")]].concat()), 0);
    assert_eq!(ended(&[&started[..], &[ingested("b2")]].concat()), Some(time(4)));
}

#[test]
fn a_refresh_that_began_before_the_source_was_disabled_still_records_how_it_ended() {
    let source = given(&[registered(), SourceEvent::SyncStarted {}, SourceEvent::Disabled {}]);
    assert_eq!(decide(&source, ingest("a1")), Ok(vec![ingested("a1"), now(SourceHealth::Healthy)]));
    assert_eq!(decide(&source, fail("x")), Ok(vec![failed("x"), now(SourceHealth::Degraded)]));
}

#[test]
fn one_failure_makes_a_source_degraded_and_three_unhealthy() {
    let events = after(&[registered()], &[fail("one"), fail("two"), fail("three"), fail("four")]);
    let expected = vec![
        registered(),
        failed("one"),
        now(SourceHealth::Degraded),
        failed("two"),
        failed("three"),
        now(SourceHealth::Unhealthy),
        failed("four"),
    ];
    assert_eq!(events, expected);

    let source = given(&events).unwrap();
    assert_eq!((source.health, source.failures), (SourceHealth::Unhealthy, 4));
    assert_eq!(source.last_sync_error, Some(error("four")));
}

#[test]
fn one_success_makes_a_source_healthy_and_counting_begins_again() {
    let commands =
        [fail("one"), fail("two"), fail("three"), ingest("a1"), ingest("b2"), fail("four")];
    let events = after(&[registered()], &commands);
    let expected = [
        ingested("a1"),
        now(SourceHealth::Healthy),
        ingested("b2"),
        failed("four"),
        now(SourceHealth::Degraded),
    ];
    assert!(events.ends_with(&expected), "{events:?}");
    assert_eq!(given(&events).unwrap().failures, 1);
}

#[test]
fn an_unchanged_inventory_is_still_a_success() {
    let healthy = given(&[registered(), ingested("a1"), now(SourceHealth::Healthy)]);
    assert_eq!(decide(&healthy, ingest("a1")), Ok(vec![ingested("a1")]));
}

#[test]
fn a_failure_keeps_the_inventory_and_a_success_forgets_the_error() {
    let at_second = |second| Some(IngestedInventory { at: Some(time(second)), ..inventory("a1") });
    let source = given(&[registered(), ingested("a1"), failed("x")]).unwrap();
    assert_eq!((source.inventory, source.last_sync_error), (at_second(2), Some(error("x"))));

    let source = given(&[registered(), failed("x"), ingested("a1")]).unwrap();
    assert_eq!((source.inventory, source.last_sync_error), (at_second(3), None));
}

#[test]
fn a_refresh_does_not_count_as_a_change_by_an_admin() {
    let started = SourceEvent::SyncStarted {};
    let source =
        given(&[registered(), started, failed("x"), ingested("a1"), now(SourceHealth::Healthy)]);
    assert_eq!(source.unwrap().updated_at, time(1));
}

#[test]
fn a_source_registered_again_starts_fresh_and_its_version_goes_on() {
    let first_life =
        [registered(), failed("x"), now(SourceHealth::Degraded), SourceEvent::Disabled {}];
    let mut events = after(&first_life, &[SourceCommand::Remove]);
    assert_eq!(events.last(), Some(&SourceEvent::Removed {}));
    assert_eq!(given(&events), None);

    events.extend(decide(&None, SourceCommand::Register(profile("Dogs", "mcp"))).unwrap());
    let fresh = given(&[SourceEvent::Registered { profile: profile("Dogs", "mcp") }]).unwrap();
    let expected =
        Source { created_at: time(6), updated_at: time(6), version: StreamVersion(6), ..fresh };
    assert_eq!(given(&events), Some(expected));
}

fn any_events() -> impl Strategy<Value = Vec<SourceEvent>> {
    prop::collection::vec(prop::sample::select(source_events()), 0..20)
}

proptest! {
    #[test]
    fn any_events_in_any_order_can_be_replayed(events in any_events()) {
        let source = given(&events);
        prop_assert!(source.is_none_or(|source| source.version == StreamVersion(events.len() as u64)));
    }

    #[test]
    fn events_before_the_registration_leave_no_trace(events in any_events()) {
        let before: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, SourceEvent::Registered { .. })).collect();
        prop_assert_eq!(given(&before), None);
    }

    #[test]
    fn a_switch_or_an_update_given_twice_is_recorded_once(
        events in any_events(),
        command in prop::sample::select(commands()),
    ) {
        let repeatable =
            matches!(command, SourceCommand::Enable | SourceCommand::Disable | SourceCommand::Update(_));
        if repeatable && let Ok(decided) = decide(&given(&events), command.clone()) {
            let source = given(&[events, decided].concat());
            prop_assert_eq!(decide(&source, command), Ok(vec![]));
        }
    }

    #[test]
    fn health_says_how_the_last_refreshes_went(successes in prop::collection::vec(any::<bool>(), 1..12)) {
        let refresh = |success: &bool| if *success { ingest("a1") } else { fail("x") };
        let commands: Vec<_> = successes.iter().map(refresh).collect();
        let expected = match successes.iter().rev().take_while(|success| !**success).count() {
            0 => SourceHealth::Healthy,
            1 | 2 => SourceHealth::Degraded,
            _ => SourceHealth::Unhealthy,
        };
        let events = after(&[registered()], &commands);
        prop_assert_eq!(given(&events).unwrap().health, expected);
    }
}
