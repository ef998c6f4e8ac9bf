//! Tests of the commands and states of a policy.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sample_events::{from_json, parsed, policy_events, time};

fn id() -> PolicyId {
    parsed("staff")
}

/// The state after these events, which happened at second 1, 2, …
fn given(events: &[PolicyEvent]) -> Option<Policy> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        Policy::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn decide(
    known: &Option<Policy>,
    command: PolicyCommand,
) -> Result<Vec<PolicyEvent>, CommandRefusal> {
    Policy::decide(&id(), known.as_ref(), command)
}

fn rules(role: &str) -> PolicyRules {
    let matcher = json!({"claim": "role", "operator": "equals", "value": role});
    from_json(json!({"name": "Staff", "matchers": [matcher], "groups": ["readers"]}))
}

fn defined(role: &str) -> PolicyEvent {
    PolicyEvent::Defined { rules: rules(role) }
}

fn updated(role: &str) -> PolicyEvent {
    PolicyEvent::Updated { rules: rules(role) }
}

/// One command of each kind but `Define`.
fn commands() -> Vec<PolicyCommand> {
    let update = PolicyCommand::Update(rules("keeper"));
    vec![update, PolicyCommand::Activate, PolicyCommand::Deactivate, PolicyCommand::Delete]
}

#[test]
fn a_policy_is_defined_once() {
    assert_eq!(decide(&None, PolicyCommand::Define(rules("staff"))), Ok(vec![defined("staff")]));
    let refusal = CommandRefusal::AlreadyExists { what: "policy", id: "staff".into() };
    let policy = given(&[defined("staff")]);
    assert_eq!(decide(&policy, PolicyCommand::Define(rules("keeper"))), Err(refusal));
}

#[test]
fn a_defined_policy_is_active() {
    let (created_at, updated_at) = (time(1), time(1));
    let expected = Policy {
        id: id(),
        rules: rules("staff"),
        active: true,
        created_at,
        updated_at,
        version: StreamVersion(1),
    };
    assert_eq!(given(&[defined("staff")]), Some(expected));
}

#[test]
fn an_unknown_policy_refuses_every_command_except_definition() {
    let refusal = CommandRefusal::NotFound { what: "policy", id: "staff".into() };
    for known in [None, given(&[defined("staff"), PolicyEvent::Deleted {}])] {
        for command in commands() {
            assert_eq!(decide(&known, command), Err(refusal.clone()));
        }
    }
}

#[test]
fn an_update_is_recorded_if_it_changes_something() {
    let policy = given(&[defined("staff")]);
    assert_eq!(decide(&policy, PolicyCommand::Update(rules("staff"))), Ok(vec![]));
    assert_eq!(
        decide(&policy, PolicyCommand::Update(rules("keeper"))),
        Ok(vec![updated("keeper")])
    );

    let policy = given(&[defined("staff"), updated("keeper")]).unwrap();
    assert_eq!(policy.rules, rules("keeper"));
    assert_eq!(
        (policy.created_at, policy.updated_at, policy.version),
        (time(1), time(2), StreamVersion(2))
    );
}

#[test]
fn each_part_of_the_rules_is_a_change() {
    let policy = given(&[defined("staff")]);
    let with = |field: &str, value| {
        let mut changed = serde_json::to_value(rules("staff")).unwrap();
        changed[field] = value;
        from_json::<PolicyRules>(changed)
    };
    let all = [
        with("name", json!("Everyone at work")),
        with("description", json!("All of them")),
        with("priority", json!(1)),
        with("matchers", json!([{"claim": "role", "operator": "exists"}])),
        with("groups", json!(["writers"])),
    ];
    for rules in all {
        let updated = PolicyEvent::Updated { rules: rules.clone() };
        assert_eq!(decide(&policy, PolicyCommand::Update(rules)), Ok(vec![updated]));
    }
}

#[test]
fn the_switch_is_recorded_once() {
    let on = given(&[defined("staff")]);
    assert_eq!(decide(&on, PolicyCommand::Activate), Ok(vec![]));
    assert_eq!(decide(&on, PolicyCommand::Deactivate), Ok(vec![PolicyEvent::Deactivated {}]));

    let off = given(&[defined("staff"), PolicyEvent::Deactivated {}]);
    assert_eq!(decide(&off, PolicyCommand::Deactivate), Ok(vec![]));
    assert_eq!(decide(&off, PolicyCommand::Activate), Ok(vec![PolicyEvent::Activated {}]));
    let on_again =
        given(&[defined("staff"), PolicyEvent::Deactivated {}, PolicyEvent::Activated {}]);
    assert_eq!((off.unwrap().active, on_again.unwrap().active), (false, true));
}

#[test]
fn an_update_does_not_touch_the_switch() {
    let off = given(&[defined("staff"), PolicyEvent::Deactivated {}, updated("keeper")]);
    assert!(!off.unwrap().active);
}

#[test]
fn a_policy_defined_again_starts_fresh_and_its_version_goes_on() {
    let off = given(&[defined("staff"), PolicyEvent::Deactivated {}]);
    assert_eq!(decide(&off, PolicyCommand::Delete), Ok(vec![PolicyEvent::Deleted {}]));

    let events =
        [defined("staff"), PolicyEvent::Deactivated {}, PolicyEvent::Deleted {}, defined("keeper")];
    let fresh = given(&[defined("keeper")]).unwrap();
    let expected =
        Policy { created_at: time(4), updated_at: time(4), version: StreamVersion(4), ..fresh };
    assert_eq!(given(&events), Some(expected));
}

fn any_events() -> impl Strategy<Value = Vec<PolicyEvent>> {
    prop::collection::vec(prop::sample::select(policy_events()), 0..20)
}

proptest! {
    #[test]
    fn any_events_in_any_order_can_be_replayed(events in any_events()) {
        let policy = given(&events);
        prop_assert!(policy.is_none_or(|policy| policy.version == StreamVersion(events.len() as u64)));
    }

    #[test]
    fn events_before_the_definition_leave_no_trace(events in any_events()) {
        let before: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, PolicyEvent::Defined { .. })).collect();
        prop_assert_eq!(given(&before), None);
    }

    #[test]
    fn a_command_given_twice_is_recorded_once(
        events in any_events(),
        command in prop::sample::select(commands()),
    ) {
        if command != PolicyCommand::Delete && let Ok(decided) = decide(&given(&events), command.clone()) {
            let policy = given(&[events, decided].concat());
            prop_assert_eq!(decide(&policy, command), Ok(vec![]));
        }
    }
}
