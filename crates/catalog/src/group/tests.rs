//! Tests of the commands and states of a group, and of its members.

use model::McpPrimitive;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sample_events::{from_json, group_events, parsed, time};

fn id() -> GroupId {
    parsed("readers")
}

/// The state after these events, which happened at second 1, 2, …
fn given(events: &[GroupEvent]) -> Option<Group> {
    let mut known = None;
    for (count, event) in (1_u32..).zip(events) {
        Group::evolve(&mut known, &id(), event.clone(), time(count), StreamVersion(count.into()));
    }
    known
}

fn decide(known: &Option<Group>, command: GroupCommand) -> Result<Vec<GroupEvent>, CommandRefusal> {
    Group::decide(&id(), known.as_ref(), command)
}

/// The given events, followed by the resulting ones.
fn after(events: &[GroupEvent], commands: &[GroupCommand]) -> Vec<GroupEvent> {
    let mut events = events.to_vec();
    for command in commands {
        let decided = decide(&given(&events), command.clone()).unwrap();
        events.extend(decided);
    }
    events
}

fn profile(name: &str, mode: SelectorMode) -> GroupProfile {
    from_json(json!({"name": name, "selector_mode": mode}))
}

fn tools(keys: &[&str]) -> BTreeSet<ToolId> {
    keys.iter().map(|key| tool(key)).collect()
}

fn tool(key: &str) -> ToolId {
    ToolId::new(&parsed("pets"), key).unwrap()
}

/// Selectors that match names.
fn named(patterns: &[&str]) -> Vec<Selector> {
    patterns.iter().map(|pattern| from_json(json!({"name": pattern}))).collect()
}

fn exclusions(entries: &[(&str, &str)]) -> Vec<GroupExclusion> {
    entries
        .iter()
        .map(|(key, reason)| GroupExclusion { tool: tool(key), reason: (*reason).into() })
        .collect()
}

fn new_group() -> NewGroup {
    NewGroup {
        id: id(),
        profile: profile("Readers", SelectorMode::All),
        selectors: vec![],
        tools: tools(&[]),
        excluded: vec![],
    }
}

fn created() -> GroupEvent {
    GroupEvent::Created {
        profile: profile("Readers", SelectorMode::All),
        selectors: vec![],
        tools: tools(&[]),
        excluded: vec![],
    }
}

fn added(keys: &[&str]) -> GroupEvent {
    GroupEvent::ToolsAdded { tools: tools(keys) }
}

fn removed(keys: &[&str]) -> GroupEvent {
    GroupEvent::ToolsRemoved { tools: tools(keys) }
}

fn excluded(entries: &[(&str, &str)]) -> GroupEvent {
    GroupEvent::ToolsExcluded { excluded: exclusions(entries) }
}

fn selecting(patterns: &[&str]) -> GroupEvent {
    GroupEvent::SelectorsReplaced { selectors: named(patterns) }
}

/// True if a tool whose name equals its key belongs to the group.
fn includes(group: &Option<Group>, key: &str) -> bool {
    let facts = SelectorTarget {
        kind: McpPrimitive::Tool,
        source_id: "pets",
        source_name: "Pets",
        name: key,
        path: "",
        method: "",
        tags: &[],
        labels: &BTreeSet::new(),
    };
    let group = group.as_ref().unwrap();
    let includes = group.contains_tool(&tool(key), &facts);
    assert_eq!(group.explain_membership(&tool(key), &facts).member, includes);
    includes
}

#[test]
fn a_group_is_created_once() {
    let create = GroupCommand::Create(Box::new(new_group()));
    assert_eq!(decide(&None, create.clone()), Ok(vec![created()]));
    let refusal = CommandRefusal::AlreadyExists { what: "group", id: "readers".into() };
    assert_eq!(decide(&given(&[created()]), create), Err(refusal));
}

