//! Tests of the commands and states of a tool, and of the version that agents get.

use model::Severity;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::sample_events::{
    all_parsed, from_json, full_manifest, other_manifest, parsed, time, tool_events,
};

fn id() -> ToolId {
    parsed("pets:get_pet")
}

/// The state after these events, which happened at second 1, 2, …
fn given(events: &[ToolEvent]) -> Option<Tool> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        Tool::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn decide(known: &Option<Tool>, command: ToolCommand) -> Result<Vec<ToolEvent>, CommandRefusal> {
    Tool::decide(&id(), known.as_ref(), command)
}

/// The given events, followed by the resulting ones.
fn after(events: &[ToolEvent], commands: &[ToolCommand]) -> Vec<ToolEvent> {
    let mut events = events.to_vec();
    for command in commands {
        let decided = decide(&given(&events), command.clone()).unwrap();
        events.extend(decided);
    }
    events
}

/// A version of the tool with this description.
fn version(description: &str) -> Arc<StoredManifest> {
    StoredManifest { description: description.into(), ..full_manifest() }.into()
}

fn fingerprint(description: &str) -> Digest {
    version(description).fingerprint()
}

fn observation(manifest: impl Into<Arc<StoredManifest>>, trust: Trust) -> ToolCommand {
    let manifest = manifest.into();
    let fingerprint = manifest.fingerprint();
    let (source, findings) = (parsed("pets"), vec![]);
    ToolCommand::Observe(ToolObservation { source, manifest, fingerprint, findings, trust })
}

/// A refresh of a trusted source finds this version.
fn observe(description: &str) -> ToolCommand {
    observation(version(description), Trust::Auto)
}

/// A refresh of a source whose tools are reviewed finds this version.
fn observe_for_review(description: &str) -> ToolCommand {
    observation(version(description), Trust::Review)
}

fn approve(description: &str) -> ToolCommand {
    ToolCommand::Approve { fingerprint: fingerprint(description), despite_findings: false }
}

fn reject(description: &str) -> ToolCommand {
    ToolCommand::Reject { fingerprint: fingerprint(description), reason: "no".into() }
}

fn registered(description: &str) -> ToolEvent {
    let (manifest, fingerprint) = (version(description), fingerprint(description));
    ToolEvent::Registered {
        source: parsed("pets"),
        manifest,
        fingerprint,
        awaits_review: false,
        findings: vec![],
    }
}

fn registered_for_review(description: &str) -> ToolEvent {
    let (manifest, fingerprint) = (version(description), fingerprint(description));
    ToolEvent::Registered {
        source: parsed("pets"),
        manifest,
        fingerprint,
        awaits_review: true,
        findings: vec![],
    }
}

fn updated(description: &str) -> ToolEvent {
    let (manifest, fingerprint) = (version(description), fingerprint(description));
    let changed = vec!["description".into()];
    ToolEvent::Updated { manifest, fingerprint, changed, awaits_review: false, findings: vec![] }
}

fn updated_for_review(description: &str) -> ToolEvent {
    let (manifest, fingerprint) = (version(description), fingerprint(description));
    let changed = vec!["description".into()];
    ToolEvent::Updated { manifest, fingerprint, changed, awaits_review: true, findings: vec![] }
}

fn approved(description: &str) -> ToolEvent {
    ToolEvent::Approved { fingerprint: fingerprint(description), despite_findings: false }
}

fn rejected(description: &str) -> ToolEvent {
    ToolEvent::Rejected { fingerprint: fingerprint(description), reason: "no".into() }
}

fn renamed(name: &str) -> ToolOverride {
    ToolOverride { name: Some(name.into()), ..ToolOverride::default() }
}

/// Description of the version that agents get, and review state of the version last observed.
fn served(events: &[ToolEvent]) -> (Option<String>, ReviewState) {
    let tool = given(events).unwrap();
    (tool.served_manifest().map(|manifest| manifest.description.to_string()), tool.review)
}

fn serves(description: &str, review: ReviewState) -> (Option<String>, ReviewState) {
    (Some(description.to_owned()), review)
}

