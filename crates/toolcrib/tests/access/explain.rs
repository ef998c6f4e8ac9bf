//! Explanations why an agent has a tool or not: every reason, now and as of an earlier moment.

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::source::SourceCommand;
use catalog::tool::ToolCommand;
use serde_json::{Value, json};
use toolcrib::{AccessExplanation, BlockerCode, Command, JournalMoment, explain_access};

use crate::world::{World, from_json};

/// The staff may read: a group with `get_pet`, from which `add_pet` is excluded.
async fn world() -> World {
    let world = World::with_tools(&[("pets", &["get_pet", "add_pet", "rare"])]).await;
    let readers = json!({
        "selectors": [{"name": "*_pet"}], "excluded": [{"tool": "pets:add_pet", "reason": "only by hand"}],
    });
    world.group("readers", readers).await;
    world.policy("staff", json!({"role": "staff"}), &["readers"]).await;
    world
}

fn ask(world: &World, claims: Value, tool: &str) -> AccessExplanation {
    explain_access(&world.crib.catalog().snapshot(), &from_json(claims), Some(tool))
}

fn explain_tool(world: &World, claims: Value, tool: &str) -> (bool, Vec<BlockerCode>, String) {
    let tool = ask(world, claims, tool).tools.remove(0);
    let codes = tool.stopped_by.iter().map(|stop| stop.code).collect();
    (tool.granted, codes, tool.why)
}

fn staff() -> Value {
    json!({"role": "staff"})
}

#[tokio::test]
async fn a_granted_tool_names_its_policy_and_group() {
    let world = world().await;
    let said = "policy `staff` grants group `readers`, which selects it";
    for name in ["pets:get_pet", "get_pet", "pets__get_pet"] {
        assert_eq!(explain_tool(&world, staff(), name), (true, vec![], said.to_owned()));
    }
}

#[tokio::test]
async fn every_obstacle_of_a_tool_is_explained() {
    let world = world().await;
    let stopped = |claims: Value, tool: &str, code, said: &str| {
        assert_eq!(explain_tool(&world, claims, tool), (false, vec![code], said.to_owned()));
    };
    stopped(staff(), "nothing", BlockerCode::NoSuchTool, "there is no such tool");
    stopped(staff(), "add_pet", BlockerCode::Excluded, "group `readers` excludes it: only by hand");
    stopped(staff(), "rare", BlockerCode::InNoGroup, "no group has it");
    stopped(
        json!({"role": "guest"}),
        "get_pet",
        BlockerCode::NoPolicyMatches,
        "it is in group `readers`, but policy `staff`, which would grant it, is not active or does not match",
    );
}

#[tokio::test]
async fn every_disabled_entity_is_named() {
    let world = world().await;
    let tool = |command| Command::Tool("pets:get_pet".parse().unwrap(), command);
    let source = |command| Command::Source("pets".parse().unwrap(), command);
    let group = |command| Command::Group("readers".parse().unwrap(), command);
    let policy = |command| Command::Policy("staff".parse().unwrap(), command);
    let switches = [
        (tool(ToolCommand::Disable), tool(ToolCommand::Enable), BlockerCode::ToolDisabled),
        (
            source(SourceCommand::Disable),
            source(SourceCommand::Enable),
            BlockerCode::SourceDisabled,
        ),
        (
            group(GroupCommand::Deactivate),
            group(GroupCommand::Activate),
            BlockerCode::GroupInactive,
        ),
        (
            policy(PolicyCommand::Deactivate),
            policy(PolicyCommand::Activate),
            BlockerCode::NoPolicyMatches,
        ),
    ];
    for (off, on, code) in switches {
        world.execute(off).await;
        let (granted, codes, said) = explain_tool(&world, staff(), "get_pet");
        assert_eq!((granted, codes), (false, vec![code]), "{said}");
        world.execute(on).await;
    }
    assert!(explain_tool(&world, staff(), "get_pet").0);
}

#[tokio::test]
async fn every_policy_is_explained_with_each_matcher() {
    let world = world().await;
    let explained = ask(&world, json!({"role": "guest"}), "get_pet");
    let policy = &explained.policies[0];
    assert!(!policy.grants && policy.is_active);
    assert_eq!(policy.verdict.matchers[0].why, "`role` is \"guest\": it does not equal \"staff\"");
    assert!(explained.groups.is_empty());
    let explained = ask(&world, staff(), "add_pet");
    assert_eq!((explained.tool_count, explained.groups[0].tool_count), (1, 1));
    let group = &explained.tools[0].groups[0];
    assert_eq!(group.membership.selectors[0].failing, None);
    assert_eq!(group.membership.reason.as_deref(), Some("only by hand"));
}

#[tokio::test]
async fn an_earlier_moment_is_explained_from_the_journal() {
    let world = world().await;
    let before = world.crib.catalog().snapshot().position();
    world.execute(Command::Policy("staff".parse().unwrap(), PolicyCommand::Delete)).await;
    let claims = from_json(staff());
    let now = world.crib.explain(&claims, Some("get_pet"), None).await.unwrap();
    assert!(!now.tools[0].granted);
    let moment = Some(JournalMoment::Position(before));
    let then = world.crib.explain(&claims, Some("get_pet"), moment).await.unwrap();
    assert!(then.tools[0].granted);
    assert_eq!(then.position, before);
}
