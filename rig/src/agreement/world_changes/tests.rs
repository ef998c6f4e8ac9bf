//! The lifecycle of tools, checked with hand-written cases.

use serde_json::{Value, json};

use super::ChangeRefusal;
use crate::agreement::world::{World, WorldChange};

fn tell(world: &mut World, wish: Value) -> Result<(), ChangeRefusal> {
    let wish: WorldChange = serde_json::from_value(wish).unwrap();
    world.apply(&wish)
}

fn register(world: &mut World, is_reviewed: bool) {
    let profile = json!({"name": "S", "is_reviewed": is_reviewed, "visibility": "listed"});
    assert_eq!(tell(world, json!({"source": ["s", {"register": profile}]})), Ok(()));
}

fn ingest(world: &mut World, tools: &[(&str, usize)], force: bool) -> Result<(), ChangeRefusal> {
    let manifest = |edition: usize| json!({"name": "a", "method": "GET", "path": "/a", "tags": [], "edition": edition});
    let tools: serde_json::Map<String, Value> =
        tools.iter().map(|(key, edition)| ((*key).to_owned(), manifest(*edition))).collect();
    tell(world, json!({"source": ["s", {"ingest": {"tools": tools, "force": force}}]}))
}

#[test]
fn a_deprecated_tool_stays_disabled_and_cannot_be_enabled() {
    let mut world = World::default();
    register(&mut world, false);
    ingest(&mut world, &[("a", 0), ("b", 0)], false).unwrap();
    tell(&mut world, json!({"tool": ["s:a", "disable"]})).unwrap();
    ingest(&mut world, &[("b", 0)], false).unwrap();
    assert!(!world.tools["s:a"].is_active);
    assert_eq!(tell(&mut world, json!({"tool": ["s:a", "enable"]})), Err(ChangeRefusal));
    ingest(&mut world, &[("a", 0), ("b", 0)], false).unwrap();
    assert!(world.tools["s:a"].is_active && !world.tools["s:a"].is_enabled);
}

#[test]
fn a_refresh_that_removes_too_many_tools_is_refused() {
    let mut world = World::default();
    register(&mut world, false);
    ingest(&mut world, &[("a", 0), ("b", 0), ("c", 0)], false).unwrap();
    assert_eq!(ingest(&mut world, &[("a", 0)], false), Err(ChangeRefusal));
    assert_eq!(ingest(&mut world, &[], false), Err(ChangeRefusal));
    assert!(world.tools.values().all(|tool| tool.is_active));
    ingest(&mut world, &[], true).unwrap();
    assert!(!world.tools.values().any(|tool| tool.is_active));
}

#[test]
fn under_review_agents_keep_the_last_approved_version() {
    let mut world = World::default();
    register(&mut world, true);
    ingest(&mut world, &[("a", 0)], false).unwrap();
    assert_eq!(world.tools["s:a"].approved, None);
    tell(&mut world, json!({"tool": ["s:a", "approve"]})).unwrap();
    ingest(&mut world, &[("a", 1)], false).unwrap();
    let approved = |world: &World| world.tools["s:a"].approved.as_ref().map(|tool| tool.edition);
    assert_eq!(approved(&world), Some(0));
    tell(&mut world, json!({"tool": ["s:a", "reject"]})).unwrap();
    assert_eq!(approved(&world), Some(0));
    tell(&mut world, json!({"tool": ["s:a", "approve"]})).unwrap();
    assert_eq!(approved(&world), Some(1));
    assert_eq!(tell(&mut world, json!({"tool": ["s:a", "reject"]})), Err(ChangeRefusal));
}

#[test]
fn a_recreated_label_is_on_no_tool() {
    let mut world = World::default();
    register(&mut world, false);
    ingest(&mut world, &[("a", 0)], false).unwrap();
    assert_eq!(tell(&mut world, json!({"tool": ["s:a", {"label": ["l"]}]})), Err(ChangeRefusal));
    tell(&mut world, json!({"label": ["l", "create"]})).unwrap();
    tell(&mut world, json!({"tool": ["s:a", {"label": ["l"]}]})).unwrap();
    tell(&mut world, json!({"label": ["l", "delete"]})).unwrap();
    tell(&mut world, json!({"label": ["l", "create"]})).unwrap();
    assert!(world.tools["s:a"].labels.is_empty());
}

#[test]
fn a_policy_needs_a_matcher_and_an_existing_group() {
    let mut world = World::default();
    let content = json!({"is_active": true, "any": false, "visibility": null,
        "selectors": [], "tools": [], "excluded": []});
    tell(&mut world, json!({"group": ["g", {"create": content}]})).unwrap();
    let mut define = |matchers: Value, groups: Value| {
        let rules = json!({"priority": 0, "matchers": matchers, "groups": groups});
        tell(&mut world, json!({"policy": ["p", {"define": rules}]}))
    };
    let matcher = json!([{"claim": "role", "operator": "exists"}]);
    assert_eq!(define(json!([]), json!(["g"])), Err(ChangeRefusal));
    assert_eq!(define(matcher.clone(), json!([])), Err(ChangeRefusal));
    assert_eq!(define(matcher.clone(), json!(["h"])), Err(ChangeRefusal));
    assert_eq!(define(matcher, json!(["g"])), Ok(()));
    assert_eq!(tell(&mut world, json!({"group": ["g", "delete"]})), Err(ChangeRefusal));
    tell(&mut world, json!({"policy": ["p", "delete"]})).unwrap();
    assert_eq!(tell(&mut world, json!({"group": ["g", "delete"]})), Ok(()));
}

#[test]
fn removing_a_source_removes_its_tools() {
    let mut world = World::default();
    register(&mut world, false);
    ingest(&mut world, &[("a", 0)], false).unwrap();
    tell(&mut world, json!({"source": ["s", "remove"]})).unwrap();
    assert!(world.tools.is_empty());
    assert_eq!(tell(&mut world, json!({"source": ["s", "enable"]})), Err(ChangeRefusal));
}