/// One command of each kind but `Observe`.
fn commands() -> Vec<ToolCommand> {
    vec![
        ToolCommand::Deprecate,
        ToolCommand::Enable,
        ToolCommand::Disable,
        ToolCommand::Override(renamed("pet")),
        ToolCommand::Label(all_parsed(&["pii"])),
        approve("one"),
        reject("one"),
        ToolCommand::Remove,
    ]
}

#[test]
fn a_tool_seen_for_the_first_time_is_registered() {
    assert_eq!(decide(&None, observe("one")), Ok(vec![registered("one")]));
    let expected = Tool {
        id: id(),
        source: parsed("pets"),
        manifest: version("one"),
        fingerprint: fingerprint("one"),
        findings: vec![],
        served: ServedVersion::Latest,
        review: ReviewState::Approved,
        status: ToolStatus::Active,
        enabled: true,
        overridden: ToolOverride::default(),
        labels: BTreeSet::new(),
        created_at: time(1),
        updated_at: time(1),
        missing_since: None,
        version: StreamVersion(1),
    };
    assert_eq!(given(&[registered("one")]), Some(expected));
}

#[test]
fn an_unknown_tool_refuses_every_command_except_observation() {
    let refusal = CommandRefusal::NotFound { what: "tool", id: "pets:get_pet".into() };
    for known in [None, given(&[registered("one"), ToolEvent::Removed {}])] {
        for command in commands() {
            assert_eq!(decide(&known, command), Err(refusal.clone()));
        }
    }
}

#[test]
fn an_unchanged_tool_is_not_recorded_again() {
    let tool = given(&[registered("one")]);
    assert_eq!(decide(&tool, observe("one")), Ok(vec![]));
    assert_eq!(decide(&tool, observe_for_review("one")), Ok(vec![]));
}

#[test]
fn a_changed_tool_is_updated_and_served_at_once() {
    assert_eq!(decide(&given(&[registered("one")]), observe("two")), Ok(vec![updated("two")]));

    let events = [registered("one"), updated("two")];
    assert_eq!(served(&events), serves("two", ReviewState::Approved));
    let tool = given(&events).unwrap();
    assert_eq!((tool.manifest, tool.fingerprint), (version("two"), fingerprint("two")));
    assert_eq!(
        (tool.created_at, tool.updated_at, tool.version),
        (time(1), time(2), StreamVersion(2))
    );
}

/// The fields that an update from one manifest to another reports as changed.
fn changed(before: StoredManifest, after: StoredManifest) -> Vec<Box<str>> {
    let tool = given(&decide(&None, observation(before, Trust::Auto)).unwrap());
    match decide(&tool, observation(after, Trust::Auto)).unwrap().as_slice() {
        [ToolEvent::Updated { changed, .. }] => changed.clone(),
        other => panic!("one update, not {other:?}"),
    }
}

#[test]
fn an_update_names_exactly_the_fields_that_changed() {
    let json = |manifest: StoredManifest| serde_json::to_value(manifest).unwrap();
    let (before, other) = (json(full_manifest()), json(other_manifest()));
    for (field, value) in before.as_object().unwrap() {
        let mut after = before.clone();
        // A flag that is false is omitted from the JSON.
        after[field] = other.get(field).cloned().unwrap_or(Value::Bool(false));
        assert_ne!(after[field], *value, "{field}");
        assert_eq!(changed(full_manifest(), from_json(after)), [field.as_str().into()]);
    }
    let all = [
        "name",
        "title",
        "description",
        "method",
        "path",
        "tags",
        "input_schema",
        "output_schema",
        "execution",
        "deprecated",
        "security",
        "extra",
    ];
    assert_eq!(changed(full_manifest(), other_manifest()), all.map(Into::into));
}

fn with_schema(description: &str, schema: &str) -> StoredManifest {
    let mut manifest = full_manifest();
    manifest.description = description.into();
    manifest.input_schema = SchemaRef::Inline(model::RawJson::parse(schema).unwrap());
    manifest
}

const SCHEMA: &str = r#"{"type":"object","title":"Pet"}"#;
const SCHEMA_IN_ANOTHER_ORDER: &str = r#"{"title":"Pet","type":"object"}"#;