#[test]
fn a_group_is_created_with_all_its_settings() {
    let new = NewGroup {
        selectors: named(&["get_*"]),
        tools: tools(&["a"]),
        excluded: exclusions(&[("b", "slow")]),
        ..new_group()
    };
    let events = decide(&None, GroupCommand::Create(Box::new(new))).unwrap();
    let expected = Group {
        id: id(),
        profile: profile("Readers", SelectorMode::All),
        selectors: named(&["get_*"]),
        tools: tools(&["a"]),
        excluded: BTreeMap::from([(tool("b"), "slow".into())]),
        active: true,
        created_at: time(1),
        updated_at: time(1),
        version: StreamVersion(1),
    };
    assert_eq!(given(&events), Some(expected));
}

#[test]
fn an_unknown_group_refuses_every_command_except_creation() {
    let refusal = CommandRefusal::NotFound { what: "group", id: "readers".into() };
    let commands = [
        GroupCommand::Update(profile("Readers", SelectorMode::All)),
        GroupCommand::ReplaceSelectors(vec![]),
        GroupCommand::AddTools(tools(&["a"])),
        GroupCommand::RemoveTools(tools(&["a"])),
        GroupCommand::ReplaceTools(tools(&["a"])),
        GroupCommand::ExcludeTools(exclusions(&[("a", "")])),
        GroupCommand::IncludeTools(tools(&["a"])),
        GroupCommand::Activate,
        GroupCommand::Deactivate,
        GroupCommand::Delete,
    ];
    for known in [None, given(&[created(), GroupEvent::Deleted {}])] {
        for command in &commands {
            assert_eq!(decide(&known, command.clone()), Err(refusal.clone()));
        }
    }
}

#[test]
fn an_update_is_recorded_if_it_changes_something() {
    let group = given(&[created()]);
    let update = |mode| GroupCommand::Update(profile("Readers", mode));
    let updated = GroupEvent::Updated { profile: profile("Readers", SelectorMode::Any) };
    assert_eq!(decide(&group, update(SelectorMode::All)), Ok(vec![]));
    assert_eq!(decide(&group, update(SelectorMode::Any)), Ok(vec![updated.clone()]));

    let group = given(&[created(), updated]).unwrap();
    assert_eq!(group.profile, profile("Readers", SelectorMode::Any));
    assert_eq!(
        (group.created_at, group.updated_at, group.version),
        (time(1), time(2), StreamVersion(2))
    );
}

#[test]
fn a_group_is_replaced_as_a_whole_and_keeps_its_switch() {
    let wish = |name: &str, pattern: &str, keys: &[&str], excluded: &[(&str, &str)]| {
        GroupCommand::Replace(Box::new(NewGroup {
            id: id(),
            profile: profile(name, SelectorMode::Any),
            selectors: named(&[pattern]),
            tools: tools(keys),
            excluded: exclusions(excluded),
        }))
    };
    let first = GroupCommand::Create(Box::new(from_json(json!({
        "id": "readers", "profile": {"name": "Readers"}, "tools": ["pets:a", "pets:b"],
        "excluded": [{"tool": "pets:x", "reason": "old"}, {"tool": "pets:y"}],
    }))));
    let second = wish("Writers", "set_*", &["b", "c"], &[("y", "new"), ("z", "")]);
    let events = after(&[], &[first, GroupCommand::Deactivate, second.clone()]);
    let group = given(&events).unwrap();
    assert_eq!(group.profile, profile("Writers", SelectorMode::Any));
    assert_eq!(
        (group.selectors.clone(), group.tools.clone()),
        (named(&["set_*"]), tools(&["b", "c"]))
    );
    let excluded: Vec<_> =
        group.excluded.iter().map(|(tool, why)| (tool.operation_key(), &**why)).collect();
    assert_eq!(excluded, [("y", "new"), ("z", "")]);
    assert!(!group.active);
    assert_eq!(decide(&Some(group), second), Ok(vec![]));
}

#[test]
fn empty_and_too_many_selectors_are_refused() {
    let group = given(&[GroupEvent::Created {
        profile: profile("Readers", SelectorMode::All),
        selectors: vec![],
        tools: tools(&[]),
        excluded: vec![],
    }]);
    let replace = |selectors| decide(&group, GroupCommand::ReplaceSelectors(selectors));
    let nothing = from_json(json!([{"name": "a"}, {"kind": "tool"}]));
    assert_eq!(replace(nothing), Err(CommandRefusal::SelectorSaysNothing { number: 2 }));
    assert!(replace(named(&["a"; 100])).is_ok());
    let refusal = CommandRefusal::TooMany { what: "selectors", limit: 100 };
    assert_eq!(replace(named(&["a"; 101])), Err(refusal));
}

