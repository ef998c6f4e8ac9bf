//! Previews of changes: the effect on agents, before anything is changed.

use catalog::group::GroupCommand;
use catalog::policy::PolicyCommand;
use catalog::tool::ToolCommand;
use serde_json::{Value, json};
use toolcrib::{AccessEffect, Command, CommandError, CommandRefusal};

use crate::world::{World, from_json};

async fn world() -> World {
    let world =
        World::with_tools(&[("github", &["search", "merge"]), ("gitlab", &["search"])]).await;
    world.group("hub", json!({"selectors": [{"source": "github"}]})).await;
    world.policy("dev", json!({"role": "dev"}), &["hub"]).await;
    world
}

fn group(id: &str, selectors: Value) -> Command {
    let new = json!({"id": id, "profile": {"name": id}, "selectors": selectors});
    Command::Group(id.parse().unwrap(), GroupCommand::Create(Box::new(from_json(new))))
}

fn policy(id: &str, role: &str, groups: &[&str]) -> PolicyCommand {
    let matchers = json!([{"claim": "role", "operator": "equals", "value": role}]);
    let rules = json!({"name": id, "matchers": matchers, "groups": groups});
    PolicyCommand::Define(from_json(rules))
}

async fn effects(world: &World, commands: &[Command]) -> Vec<AccessEffect> {
    let agents = [json!({"role": "dev"}), json!({"role": "guest"})].map(from_json);
    world.crib.what_if(commands, &agents).await.unwrap()
}

fn ids(tools: &[model::ToolId]) -> Vec<&str> {
    tools.iter().map(model::ToolId::as_str).collect()
}

#[tokio::test]
async fn gained_lost_and_renamed_tools_are_reported_for_each_agent() {
    let world = world().await;
    let commands = [
        group("lab", json!([{"source": "gitlab"}])),
        Command::Policy("all".parse().unwrap(), policy("all", "dev", &["lab"])),
        Command::Tool("github:merge".parse().unwrap(), ToolCommand::Disable),
    ];
    let effects = effects(&world, &commands).await;
    let dev = &effects[0];
    assert_eq!((ids(&dev.gained), ids(&dev.lost)), (vec!["gitlab:search"], vec!["github:merge"]));
    assert_eq!((&*dev.renamed[0].before, &*dev.renamed[0].after), ("search", "github__search"));
    assert_eq!((dev.before.tools, dev.after.tools), (2, 2));
    let change =
        i64::try_from(dev.after.tokens).unwrap() - i64::try_from(dev.before.tokens).unwrap();
    assert!(dev.tokens_change == change && 0 < dev.before.tokens);
    let guest = &effects[1];
    assert!(guest.gained.is_empty() && guest.lost.is_empty() && guest.tokens_change == 0);
}

#[tokio::test]
async fn a_preview_changes_nothing() {
    let world = world().await;
    let before = world.crib.catalog().snapshot();
    effects(&world, &[group("lab", json!([{"name": "*"}]))]).await;
    let after = world.crib.catalog().snapshot();
    assert_eq!(before.position(), after.position());
    assert_eq!(before.digest(), after.digest());
    let head = world.crib.catalog().journal().head_position().await.unwrap();
    assert_eq!(head, after.position());
}

#[tokio::test]
async fn a_preview_of_a_refused_command_is_refused() {
    let world = world().await;
    let grant = Command::Policy("p".parse().unwrap(), policy("p", "dev", &["nowhere"]));
    let refused = world.crib.what_if(&[grant], &[]).await;
    assert!(matches!(refused, Err(CommandError::Refused(CommandRefusal::NoSuchGroups { .. }))));
}

#[tokio::test]
async fn the_preview_matches_the_actual_effect() {
    let world = world().await;
    let commands = [
        group("lab", json!([{"name": "s*"}])),
        Command::Policy("guests".parse().unwrap(), policy("guests", "guest", &["lab"])),
    ];
    let said = effects(&world, &commands).await;
    assert_eq!(ids(&said[1].gained), ["github:search", "gitlab:search"]);
    for command in commands {
        world.execute(command).await;
    }
    let view = world.view(json!({"role": "guest"}));
    let list = view.list();
    let has: Vec<_> = list.iter().map(|tool| tool.id().unwrap().as_str()).collect();
    assert_eq!(has, ids(&said[1].gained));
}