#[test]
fn a_tool_whose_keys_are_in_another_order_is_unchanged() {
    let before = observation(with_schema("one", SCHEMA), Trust::Auto);
    let after = observation(with_schema("one", SCHEMA_IN_ANOTHER_ORDER), Trust::Auto);
    assert_eq!(decide(&given(&decide(&None, before).unwrap()), after), Ok(vec![]));
}

#[test]
fn an_update_does_not_name_a_field_whose_keys_are_in_another_order() {
    let changed = changed(with_schema("one", SCHEMA), with_schema("two", SCHEMA_IN_ANOTHER_ORDER));
    assert_eq!(changed, ["description".into()]);
}

#[test]
fn a_missing_tool_is_deprecated_once() {
    let tool = given(&[registered("one")]);
    assert_eq!(decide(&tool, ToolCommand::Deprecate), Ok(vec![ToolEvent::Deprecated {}]));

    let gone = given(&[registered("one"), ToolEvent::Deprecated {}]);
    assert_eq!(decide(&gone, ToolCommand::Deprecate), Ok(vec![]));
    let gone = gone.unwrap();
    assert_eq!((gone.status, gone.missing_since), (ToolStatus::Deprecated, Some(time(2))));
}

#[test]
fn a_tool_that_is_back_is_restored_and_updated_if_it_changed() {
    let gone = given(&[registered("one"), ToolEvent::Deprecated {}]);
    assert_eq!(decide(&gone, observe("one")), Ok(vec![ToolEvent::Restored {}]));
    assert_eq!(decide(&gone, observe("two")), Ok(vec![ToolEvent::Restored {}, updated("two")]));

    let back =
        given(&[registered("one"), ToolEvent::Deprecated {}, ToolEvent::Restored {}]).unwrap();
    assert_eq!((back.status, back.missing_since), (ToolStatus::Active, None));
}

#[test]
fn a_restored_tool_keeps_its_override_labels_and_switch() {
    let labels: BTreeSet<LabelId> = all_parsed(&["pii"]);
    let said = [
        ToolCommand::Disable,
        ToolCommand::Override(renamed("pet")),
        ToolCommand::Label(labels.clone()),
        ToolCommand::Deprecate,
        observe("two"),
    ];
    let tool = given(&after(&[registered("one")], &said)).unwrap();
    assert_eq!((tool.status, tool.enabled), (ToolStatus::Active, false));
    assert_eq!((tool.name(), &tool.labels), ("pet", &labels));
}

#[test]
fn the_switch_is_recorded_once() {
    let on = given(&[registered("one")]);
    assert_eq!(decide(&on, ToolCommand::Enable), Ok(vec![]));
    assert_eq!(decide(&on, ToolCommand::Disable), Ok(vec![ToolEvent::Disabled {}]));

    let off = given(&[registered("one"), ToolEvent::Disabled {}]);
    assert_eq!(decide(&off, ToolCommand::Disable), Ok(vec![]));
    assert_eq!(decide(&off, ToolCommand::Enable), Ok(vec![ToolEvent::Enabled {}]));
}

#[test]
fn a_deprecated_tool_can_be_disabled_but_not_enabled() {
    let refusal = CommandRefusal::ToolIsDeprecated { id: "pets:get_pet".into() };
    let gone = given(&[registered("one"), ToolEvent::Deprecated {}]);
    assert_eq!(decide(&gone, ToolCommand::Enable), Err(refusal.clone()));
    assert_eq!(decide(&gone, ToolCommand::Disable), Ok(vec![ToolEvent::Disabled {}]));

    let gone_and_off =
        given(&[registered("one"), ToolEvent::Disabled {}, ToolEvent::Deprecated {}]);
    assert_eq!(decide(&gone_and_off, ToolCommand::Enable), Err(refusal));
}