#[test]
fn selectors_of_several_kinds_cannot_all_match() {
    let mixed: Vec<Selector> = from_json(json!([{"name": "a"}, {"kind": "prompt", "name": "a"}]));
    let group = |mode, selectors: &[Selector]| {
        given(&[GroupEvent::Created {
            profile: profile("Readers", mode),
            selectors: selectors.to_vec(),
            tools: tools(&[]),
            excluded: vec![],
        }])
    };
    let replace = || GroupCommand::ReplaceSelectors(mixed.clone());
    let refused = Err(CommandRefusal::KindsExcludeEachOther);
    assert_eq!(decide(&group(SelectorMode::All, &[]), replace()), refused);
    assert!(decide(&group(SelectorMode::Any, &[]), replace()).is_ok());
    let update = |name, mode| GroupCommand::Update(profile(name, mode));
    let any = group(SelectorMode::Any, &mixed);
    assert_eq!(decide(&any, update("Readers", SelectorMode::All)), refused);
    // An existing group of this form can still be changed in other ways.
    let all = group(SelectorMode::All, &mixed);
    assert!(decide(&all, update("Others", SelectorMode::All)).is_ok());
}

#[test]
fn selectors_are_replaced_as_a_whole() {
    let group = given(&[created(), selecting(&["a", "b"])]);
    let replace = |patterns: &[&str]| GroupCommand::ReplaceSelectors(named(patterns));
    assert_eq!(decide(&group, replace(&["a", "b"])), Ok(vec![]));
    assert_eq!(decide(&group, replace(&["c"])), Ok(vec![selecting(&["c"])]));
    assert_eq!(decide(&group, replace(&[])), Ok(vec![selecting(&[])]));
    assert_eq!(
        given(&[created(), selecting(&["a"]), selecting(&["c"])]).unwrap().selectors,
        named(&["c"])
    );
}

#[test]
fn only_new_tools_are_added() {
    let group = given(&[created(), added(&["a"])]);
    assert_eq!(decide(&group, GroupCommand::AddTools(tools(&["a", "b"]))), Ok(vec![added(&["b"])]));
    assert_eq!(decide(&group, GroupCommand::AddTools(tools(&["a"]))), Ok(vec![]));
    assert_eq!(decide(&group, GroupCommand::AddTools(tools(&[]))), Ok(vec![]));
}

#[test]
fn only_existing_tools_are_removed() {
    let group = given(&[created(), added(&["a", "b"])]);
    assert_eq!(
        decide(&group, GroupCommand::RemoveTools(tools(&["b", "c"]))),
        Ok(vec![removed(&["b"])])
    );
    assert_eq!(decide(&group, GroupCommand::RemoveTools(tools(&["c"]))), Ok(vec![]));
    assert_eq!(
        given(&[created(), added(&["a", "b"]), removed(&["b"])]).unwrap().tools,
        tools(&["a"])
    );
}

#[test]
fn replacing_tools_records_the_difference() {
    let group = given(&[created(), added(&["a", "b"])]);
    let replace = |keys: &[&str]| decide(&group, GroupCommand::ReplaceTools(tools(keys)));
    assert_eq!(replace(&["b", "c"]), Ok(vec![removed(&["a"]), added(&["c"])]));
    assert_eq!(replace(&["a", "b", "c"]), Ok(vec![added(&["c"])]));
    assert_eq!(replace(&["a"]), Ok(vec![removed(&["b"])]));
    assert_eq!(replace(&[]), Ok(vec![removed(&["a", "b"])]));
    assert_eq!(replace(&["a", "b"]), Ok(vec![]));
}

