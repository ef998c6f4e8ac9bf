//! Tests of the commands and states of a label.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sample_events::{from_json, label_events, parsed, time};

fn id() -> LabelId {
    parsed("pii")
}

/// The state after these events, which happened at second 1, 2, …
fn given(events: &[LabelEvent]) -> Option<Label> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        Label::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn decide(known: &Option<Label>, command: LabelCommand) -> Result<Vec<LabelEvent>, CommandRefusal> {
    Label::decide(&id(), known.as_ref(), command)
}

fn profile(name: &str) -> LabelProfile {
    from_json(json!({"name": name, "colour": "#ff0000"}))
}

fn created(name: &str) -> LabelEvent {
    LabelEvent::Created { profile: profile(name) }
}

fn updated(name: &str) -> LabelEvent {
    LabelEvent::Updated { profile: profile(name) }
}

#[test]
fn a_label_is_created_once() {
    assert_eq!(decide(&None, LabelCommand::Create(profile("PII"))), Ok(vec![created("PII")]));
    let refusal = CommandRefusal::AlreadyExists { what: "label", id: "pii".into() };
    let label = given(&[created("PII")]);
    assert_eq!(decide(&label, LabelCommand::Create(profile("Other"))), Err(refusal));

    let (created_at, updated_at) = (time(1), time(1));
    let expected = Label {
        id: id(),
        profile: profile("PII"),
        created_at,
        updated_at,
        version: StreamVersion(1),
    };
    assert_eq!(label, Some(expected));
}

#[test]
fn an_unknown_label_refuses_every_command_except_creation() {
    let refusal = CommandRefusal::NotFound { what: "label", id: "pii".into() };
    for known in [None, given(&[created("PII"), LabelEvent::Deleted {}])] {
        assert_eq!(decide(&known, LabelCommand::Update(profile("PII"))), Err(refusal.clone()));
        assert_eq!(decide(&known, LabelCommand::Delete), Err(refusal.clone()));
    }
}

#[test]
fn an_update_is_recorded_if_it_changes_something() {
    let label = given(&[created("PII")]);
    assert_eq!(decide(&label, LabelCommand::Update(profile("PII"))), Ok(vec![]));
    assert_eq!(
        decide(&label, LabelCommand::Update(profile("Personal"))),
        Ok(vec![updated("Personal")])
    );

    let label = given(&[created("PII"), updated("Personal")]).unwrap();
    assert_eq!(label.profile, profile("Personal"));
    assert_eq!(
        (label.created_at, label.updated_at, label.version),
        (time(1), time(2), StreamVersion(2))
    );
}

#[test]
fn a_label_created_again_starts_fresh_and_its_version_goes_on() {
    let label = given(&[created("PII")]);
    assert_eq!(decide(&label, LabelCommand::Delete), Ok(vec![LabelEvent::Deleted {}]));

    let again = given(&[created("PII"), LabelEvent::Deleted {}, created("Personal")]).unwrap();
    assert_eq!(again.profile, profile("Personal"));
    assert_eq!(
        (again.created_at, again.updated_at, again.version),
        (time(3), time(3), StreamVersion(3))
    );
}

fn any_events() -> impl Strategy<Value = Vec<LabelEvent>> {
    prop::collection::vec(prop::sample::select(label_events()), 0..20)
}

proptest! {
    #[test]
    fn any_events_in_any_order_can_be_replayed(events in any_events()) {
        let label = given(&events);
        prop_assert!(label.is_none_or(|label| label.version == StreamVersion(events.len() as u64)));
    }

    #[test]
    fn events_before_the_creation_leave_no_trace(events in any_events()) {
        let before: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, LabelEvent::Created { .. })).collect();
        prop_assert_eq!(given(&before), None);
    }

    #[test]
    fn an_update_given_twice_is_recorded_once(events in any_events()) {
        let update = LabelCommand::Update(profile("Personal"));
        if let Ok(decided) = decide(&given(&events), update.clone()) {
            let label = given(&[events, decided].concat());
            prop_assert_eq!(decide(&label, update), Ok(vec![]));
        }
    }
}