#[test]
fn an_override_is_recorded_if_it_changes_something() {
    let overridden = |overridden| ToolEvent::Overridden { overridden };
    let tool = given(&[registered("one"), overridden(renamed("pet"))]);
    assert_eq!(decide(&tool, ToolCommand::Override(renamed("pet"))), Ok(vec![]));
    let nothing = ToolOverride::default();
    assert_eq!(
        decide(&tool, ToolCommand::Override(nothing.clone())),
        Ok(vec![overridden(nothing.clone())])
    );
    assert_eq!(decide(&given(&[registered("one")]), ToolCommand::Override(nothing)), Ok(vec![]));
}

#[test]
fn settings_that_shape_results_are_refused_for_a_prompt_but_can_be_removed() {
    let prompt = StoredManifest { execution: model::Execution::McpPrompt, ..full_manifest() };
    let events = after(&[], &[observation(prompt, Trust::Auto)]);
    let prompt = given(&events);
    let projection =
        ToolOverrideChange { projection: Some(Some("a".into())), ..ToolOverrideChange::default() };
    let bytes =
        ToolOverrideChange { max_result_bytes: Some(Some(5_000)), ..ToolOverrideChange::default() };
    for (amendment, member) in [(projection, "projection"), (bytes, "max_result_bytes")] {
        let (id, kind) = (id().to_string(), "prompt");
        let refusal = Err(CommandRefusal::OnlyOfTools { id, kind, member });
        assert_eq!(decide(&prompt, ToolCommand::Amend(amendment.clone())), refusal);
        let tool = given(&[registered("one")]);
        assert!(decide(&tool, ToolCommand::Amend(amendment)).is_ok());
    }
    let back = ToolOverrideChange {
        projection: Some(None),
        max_result_bytes: Some(None),
        ..ToolOverrideChange::default()
    };
    assert_eq!(decide(&prompt, ToolCommand::Amend(back)), Ok(vec![]));
}

#[test]
fn an_override_survives_an_update() {
    let overridden = ToolOverride { description: Some("A pet".into()), ..renamed("pet") };
    let events = after(&[registered("one")], &[ToolCommand::Override(overridden), observe("two")]);
    let tool = given(&events).unwrap();
    assert_eq!((tool.name(), tool.description()), ("pet", "A pet"));
    assert_eq!(tool.manifest, version("two"));

    let tool = given(&after(&events, &[ToolCommand::Override(ToolOverride::default())])).unwrap();
    assert_eq!((tool.name(), tool.description()), ("get_pet", "two"));
}

#[test]
fn labels_are_replaced_as_a_whole_and_recorded_if_they_change() {
    let labels = |names: &[&str]| all_parsed::<LabelId, BTreeSet<_>>(names);
    let labelled = |names| ToolEvent::Labelled { labels: labels(names) };
    let tool = given(&[registered("one"), labelled(&["beta", "pii"])]);
    assert_eq!(decide(&tool, ToolCommand::Label(labels(&["pii", "beta"]))), Ok(vec![]));
    assert_eq!(decide(&tool, ToolCommand::Label(labels(&["pii"]))), Ok(vec![labelled(&["pii"])]));
    assert_eq!(decide(&tool, ToolCommand::Label(labels(&[]))), Ok(vec![labelled(&[])]));
    assert_eq!(
        given(&[registered("one"), labelled(&["beta"]), labelled(&["pii"])]).unwrap().labels,
        labels(&["pii"])
    );
}

#[test]
fn a_removed_tool_that_is_observed_again_starts_fresh_and_its_version_goes_on() {
    let first_life = [
        registered("one"),
        ToolEvent::Disabled {},
        ToolEvent::Overridden { overridden: renamed("pet") },
    ];
    let events = after(&first_life, &[ToolCommand::Remove, observe_for_review("two")]);
    assert!(events.ends_with(&[ToolEvent::Removed {}, registered_for_review("two")]), "{events:?}");

    let fresh = given(&[registered_for_review("two")]).unwrap();
    let expected =
        Tool { created_at: time(5), updated_at: time(5), version: StreamVersion(5), ..fresh };
    assert_eq!(given(&events), Some(expected));
}

#[test]
fn under_review_a_new_tool_waits_and_is_not_served() {
    assert_eq!(decide(&None, observe_for_review("one")), Ok(vec![registered_for_review("one")]));
    let events = [registered_for_review("one")];
    assert_eq!(served(&events), (None, ReviewState::Waiting));

    let tool = given(&events).unwrap();
    assert_eq!((tool.name(), tool.description()), ("get_pet", "one"));
    assert_eq!(tool.current_manifest(), &version("one"));
}