#[test]
fn an_exclusion_is_recorded_if_the_tool_or_the_reason_is_new() {
    let group = given(&[created(), excluded(&[("a", "slow")])]);
    let exclude =
        |entries: &[(&str, &str)]| decide(&group, GroupCommand::ExcludeTools(exclusions(entries)));
    assert_eq!(exclude(&[("a", "slow")]), Ok(vec![]));
    assert_eq!(exclude(&[]), Ok(vec![]));
    assert_eq!(exclude(&[("a", "slow"), ("b", "")]), Ok(vec![excluded(&[("b", "")])]));
    assert_eq!(exclude(&[("a", "wrong")]), Ok(vec![excluded(&[("a", "wrong")])]));

    let group =
        given(&[created(), excluded(&[("a", "slow")]), excluded(&[("a", "wrong"), ("b", "")])]);
    let expected = BTreeMap::from([(tool("a"), "wrong".into()), (tool("b"), "".into())]);
    assert_eq!(group.unwrap().excluded, expected);
}

#[test]
fn a_tool_excluded_for_two_reasons_at_once_is_recorded_once() {
    let exclude = GroupCommand::ExcludeTools(exclusions(&[("a", "slow"), ("a", "wrong")]));
    let events = after(&[created()], std::slice::from_ref(&exclude));
    assert_eq!(decide(&given(&events), exclude), Ok(vec![]));
}

#[test]
fn only_tools_that_are_excluded_can_be_included() {
    let group = given(&[created(), excluded(&[("a", "slow")])]);
    let included = GroupEvent::ToolsIncluded { tools: tools(&["a"]) };
    assert_eq!(
        decide(&group, GroupCommand::IncludeTools(tools(&["a", "b"]))),
        Ok(vec![included.clone()])
    );
    assert_eq!(decide(&group, GroupCommand::IncludeTools(tools(&["b"]))), Ok(vec![]));
    assert_eq!(
        given(&[created(), excluded(&[("a", "slow")]), included]).unwrap().excluded,
        BTreeMap::new()
    );
}

#[test]
fn the_switch_is_recorded_once() {
    let on = given(&[created()]);
    assert_eq!(decide(&on, GroupCommand::Activate), Ok(vec![]));
    assert_eq!(decide(&on, GroupCommand::Deactivate), Ok(vec![GroupEvent::Deactivated {}]));

    let off = given(&[created(), GroupEvent::Deactivated {}]);
    assert_eq!(decide(&off, GroupCommand::Deactivate), Ok(vec![]));
    assert_eq!(decide(&off, GroupCommand::Activate), Ok(vec![GroupEvent::Activated {}]));
    let on_again = given(&[created(), GroupEvent::Deactivated {}, GroupEvent::Activated {}]);
    assert_eq!((off.unwrap().active, on_again.unwrap().active), (false, true));
}

#[test]
fn a_group_created_again_starts_fresh_and_its_version_goes_on() {
    let first_life = [created(), added(&["a"]), GroupEvent::Deactivated {}];
    let create = GroupCommand::Create(Box::new(new_group()));
    let events = after(&first_life, &[GroupCommand::Delete, create]);
    assert!(events.ends_with(&[GroupEvent::Deleted {}, created()]), "{events:?}");

    let fresh = given(&[created()]).unwrap();
    let expected =
        Group { created_at: time(5), updated_at: time(5), version: StreamVersion(5), ..fresh };
    assert_eq!(given(&events), Some(expected));
}

#[test]
fn a_group_without_selectors_selects_nothing() {
    for mode in [SelectorMode::All, SelectorMode::Any] {
        let group = given(&[created(), GroupEvent::Updated { profile: profile("Readers", mode) }]);
        assert!(!includes(&group, "get_pet"), "{mode:?}");
    }
}

#[test]
fn a_tool_must_match_all_selectors_or_any_as_the_group_says() {
    let group_in = |mode| {
        given(&[
            created(),
            selecting(&["get_*", "*_pet"]),
            GroupEvent::Updated { profile: profile("Readers", mode) },
        ])
    };
    let verdicts = |mode| {
        ["get_pet", "get_dog", "put_pet", "put_dog"].map(|key| includes(&group_in(mode), key))
    };
    assert_eq!(verdicts(SelectorMode::All), [true, false, false, false]);
    assert_eq!(verdicts(SelectorMode::Any), [true, true, true, false]);
}