#[test]
fn under_review_a_changed_tool_waits_and_the_version_before_is_still_served() {
    let tool = given(&[registered("one")]);
    assert_eq!(decide(&tool, observe_for_review("two")), Ok(vec![updated_for_review("two")]));

    let events = [registered("one"), updated_for_review("two")];
    assert_eq!(served(&events), serves("one", ReviewState::Waiting));
    let tool = given(&events).unwrap();
    assert_eq!((tool.description(), tool.fingerprint), ("one", fingerprint("two")));
}

#[test]
fn a_second_change_while_one_waits_still_serves_the_approved_version() {
    let events = [registered("one"), updated_for_review("two"), updated_for_review("three")];
    assert_eq!(served(&events), serves("one", ReviewState::Waiting));
    let events = after(&events, &[approve("three")]);
    assert_eq!(served(&events), serves("three", ReviewState::Approved));
    let events = after(&events, &[observe_for_review("four")]);
    assert_eq!(served(&events), serves("three", ReviewState::Waiting));
}

#[test]
fn a_new_tool_that_changes_while_it_waits_is_still_not_served() {
    let events = [registered_for_review("one"), updated_for_review("two")];
    assert_eq!(served(&events), (None, ReviewState::Waiting));
    assert_eq!(served(&after(&events, &[approve("two")])), serves("two", ReviewState::Approved));
}

#[test]
fn an_approved_version_is_served() {
    let waiting = given(&[registered_for_review("one")]);
    assert_eq!(decide(&waiting, approve("one")), Ok(vec![approved("one")]));
    assert_eq!(
        served(&[registered_for_review("one"), approved("one")]),
        serves("one", ReviewState::Approved)
    );
    let changed = [registered("one"), updated_for_review("two"), approved("two")];
    assert_eq!(served(&changed), serves("two", ReviewState::Approved));
}

#[test]
fn a_version_is_approved_once() {
    for tool in
        [given(&[registered("one")]), given(&[registered_for_review("one"), approved("one")])]
    {
        assert_eq!(decide(&tool, approve("one")), Ok(vec![]));
    }
}

#[test]
fn a_review_of_another_version_than_the_last_observed_one_is_refused() {
    let refusal = CommandRefusal::ToolHasChanged { id: "pets:get_pet".into() };
    let waiting = given(&[registered("one"), updated_for_review("two")]);
    let approved = given(&[registered("one"), updated("two")]);
    for tool in [waiting, approved] {
        assert_eq!(decide(&tool, approve("one")), Err(refusal.clone()));
        assert_eq!(decide(&tool, reject("one")), Err(refusal.clone()));
    }
}

#[test]
fn a_version_that_is_approved_cannot_be_rejected() {
    let refusal = CommandRefusal::NothingToReview { id: "pets:get_pet".into() };
    assert_eq!(decide(&given(&[registered("one")]), reject("one")), Err(refusal));
}

#[test]
fn a_rejected_change_keeps_the_version_before() {
    let tool = given(&[registered("one"), updated_for_review("two")]);
    assert_eq!(decide(&tool, reject("two")), Ok(vec![rejected("two")]));

    let events = [registered("one"), updated_for_review("two"), rejected("two")];
    assert_eq!(served(&events), serves("one", ReviewState::Rejected));
    assert_eq!(decide(&given(&events), reject("two")), Ok(vec![]));
    assert_eq!(decide(&given(&events), observe_for_review("two")), Ok(vec![]));
}

#[test]
fn a_rejected_new_tool_is_not_served() {
    let events = [registered_for_review("one"), rejected("one")];
    assert_eq!(served(&events), (None, ReviewState::Rejected));
    assert_eq!(served(&after(&events, &[observe_for_review("two")])), (None, ReviewState::Waiting));
}

#[test]
fn a_rejection_can_be_taken_back() {
    let events = [registered("one"), updated_for_review("two"), rejected("two")];
    assert_eq!(decide(&given(&events), approve("two")), Ok(vec![approved("two")]));
    assert_eq!(served(&after(&events, &[approve("two")])), serves("two", ReviewState::Approved));
}

#[test]
fn a_change_after_a_rejection_waits_again_and_the_approved_version_is_served() {
    let events = [registered("one"), updated_for_review("two"), rejected("two")];
    let events = after(&events, &[observe_for_review("three")]);
    assert_eq!(served(&events), serves("one", ReviewState::Waiting));
}

#[test]
fn going_back_to_the_approved_version_leaves_nothing_to_review() {
    let events =
        after(&[registered("one"), updated_for_review("two")], &[observe_for_review("one")]);
    assert_eq!(served(&events), serves("one", ReviewState::Approved));
}

#[test]
fn once_the_source_is_trusted_a_change_is_served_at_once() {
    let waiting = [registered("one"), updated_for_review("two")];
    assert_eq!(
        served(&after(&waiting, &[observe("three")])),
        serves("three", ReviewState::Approved)
    );
    let never_approved = [registered_for_review("one")];
    assert_eq!(
        served(&after(&never_approved, &[observe("two")])),
        serves("two", ReviewState::Approved)
    );
}

#[test]
fn a_tool_that_goes_missing_during_review_is_still_pending_when_it_is_restored() {
    let commands = [ToolCommand::Deprecate, observe_for_review("two")];
    let events = after(&[registered("one"), updated_for_review("two")], &commands);
    assert!(events.ends_with(&[ToolEvent::Deprecated {}, ToolEvent::Restored {}]), "{events:?}");
    assert_eq!(served(&events), serves("one", ReviewState::Waiting));
}

fn any_events() -> impl Strategy<Value = Vec<ToolEvent>> {
    prop::collection::vec(prop::sample::select(tool_events()), 0..20)
}

fn finding(severity: Severity) -> Finding {
    let (at, what) = ("/description".into(), "has control characters".into());
    Finding { check: "text.control".into(), severity, at, offset: 0, what }
}

/// A refresh finds this version, and findings in it.
fn observe_with(description: &str, trust: Trust, findings: &[Finding]) -> ToolCommand {
    let ToolCommand::Observe(observation) = observation(version(description), trust) else {
        panic!("an observation")
    };
    ToolCommand::Observe(ToolObservation { findings: findings.to_vec(), ..observation })
}

fn approve_despite_findings(description: &str) -> ToolCommand {
    ToolCommand::Approve { fingerprint: fingerprint(description), despite_findings: true }
}

#[test]
fn a_version_with_a_critical_finding_needs_a_review_even_from_a_trusted_source() {
    let critical = [finding(Severity::Critical)];
    let tool = given(&after(&[], &[observe_with("one", Trust::Auto, &critical)])).unwrap();
    assert_eq!((tool.review, &tool.served), (ReviewState::Waiting, &ServedVersion::Nothing));
    assert_eq!(tool.findings, critical);
    // The earlier version stays in service, and the next version without findings is served again.
    let events = after(&[], &[observe("one"), observe_with("two", Trust::Auto, &critical)]);
    let tool = given(&events).unwrap();
    assert_eq!((tool.review, tool.description()), (ReviewState::Waiting, "one"));
    let tool = given(&after(&events, &[observe("three")])).unwrap();
    assert_eq!((tool.review, tool.description()), (ReviewState::Approved, "three"));
    assert!(tool.findings.is_empty());
}

#[test]
fn a_warning_does_not_require_a_review() {
    let findings = [finding(Severity::Warning), finding(Severity::Note)];
    let tool = given(&after(&[], &[observe_with("one", Trust::Auto, &findings)])).unwrap();
    assert_eq!((tool.review, tool.served), (ReviewState::Approved, ServedVersion::Latest));
    assert_eq!(tool.findings, findings);
}