#[test]
fn excluded_beats_explicit_and_explicit_beats_selectors() {
    let group = given(&[created(), selecting(&["get_*"]), added(&["put_pet"])]);
    assert_eq!(
        ["get_pet", "put_pet", "put_dog"].map(|key| includes(&group, key)),
        [true, true, false]
    );

    let narrowed = [
        created(),
        selecting(&["get_*"]),
        added(&["put_pet"]),
        excluded(&[("get_pet", ""), ("put_pet", "")]),
    ];
    let group = given(&narrowed);
    assert_eq!(
        ["get_pet", "put_pet", "get_dog"].map(|key| includes(&group, key)),
        [false, false, true]
    );

    let group = given(&after(&narrowed, &[GroupCommand::IncludeTools(tools(&["put_pet"]))]));
    assert_eq!(["get_pet", "put_pet"].map(|key| includes(&group, key)), [false, true]);
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn any_tools() -> impl Strategy<Value = BTreeSet<ToolId>> {
    prop::collection::btree_set(prop::sample::select(KEYS.map(tool).to_vec()), 0..4)
}

fn any_exclusions() -> impl Strategy<Value = Vec<GroupExclusion>> {
    let reason = prop::sample::select(vec!["slow", "wrong"]);
    let entry = |(tool, reason): (ToolId, &str)| GroupExclusion { tool, reason: reason.into() };
    let entries =
        prop::collection::btree_map(prop::sample::select(KEYS.map(tool).to_vec()), reason, 0..4);
    entries.prop_map(move |entries| entries.into_iter().map(entry).collect())
}

/// Commands that keep the group and are idempotent.
fn any_command() -> impl Strategy<Value = GroupCommand> {
    let modes = vec![SelectorMode::All, SelectorMode::Any];
    let patterns = prop::sample::subsequence(vec!["*", "a", "[b-d]", "{a,c}"], 0..4);
    prop_oneof![
        prop::sample::select(modes).prop_map(|mode| GroupCommand::Update(profile("Readers", mode))),
        patterns.prop_map(|patterns| GroupCommand::ReplaceSelectors(named(&patterns))),
        any_tools().prop_map(GroupCommand::AddTools),
        any_tools().prop_map(GroupCommand::RemoveTools),
        any_tools().prop_map(GroupCommand::ReplaceTools),
        any_exclusions().prop_map(GroupCommand::ExcludeTools),
        any_tools().prop_map(GroupCommand::IncludeTools),
        Just(GroupCommand::Activate),
        Just(GroupCommand::Deactivate),
    ]
}

fn any_commands() -> impl Strategy<Value = Vec<GroupCommand>> {
    prop::collection::vec(any_command(), 0..12)
}

fn any_events() -> impl Strategy<Value = Vec<GroupEvent>> {
    prop::collection::vec(prop::sample::select(group_events()), 0..20)
}

proptest! {
    #[test]
    fn any_events_in_any_order_can_be_replayed(events in any_events()) {
        let group = given(&events);
        prop_assert!(group.is_none_or(|group| group.version == StreamVersion(events.len() as u64)));
    }

    #[test]
    fn events_before_the_creation_leave_no_trace(events in any_events()) {
        let before: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, GroupEvent::Created { .. })).collect();
        prop_assert_eq!(given(&before), None);
    }

    #[test]
    fn a_command_given_twice_is_recorded_once(before in any_commands(), command in any_command()) {
        let events = after(&[created()], &before);
        let events = after(&events, std::slice::from_ref(&command));
        prop_assert_eq!(decide(&given(&events), command), Ok(vec![]));
    }

    #[test]
    fn an_excluded_tool_stays_out_until_it_is_included(before in any_commands(), later in any_commands()) {
        let later = later.into_iter().filter(|command| !matches!(command, GroupCommand::IncludeTools(_)));
        let mut commands = before;
        commands.push(GroupCommand::ExcludeTools(exclusions(&[("a", "never")])));
        commands.extend(later);
        prop_assert!(!includes(&given(&after(&[created()], &commands)), "a"));
    }

    #[test]
    fn replacing_the_tools_leaves_exactly_these(before in any_commands(), tools in any_tools()) {
        let events = after(&[created()], &before);
        let events = after(&events, &[GroupCommand::ReplaceTools(tools.clone())]);
        prop_assert_eq!(given(&events).unwrap().tools, tools);
    }
}