#[test]
fn findings_block_an_approval_unless_the_admin_accepts_them() {
    for (severity, trust) in [
        (Severity::Critical, Trust::Auto),
        (Severity::Critical, Trust::Review),
        (Severity::Warning, Trust::Review),
    ] {
        let findings = vec![finding(severity), finding(Severity::Note)];
        let events = after(&[], &[observe_with("one", trust, &findings)]);
        let refused = decide(&given(&events), approve("one")).unwrap_err();
        let expected = CommandRefusal::HasFindings {
            id: "pets:get_pet".to_owned(),
            findings: vec![finding(severity)],
        };
        assert_eq!(refused, expected);
        assert!(refused.to_string().contains("text.control at `/description`"), "{refused}");
        let decided = decide(&given(&events), approve_despite_findings("one")).unwrap();
        let fingerprint = fingerprint("one");
        assert_eq!(decided, [ToolEvent::Approved { fingerprint, despite_findings: true }]);
        assert_eq!(given(&[events, decided].concat()).unwrap().served, ServedVersion::Latest);
    }
}

#[test]
fn approval_despite_findings_is_recorded_only_if_there_are_findings() {
    let notes = [finding(Severity::Note)];
    for findings in [&notes[..], &[]] {
        let events = after(&[], &[observe_with("one", Trust::Review, findings)]);
        assert_eq!(decide(&given(&events), approve("one")), Ok(vec![approved("one")]));
        let decided = decide(&given(&events), approve_despite_findings("one"));
        assert_eq!(decided, Ok(vec![approved("one")]));
    }
}

#[test]
fn another_inspection_of_the_same_version_does_not_change_its_review() {
    let critical = vec![finding(Severity::Critical)];
    let events = after(&[], &[observe("one")]);
    let again = observe_with("one", Trust::Auto, &critical);
    let decided = decide(&given(&events), again.clone()).unwrap();
    assert_eq!(decided, [ToolEvent::Inspected { findings: critical.clone() }]);
    let tool = given(&[events, decided].concat());
    assert_eq!(decide(&tool, again), Ok(vec![]));
    let tool = tool.unwrap();
    assert_eq!((tool.findings, tool.served), (critical, ServedVersion::Latest));
}

/// Commands about three versions of one tool.
fn any_command() -> impl Strategy<Value = ToolCommand> {
    let mut all = commands();
    for description in ["one", "two", "three"] {
        all.extend([observe(description), observe_for_review(description)]);
        all.extend([approve(description), reject(description)]);
        all.push(observe_with(description, Trust::Auto, &[finding(Severity::Critical)]));
        all.push(approve_despite_findings(description));
    }
    prop::sample::select(all)
}

proptest! {
    #[test]
    fn any_events_in_any_order_can_be_replayed(events in any_events()) {
        let tool = given(&events);
        prop_assert!(tool.is_none_or(|tool| tool.version == StreamVersion(events.len() as u64)));
    }

    #[test]
    fn events_before_the_registration_leave_no_trace(events in any_events()) {
        let before: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, ToolEvent::Registered { .. })).collect();
        prop_assert_eq!(given(&before), None);
    }

    #[test]
    fn a_command_given_twice_is_recorded_once(events in any_events(), command in any_command()) {
        if command != ToolCommand::Remove && let Ok(decided) = decide(&given(&events), command.clone()) {
            let tool = given(&[events, decided].concat());
            prop_assert_eq!(decide(&tool, command), Ok(vec![]));
        }
    }

    #[test]
    fn agents_only_get_what_was_approved_or_came_from_a_trusted_source(
        commands in prop::collection::vec(any_command(), 0..30),
    ) {
        let mut events = Vec::new();
        let mut trusted = BTreeSet::new();
        for command in commands {
            let Ok(decided) = decide(&given(&events), command.clone()) else { continue };
            events.extend(decided);
            match command {
                ToolCommand::Observe(ToolObservation { fingerprint, trust: Trust::Auto, findings, .. })
                    if findings.is_empty() =>
                {
                    trusted.insert(fingerprint);
                }
                ToolCommand::Approve { fingerprint, .. } => {
                    trusted.insert(fingerprint);
                }
                ToolCommand::Remove => trusted.clear(),
                _ => {}
            }
            if let Some(manifest) = given(&events).as_ref().and_then(Tool::served_manifest) {
                prop_assert!(trusted.contains(&manifest.fingerprint()));
            }
        }
    }
}
